"""A request in the words of each engine: the effort, the switch, the history; all else as it came."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from backends.types import EngineFlavour, Replica, ReplicaKind, Thinking
from gateway.thinking.adapting import Adapted, adapt
from gateway.thinking.wishes import CONTROLS, KWARGS
from policies.types import Effort

CALL = {"id": "one", "type": "function", "function": {"name": "w", "arguments": '{"n": 9007199254740993}'}}
USER = {"role": "user", "content": '维也纳的天气？ "reasoning": "tool_calls"'}
DEEPSEEK = Replica("flash/main/0", ReplicaKind.OPENAI, "", "m")
LITELLM = Replica("flash/main/0", ReplicaKind.LITELLM, "", "deepseek/m", EngineFlavour.VLLM)
VLLM, SGLANG, LLAMA = (
    Replica("flash/main/0", ReplicaKind.OPENAI, "", "m", flavour)
    for flavour in (EngineFlavour.VLLM, EngineFlavour.SGLANG, EngineFlavour.LLAMA_CPP)
)
REPLICAS = {"api": DEEPSEEK, "litellm": LITELLM, "vllm": VLLM, "sglang": SGLANG, "llama.cpp": LLAMA}
SWITCHES = ("thinking", "enable_thinking")


def raw(**fields: Any) -> dict[str, Raw]:
    """Return fields as they come over the wire."""
    fields = {"messages": [USER], **fields}
    return {name: Raw(json.dumps(value, ensure_ascii=False).encode()) for name, value in fields.items()}


def adapted(
    replica: Replica, effort: Effort | None, control: Thinking = Thinking.DEEPSEEK, **fields: Any
) -> Adapted:
    """Adapt the fields of a request."""
    return adapt(raw(**fields), effort, replica, control)


def read(found: Adapted) -> dict[str, Any]:
    """Return the fields as an engine reads them."""
    return {name: json.loads(bytes(value)) for name, value in found.fields.items()}


def told(replica: Replica, effort: Effort | None, **fields: Any) -> dict[str, Any]:
    """Return what an engine is told, the messages left out."""
    found = read(adapted(replica, effort, **fields))
    del found["messages"]
    return found


def turns(*assistants: dict[str, Any], then: str = "tool") -> list[dict[str, Any]]:
    """Return a conversation of a user's question and what came of it."""
    return [USER, *({"role": "assistant", **said} for said in assistants), {"role": then, "content": "x"}]


def history(replica: Replica, *messages: dict[str, Any]) -> list[Any]:
    """Return the messages that an engine gets."""
    return read(adapted(replica, None, messages=list(messages)))["messages"]


@pytest.mark.parametrize("replica", [DEEPSEEK, LITELLM], ids=["api", "litellm"])
def test_deepseeks_api_is_told_by_thinking_and_its_own_three_efforts(replica: Replica):
    assert told(replica, Effort.OFF) == {"thinking": {"type": "disabled"}}
    assert told(replica, Effort.ON) == {"thinking": {"type": "enabled"}}
    names = {
        effort: told(replica, effort)["reasoning_effort"] for effort in Effort if effort not in {"on", "off"}
    }
    assert names == {
        "minimal": "low",
        "low": "low",
        "medium": "high",
        "high": "high",
        "xhigh": "high",
        "max": "max",
    }
    assert told(replica, None) == {}


@pytest.mark.parametrize("replica", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_vllm_and_sglang_are_told_by_the_template_and_by_their_names_for_the_same_numbers(replica: Replica):
    assert told(replica, Effort.OFF) == {KWARGS: dict.fromkeys(SWITCHES, False)}
    assert told(replica, Effort.ON) == {KWARGS: dict.fromkeys(SWITCHES, True)}
    names = {
        effort: told(replica, effort)["reasoning_effort"] for effort in Effort if effort not in {"on", "off"}
    }
    assert names == {
        "minimal": "low", "low": "high", "medium": "xhigh", "high": "xhigh", "xhigh": "xhigh", "max": "max",
    }  # fmt: skip
    assert told(replica, None) == {}


@pytest.mark.parametrize(
    ("effort", "said"),
    [
        (Effort.OFF, {"thinking": {"type": "disabled"}, "reasoning_effort": "low"}),
        (Effort.ON, {"thinking": {"type": "enabled", "budget_tokens": 9}}),
        (Effort.LOW, {"reasoning_effort": "low"}),
        (Effort.MAX, {"reasoning_effort": "max", "thinking": {"type": "enabled"}}),
    ],
)
def test_what_the_client_said_in_deepseeks_words_reaches_its_api_as_it_came(
    effort: Effort, said: dict[str, Any]
):
    said |= {KWARGS: {"enable_thinking": effort is not Effort.OFF}, "top_k": 9007199254740993}
    assert told(DEEPSEEK, effort, **said) == said


@pytest.mark.parametrize("replica", REPLICAS.values(), ids=REPLICAS.keys())
def test_what_the_client_said_in_other_words_is_not_sent_twice(replica: Replica):
    said: dict[str, Any] = {
        "thinking": {"type": "enabled", "budget_tokens": 9},
        "reasoning_effort": "medium",
        "reasoning": {"effort": "medium"},
        KWARGS: {"thinking": True, "reasoning_effort": "medium", "drop_thinking": False},
    }
    assert told(replica, Effort.MAX, **said) == {
        **told(replica, Effort.MAX),
        KWARGS: {**told(replica, Effort.MAX).get(KWARGS, {}), "drop_thinking": False},
    }
    assert told(replica, None, thinking={"type": "adaptive"}) == {}


def test_a_number_of_effort_reaches_the_template_that_takes_numbers():
    assert told(VLLM, Effort.ON, **{KWARGS: {"reasoning_effort": 30}})[KWARGS]["reasoning_effort"] == 30
    assert told(DEEPSEEK, Effort.ON, **{KWARGS: {"reasoning_effort": 30}}) == {
        "thinking": {"type": "enabled"}
    }
    assert "reasoning_effort" not in told(VLLM, Effort.OFF, **{KWARGS: {"reasoning_effort": 30}})[KWARGS]


@pytest.mark.parametrize(
    "said",
    [{"reasoning_content": "Hm."}, {"reasoning": "Hm."}, {"reasoning": "Hm.", "reasoning_content": "Hm."}],
)
@pytest.mark.parametrize(
    ("replica", "name"),
    [(VLLM, "reasoning"), (DEEPSEEK, "reasoning_content"), (LITELLM, "reasoning_content"),
     (SGLANG, "reasoning_content"), (LLAMA, "reasoning_content")],
)  # fmt: skip
def test_reasoning_goes_back_under_the_name_that_the_engine_reads(
    replica: Replica, name: str, said: dict[str, str]
):
    (_, turn, _) = history(replica, *turns({"content": None, "tool_calls": [CALL], **said}))
    assert turn == {"role": "assistant", "content": None, "tool_calls": [CALL], name: "Hm."}


@pytest.mark.parametrize("thinking", [Thinking.NONE, Thinking.PASSTHROUGH])
def test_a_model_that_does_not_think_gets_no_reasoning_and_is_told_nothing(thinking: Thinking):
    said = turns({"content": "a", "reasoning": "Hm.", "reasoning_content": "Hm."})
    found = adapted(VLLM, Effort.OFF, thinking, messages=said, reasoning_effort="turbo")
    turn = {"content": "a"} if thinking is Thinking.NONE else said[1]
    assert read(found)["messages"] == [said[0], {"role": "assistant", **turn}, said[2]]
    assert read(found)["reasoning_effort"] == "turbo"
    assert found.effort is None


class TestLostReasoning:
    """A turn that called a tool, whose reasoning a client or another model did not hand back."""

    LOST = turns({"content": None, "tool_calls": [CALL]})

    @pytest.mark.parametrize("replica", [DEEPSEEK, LITELLM], ids=["api", "litellm"])
    def test_it_switches_thinking_off_where_the_engine_would_refuse(self, replica: Replica):
        found = adapted(replica, None, messages=self.LOST)
        assert (found.effort, read(found)["thinking"]) == (Effort.OFF, {"type": "disabled"})
        assert "history" in found.note
        assert read(found)["messages"] == self.LOST

    @pytest.mark.parametrize("replica", [VLLM, SGLANG, LLAMA], ids=["vllm", "sglang", "llama.cpp"])
    def test_it_means_nothing_to_an_engine_that_does_not_ask_for_it(self, replica: Replica):
        assert adapted(replica, None, messages=self.LOST) == Adapted(raw(messages=self.LOST))

    @pytest.mark.parametrize("empty", [{}, {"reasoning_content": ""}, {"reasoning_content": None}])
    def test_a_client_that_asks_to_think_gets_a_blank_in_its_place(self, empty: dict[str, Any]):
        said = turns({"content": "a"}, then="user") + turns({"content": None, "tool_calls": [CALL], **empty})
        found = adapted(DEEPSEEK, Effort.LOW, messages=said)
        assert (found.effort, found.note) == (Effort.LOW, "")
        sent = read(found)["messages"]
        assert [turn.get("reasoning_content") for turn in sent if turn["role"] == "assistant"] == [" ", " "]

    def test_a_turn_without_tools_loses_nothing(self):
        said = turns({"content": "a"}, then="user")
        assert adapted(DEEPSEEK, None, messages=said) == Adapted(raw(messages=said))

    def test_an_older_turn_counts_and_so_does_the_answer_at_its_end(self):
        kept = {"content": None, "tool_calls": [CALL], "reasoning_content": "Hm."}
        assert adapted(DEEPSEEK, None, messages=turns(kept, kept)).effort is None
        older = [*turns(kept, {"content": "It is sunny."}, then="user"), *turns(kept)]
        assert adapted(DEEPSEEK, None, messages=older).effort is Effort.OFF


def test_a_forced_tool_wins_over_thinking_on_a_model_that_stands_in():
    found = adapted(VLLM, Effort.HIGH, tool_choice="required")
    assert (found.effort, read(found)[KWARGS]) == (Effort.OFF, dict.fromkeys(SWITCHES, False))
    assert "tool_choice" in found.note


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
texts = st.text(st.characters(codec="utf-8"), max_size=9)
reasonings = st.none() | st.just("") | texts
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.none() | texts},
    optional={
        "reasoning": reasonings,
        "reasoning_content": reasonings,
        "tool_calls": st.just([CALL]) | st.just([]) | st.none(),
        "x": json_values,
    },
)
OURS = {*CONTROLS, KWARGS, "messages", "tool_choice"}


@given(
    st.dictionaries(texts.filter(lambda name: name not in OURS), json_values, max_size=4),
    st.lists(messages, min_size=1, max_size=6),
    st.sampled_from([None, *Effort]),
    st.sampled_from(list(REPLICAS.values())),
    st.sampled_from(Thinking),
)
def test_nothing_but_thinking_is_changed(
    extra: dict[str, Any], said: list[Any], effort: Effort | None, replica: Replica, thinking: Thinking
):
    before = raw(**extra, messages=said)
    found = adapt(before, effort, replica, thinking)
    assert {name: found.fields[name] for name in extra} == {name: before[name] for name in extra}
    assert set(found.fields) - OURS == set(extra)
    after = read(found)["messages"]
    names = ("reasoning", "reasoning_content")
    assert [without(turn, names) for turn in after] == [without(turn, names) for turn in said]
    assert [turn for turn in after if turn["role"] != "assistant"] == [
        turn for turn in said if turn["role"] != "assistant"
    ]


@given(st.lists(messages, min_size=1, max_size=6), st.sampled_from(list(REPLICAS.values())))
def test_what_was_adapted_once_stays_as_it_is(said: list[Any], replica: Replica):
    once = adapt(raw(messages=said), Effort.ON, replica, Thinking.DEEPSEEK)
    twice = adapt(once.fields, Effort.ON, replica, Thinking.DEEPSEEK)
    assert msgspec.json.encode(twice.fields) == msgspec.json.encode(once.fields)


def without(turn: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a message without some of its fields."""
    return {name: value for name, value in turn.items() if name not in names}


@pytest.mark.parametrize("replica", REPLICAS.values(), ids=REPLICAS.keys())
def test_messages_that_need_no_change_travel_byte_for_byte(replica: Replica):
    text = (
        b'[ {"role":"user", "content":"\\u7ef4 \\"reasoning\\"" , "n": 1e400, "k": 123456789012345678901} ]'
    )
    fields = {"messages": Raw(text)}
    assert adapt(fields, None, replica, Thinking.DEEPSEEK).fields is fields
    assert bytes(adapt(fields, Effort.OFF, replica, Thinking.DEEPSEEK).fields["messages"]) == text
    assert adapt(fields, None, replica, Thinking.NONE).fields is fields


def test_a_turn_that_changes_keeps_its_numbers_and_its_neighbours_their_bytes():
    neighbour = b'{"role":"user", "content":"a",  "n":1.10}'
    text = b"[" + neighbour + b',{"role":"assistant","reasoning_content":"Hm.","n":123456789012345678901}]'
    sent = bytes(adapt({"messages": Raw(text)}, None, VLLM, Thinking.DEEPSEEK).fields["messages"])
    assert sent == b"[" + neighbour + b',{"role":"assistant","n":123456789012345678901,"reasoning":"Hm."}]'
