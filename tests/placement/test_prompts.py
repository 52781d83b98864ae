"""A prompt is named as the engine sees it: by its own template and tokenizer, and by bytes without them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.gsm.naming import name_groups
from backends.placement.naming import ByteNamer, PromptText, TokenNamer, root_of
from backends.placement.template import ChatTemplate, TemplateFailed, load_template
from backends.placement.tokens import PrefixTokenizer
from tests.fakes.tokenizer import TEMPLATE, TEXT, trained

Turns = Sequence[Mapping[str, Any]]


def turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def text_of(messages: Turns, *, tools: Sequence[Any] = (), salt: str = "") -> PromptText:
    raw = json.dumps(tools).encode() if tools else b""
    parts = [*([raw] if raw else []), *(json.dumps(message).encode() for message in messages)]
    return PromptText(parts, 0, salt, json.dumps(messages).encode(), raw)


def namer(group_tokens: int = 8) -> TokenNamer:
    return TokenNamer("m", PrefixTokenizer(trained()), ChatTemplate(TEMPLATE, {}), group_tokens)


ONE, OTHER = "One thing, at some length, please?", "Another and quite different thing, please?"
SYSTEM = turn("system", "You answer briefly. " * 20)


def test_names_are_those_of_the_tokens_that_the_engine_reads():
    messages = [SYSTEM, turn("user", "Hello there")]
    rendered = ChatTemplate(TEMPLATE, {}).render(messages)
    ids = trained().encode(rendered, add_special_tokens=False).ids
    prompt = namer().name(text_of(messages, salt="acme"))
    assert list(prompt.names) == name_groups(ids, 8, root_of("m", "acme"))
    assert prompt.tokens == len(ids)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_a_conversation_that_is_read_turn_by_turn_has_the_tokens_of_the_whole(texts: list[str]):
    plain, remembering, group = trained(), PrefixTokenizer(trained()), 4
    for end in range(1, len(texts) + 1):
        messages = [turn("user" if i % 2 == 0 else "assistant", text) for i, text in enumerate(texts[:end])]
        rendered = ChatTemplate(TEMPLATE, {}).render(messages)
        ids = plain.encode(rendered, add_special_tokens=False).ids
        names, tokens = remembering.name(rendered, group, b"root")
        assert (list(names), tokens) == (name_groups(ids, group, b"root"), len(ids))


def test_a_long_conversation_is_not_read_anew_each_turn():
    tokenizer = PrefixTokenizer(trained())
    template, messages = ChatTemplate(TEMPLATE, {}), [SYSTEM]
    whole, rendered = 0, ""
    for index in range(50):
        messages.append(turn("user" if index % 2 == 0 else "assistant", f"{index}. " + TEXT[index % 2]))
        rendered = template.render(messages)
        whole += len(rendered)
        tokenizer.name(rendered, 8, b"root")
    assert tokenizer.encoded_characters < 3 * len(rendered)
    assert whole > 20 * len(rendered)


@pytest.mark.parametrize("make", [namer, lambda: ByteNamer("m", 8)], ids=["tokens", "bytes"])
def test_conversations_share_what_they_begin_with_and_tenants_nothing(make: Any):
    names = make()
    one = names.name(text_of([SYSTEM, turn("user", ONE)])).names
    other = names.name(text_of([SYSTEM, turn("user", OTHER)])).names
    shared = sum(a == b for a, b in zip(one, other, strict=False))
    assert 5 < shared < min(len(one), len(other))
    salted = names.name(text_of([SYSTEM, turn("user", ONE)], salt="acme")).names
    assert not set(salted) & set(one)


@pytest.mark.parametrize("make", [namer, lambda: ByteNamer("m", 8)], ids=["tokens", "bytes"])
def test_other_tools_change_names_from_where_the_tools_stand(make: Any):
    names, messages = make(), [SYSTEM, turn("user", "Hello")]
    first = {"type": "function", "function": {"name": "weather", "description": "How it is outside. " * 5}}
    one = names.name(text_of(messages, tools=[first])).names
    two = names.name(text_of(messages, tools=[first, {**first, "strict": True}])).names
    shared = sum(a == b for a, b in zip(one, two, strict=False))
    assert 0 < shared < len(one)
    assert shared == next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)


def test_a_message_that_holds_an_image_is_named_by_bytes():
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500}}]
    prompt = text_of([turn("user", picture)])
    assert namer().name(prompt) == ByteNamer("m", 8).name(prompt)


def test_turns_of_a_conversation_have_one_session_and_others_another():
    names = ByteNamer("m", 8)
    start = [SYSTEM, turn("user", "Hello")]
    later = [*start, turn("assistant", "Hi"), turn("user", "And now?")]
    assert names.name(text_of(start)).session == names.name(text_of(later)).session
    assert names.name(text_of(start)).session != names.name(text_of([SYSTEM, turn("user", "Ho")])).session


def test_a_template_is_read_from_the_files_of_a_model(tmp_path: Path):
    assert load_template(tmp_path) is None
    config = {"chat_template": "{{ bos_token }}{{ messages[0].content }}", "bos_token": {"content": "<s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    template = load_template(tmp_path)
    assert template is not None
    assert (
        template.render([turn("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])])
        == "<s>a\nb"
    )
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no') }}")
    refusing = load_template(tmp_path)
    assert refusing is not None
    with pytest.raises(TemplateFailed, match="no"):
        refusing.render([turn("user", "a")])


def test_a_template_cannot_reach_out_of_itself():
    template = ChatTemplate("{{ ''.__class__.__mro__[1].__subclasses__() }}", {})
    with pytest.raises(TemplateFailed):
        template.render([turn("user", "a")])


def test_a_folder_without_a_tokenizer_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        PrefixTokenizer.load(tmp_path)
