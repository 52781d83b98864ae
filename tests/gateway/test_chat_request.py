"""Chat requests: read once, checked, and sent on with every byte that Flashlane has no reason to change."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.model import Classifier
from gateway.errors import BodyInvalid
from gateway.requests.body import ISOLATION_FIELDS
from gateway.requests.chat import ChatRequest, parse_chat
from gateway.requests.upstream import upstream_body
from policies.errors import InputTooLong
from policies.tokens import estimate_tokens

USER = {"role": "user", "content": "Hi"}


def chat(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    """Read a request that was written by Python's own JSON."""
    body = {"model": "auto", "messages": list(messages) or [USER], **fields}
    return parse_chat(json.dumps(body).encode())


def sent(
    request: ChatRequest, cap: int | None = None, salt: str | None = None, *, running_usage: bool = False
) -> Any:
    """Return what goes to the engine."""
    body = upstream_body(
        request, "engine", max_output_tokens=cap, cache_salt=salt, running_usage=running_usage
    )
    return json.loads(body)


def with_field(text: str) -> bytes:
    """Return a request's body with one more field, as text."""
    return b'{"model":"auto","messages":[{"role":"user","content":"Hi"}],' + text.encode() + b"}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
READ = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools"}
texts = st.text(st.characters(codec="utf-8"))


@given(
    st.dictionaries(texts, json_values, max_size=5),
    st.lists(
        st.fixed_dictionaries({"role": texts, "content": texts}, optional={"x": json_values}), min_size=1
    ),
    st.booleans(),
)
def test_every_field_arrives_as_it_was_sent(extra: dict[str, Any], messages: list[Any], ascii_only: bool):
    extra = {key: value for key, value in extra.items() if key not in {*READ, *ISOLATION_FIELDS}}
    body = {**extra, "model": "auto", "messages": messages}
    request = parse_chat(json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))
    assert sent(request) == {**body, "model": "engine"}
    assert [message.text() for message in request.messages] == [message["content"] for message in messages]
    request.conversation()


@pytest.mark.parametrize(
    "number", ["18446744073709551617", "0.10", "1e400", "-0.0", "3.141592653589793238462643383279"]
)
def test_numbers_keep_their_digits(number: str):
    body = upstream_body(
        parse_chat(with_field(f'"x":{number},"y":[{number}]')),
        "engine",
        max_output_tokens=None,
        cache_salt=None,
    )
    assert f'"x":{number}'.encode() in body
    assert f'"y":[{number}]'.encode() in body


def test_of_a_field_that_comes_twice_the_last_one_counts():
    request = parse_chat(with_field('"max_tokens":1,"max_tokens":5,"cache_salt":"a","cache_salt":"b"'))
    assert request.max_output_tokens == 5
    assert sent(request)["max_tokens"] == 5
    assert "cache_salt" not in sent(request)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, None),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 8}, 8),
        ({"max_tokens": 7, "max_completion_tokens": 8}, 8),
        ({"max_tokens": 7, "max_completion_tokens": None}, 7),
        ({"max_tokens": None}, None),
    ],
)
def test_the_limit_of_the_answer_is_read_under_both_names(fields: dict[str, Any], limit: int | None):
    assert chat(**fields).max_output_tokens == limit


def test_a_cap_stands_under_the_name_that_the_client_used():
    assert sent(chat(), cap=3)["max_tokens"] == 3
    assert sent(chat(max_tokens=7), cap=3)["max_tokens"] == 3
    capped = sent(chat(max_completion_tokens=7), cap=3)
    assert capped["max_completion_tokens"] == 3
    assert "max_tokens" not in capped


def test_a_cap_holds_where_the_client_used_both_names():
    capped = sent(chat(max_completion_tokens=7, max_tokens=900), cap=3)
    assert (capped["max_tokens"], capped["max_completion_tokens"]) == (3, 3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False, "x": 1.0}, {"include_usage": True, "x": 1.0}),
        ({"include_usage": True, "x": 1.0}, {"include_usage": True, "x": 1.0}),
    ],
)
def test_a_stream_always_asks_the_engine_for_usage(options: dict[str, Any] | None, expected: dict[str, Any]):
    request = chat(stream=True, stream_options=options)
    assert request.wants_usage is bool(options and options.get("include_usage"))
    assert sent(request)["stream_options"] == expected
    assert "stream_options" not in sent(chat(stream=False))


RUNNING = {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, RUNNING),
        ({"stream_options": {"include_usage": True}}, RUNNING),
        ({"stream_options": {"continuous_usage_stats": True}}, RUNNING),
        ({"stream_options": {**RUNNING, "x": 1.0}}, {**RUNNING, "x": 1.0}),
        ({"n": None}, RUNNING),
        ({"n": 2}, {"include_usage": True}),  # of which each choice would be counted for itself
    ],
)
def test_an_engine_that_can_tell_usage_as_it_goes_is_asked_to(fields: dict[str, Any], expected: Any):
    assert sent(chat(stream=True, **fields), running_usage=True)["stream_options"] == expected
    assert "stream_options" not in sent(chat(stream=False), running_usage=True)


def test_isolation_fields_are_dropped_and_a_salt_comes_from_policy():
    request = chat(**dict.fromkeys(ISOLATION_FIELDS, "smuggled"))
    assert not set(ISOLATION_FIELDS) & sent(request).keys()
    assert sent(request, salt="acme")["cache_salt"] == "acme"


PARTS: list[dict[str, Any]] = [
    {"type": "text", "text": "What is"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "text", "text": "in it?"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
]


def test_of_parts_the_text_is_read_and_the_rest_is_counted():
    request = chat({"role": "user", "content": PARTS})
    conversation = request.conversation()
    assert conversation.turns[-1].text == "What is\nin it?"
    assert conversation.attachments == 2
    assert sent(request)["messages"][0]["content"] == PARTS


def test_the_conversation_is_the_turns_of_the_user():
    request = chat(
        {"role": "developer", "content": "Be brief."},
        *({"role": role, "content": f"{role} {n}"} for n in range(3) for role in ("user", "assistant")),
        {"role": "system", "content": "In French."},
        {"role": "user", "content": "and now?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "42", "tool_call_id": "1"},
    )
    conversation = request.conversation()
    assert [turn.text for turn in conversation.turns] == ["user 0", "user 1", "user 2", "and now?"]
    assert conversation.system == "Be brief.\nIn French."
    assert conversation.depth == 9


def test_a_request_without_a_user_turn_is_about_its_last_message():
    conversation = chat(
        {"role": "system", "content": "a"}, {"role": "assistant", "content": "b"}
    ).conversation()
    assert conversation.turns[-1].text == "b"


@pytest.mark.parametrize(("tools", "count"), [(None, 0), ([], 0), ([{"type": "function"}] * 2, 2)])
def test_tools_are_counted(tools: list[Any] | None, count: int):
    conversation = chat(tools=tools).conversation()
    assert conversation.tool_count == count
    assert bool(conversation.tools) is bool(count)


def test_the_length_of_the_input_grows_with_messages_and_tools():
    short, long = chat(), chat(tools=[{"type": "function", "x": "y" * 400}])
    assert long.input_tokens() >= short.input_tokens() + 100
    wide = chat({"role": "user", "content": "\u4f60" * 100})
    assert 60 <= wide.input_tokens() <= 90


def turns(count: int) -> list[dict[str, Any]]:
    """Return a conversation with a system prompt, `count` exchanges with a tool call each, and a question."""
    found = [{"role": "system", "content": "Be brief."}]
    for n in range(count):
        found += [
            {"role": "user", "content": f"question {n} " * 5},
            {"role": "assistant", "content": None, "tool_calls": [{"id": str(n)}]},
            {"role": "tool", "content": f"result {n} " * 5, "tool_call_id": str(n)},
            {"role": "assistant", "content": f"answer {n} " * 5},
        ]
    return [*found, {"role": "user", "content": "and now?"}]


@given(st.integers(0, 8), st.integers(10, 400))
def test_the_oldest_turns_go_and_what_stays_begins_with_a_user(count: int, limit: int):
    all_turns = turns(count)
    request = chat(*all_turns)
    try:
        request.keep_last(limit)
    except InputTooLong:
        assert limit < estimate_tokens("Be brief.") + estimate_tokens("and now?") + 8
        return
    left = sent(request)["messages"]
    assert request.input_tokens() <= limit
    assert (left[0], left[-1]) == (all_turns[0], all_turns[-1])
    assert left[1]["role"] == "user"
    assert left[1:] == all_turns[len(all_turns) - len(left) + 1 :]
    assert len(left) == len(request.messages)


def test_what_comes_after_the_question_stays():
    tail = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "z"}]},
        {"role": "tool", "content": "r", "tool_call_id": "z"},
    ]
    request = chat(*turns(3), *tail)
    request.keep_last(40)
    assert sent(request)["messages"][-2:] == tail


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"auto","messages":[{"role":"user","content":%s}]}',
        b'{"model":"auto","messages":[{"role":"user","content":"Hi","x":%s}]}',
        b'{"model":"auto","messages":%s}',
        b'{"model":"auto","messages":[{"role":"user"}],"tools":[%s]}',
        b'{"model":"auto","messages":[{"role":"user"}],"stream":true,"stream_options":{"x":%s}}',
        b'{"model":"auto","messages":[{"role":"user"}],"x":%s}',
        b'{"x":%s,"model":"auto","messages":[{"role":"user"}]}',
    ],
)
def test_a_body_that_is_nested_deeply_is_refused_and_crashes_nothing(body: bytes):
    def outcome(depth: int) -> str:
        try:
            request = parse_chat(body.replace(b"%s", b"[" * depth + b"]" * depth))
            request.conversation()
            upstream_body(request, "engine", max_output_tokens=None, cache_salt=None)
        except BodyInvalid as error:
            return str(error)
        return "taken"

    assert "nested too deeply" in outcome(100_000)
    for depth in range(500, 1010):
        outcome(depth)


LONELY = ['"\\ud800"', '"a\\udc00b"', '"\\ud83d cut"', '"\\ud800\\ud800"']


@pytest.mark.parametrize("text", LONELY)
@pytest.mark.parametrize(
    "body",
    [
        '{"model":"auto","messages":[{"role":"user","content":%s}]}',
        '{"model":"auto","messages":[{"role":"user","content":[{"type":"text","text":%s}]}]}',
        '{"model":%s,"messages":[{"role":"user","content":"Hi"}]}',
        '{"model":"auto","messages":[{"role":"user","content":"Hi"}],"tools":[%s]}',
        '{"model":"auto","messages":[{"role":"user","content":"Hi"}],"user":%s}',
    ],
)
def test_half_a_character_is_refused_or_travels_and_crashes_nothing(body: str, text: str):
    try:
        request = parse_chat(body.replace("%s", text).encode())
    except BodyInvalid:
        return
    Classifier.load().estimate(request.conversation())
    assert b'"model":"engine"' in upstream_body(request, "engine", max_output_tokens=None, cache_salt=None)


@pytest.mark.parametrize(
    "text", ["\0", "\ufeff", "\u202e", "\U0001f600" * 50, "\u0627\u0644", "\u4f60\u597d", ""]
)
def test_any_text_can_be_judged(text: str):
    request = chat({"role": "user", "content": text})
    estimate = Classifier.load().estimate(request.conversation())
    assert 0 <= estimate.score <= 1
    assert sent(request)["messages"][0]["content"] == text


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[1,]", "'a'", "01", "1.", "tru", '"\\x"', '"a\nb"'])
def test_what_only_looks_like_json_is_refused(text: str):
    with pytest.raises(BodyInvalid, match="not valid JSON"):
        parse_chat(with_field(f'"x":{text}'))
