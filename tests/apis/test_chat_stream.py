"""Chat streams, read for the other APIs: order, ends, and any cut of the bytes."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import BackendError
from backends.types import Usage
from gateway.apis.chat_stream import Alive, Began, ChatStream, Ended, Failed, StreamEvent
from gateway.apis.items import Added, Closed, Opened
from gateway.apis.messages_answer import MessageEvents
from gateway.apis.responses_answer import Facts, ResponseEvents
from tests.apis.chunks import chunk, event, tool, usage_chunk
from tests.cases.playing import DONE


def read(events: Sequence[str], end: str = DONE) -> list[StreamEvent]:
    """Return what a stream of these events says."""
    stream = ChatStream("flash/main/0")
    found = list(stream.feed("".join(events).encode()))
    return [*found, *stream.end(end.encode())]


def said(events: Iterable[StreamEvent]) -> list[tuple[str, str, str]]:
    """Return the items that a stream told of, in the order in which they were opened."""
    order: list[int] = []
    texts: dict[int, str] = {}
    closed: set[int] = set()
    names: dict[int, tuple[str, str]] = {}
    for each in events:
        match each:
            case Opened(item):
                assert order == sorted(closed), "an item begins before the one before has ended"
                order.append(item.index)
                names[item.index] = (item.kind.value, item.call_id)
                texts[item.index] = ""
            case Added(item, text):
                assert item.index in names
                assert item.index not in closed
                texts[item.index] += text
            case Closed(item):
                assert item.index not in closed
                closed.add(item.index)
            case _:
                pass
    return [(*names[index], texts[index]) for index in order]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                tool(0, id="a", name="w"),
                tool(1, id="b", name="w", arguments='{"c":'),
                tool(0, arguments='{"c":1}'),
                tool(1, arguments="2}"),
            ],
            id="interleaved",
        ),
        pytest.param(
            [{"tool_calls": [
                *tool(None, id="a", name="w", arguments='{"c":1}')["tool_calls"],
                *tool(None, id="b", name="w", arguments='{"c":2}')["tool_calls"],
            ]}],
            id="no-index",
        ),
        pytest.param(
            [
                tool(None, id="a", name="w"),
                tool(None, arguments='{"c":1}'),
                tool(None, id="b", name="w"),
                tool(None, arguments='{"c":2}'),
            ],
            id="no-index-in-pieces",
        ),
        pytest.param(
            [
                tool(0, id="a", name="w", arguments='{"c":1}'),
                tool(0, id="b", name="w", arguments='{"c":2}'),
            ],
            id="index-reused",
        ),
        pytest.param(
            [
                tool(0, id="a", name="w"),
                tool(0, id="a", name="w", arguments='{"c":'),
                tool(0, id="a", name="w", arguments="1}"),
                tool(1, id="b", name="w", arguments='{"c":2}'),
                tool(1, id="b", name="w", arguments=" "),
            ],
            id="repeated-id-and-name",
        ),
        pytest.param(
            [
                tool(0, id="a", name="w"),
                tool(0, id="x1", arguments='{"c":1}'),
                tool(1, id="b", name="w"),
                tool(1, id="x2", arguments='{"c":2}'),
            ],
            id="an-id-for-every-piece",
        ),
    ],
)  # fmt: skip
def test_parallel_calls_are_told_apart(pieces: list[Any]):
    events = read([*map(chunk, pieces), chunk({}, "tool_calls")])
    calls = [(kind, call_id, json.loads(text)) for kind, call_id, text in said(events)]
    assert calls == [("tool", "a", {"c": 1}), ("tool", "b", {"c": 2})]


def test_arguments_that_come_as_an_object_become_text():
    call = {"index": 0, "id": "a", "function": {"name": "w", "arguments": {"c": 1}}}
    assert said(read([chunk({"tool_calls": [call]}), chunk({}, "tool_calls")])) == [("tool", "a", '{"c":1}')]


def test_a_call_streams_while_it_is_the_first_that_is_open():
    stream = ChatStream("")
    list(stream.feed(chunk(tool(0, id="a", name="w")).encode()))
    now = list(stream.feed(chunk(tool(0, arguments='{"c"')).encode()))
    assert [each.text for each in now if isinstance(each, Added)] == ['{"c"']
    late = list(stream.feed(chunk(tool(1, id="b", name="w", arguments="{}")).encode()))
    assert late == []
    freed = list(stream.feed(chunk(tool(0, arguments=":1}")).encode()))
    assert [type(each) for each in freed] == [Added, Closed, Opened, Added]


def test_text_between_calls_keeps_its_place():
    events = read(
        [
            chunk({"content": "one "}),
            chunk({"content": "two"}),
            chunk(tool(0, id="a", name="w", arguments="{}")),
            chunk({"content": "three"}),
            chunk({}, "tool_calls"),
        ]
    )
    assert said(events) == [("text", "", "one two"), ("tool", "a", "{}"), ("text", "", "three")]


def test_a_call_that_goes_on_after_its_end_breaks_the_stream():
    pieces = [tool(0, id="a", name="w", arguments="{}"), tool(1, id="b", name="w"), tool(0, arguments="{}")]
    with pytest.raises(BackendError, match="flash/main/0"):
        read([chunk(piece) for piece in pieces])


@pytest.mark.parametrize("bad", ["data: {]\n\n", 'data: {"choices":"none"}\n\n', "data: 7\n\n"])
def test_a_chunk_that_is_none_breaks_the_stream(bad: str):
    with pytest.raises(BackendError):
        read([chunk({"content": "a"}), bad])


@pytest.mark.parametrize(
    ("events", "end", "whole"),
    [
        ([chunk({"content": "a"}), chunk({}, "stop")], DONE, True),
        ([chunk({"content": "a"}), chunk({}, "stop")], "", True),
        ([chunk({"content": "a"})], DONE, True),
        ([chunk({"content": "a"})], "", False),
        ([], "", False),
        ([chunk({"content": "a"}), chunk({}, "stop")], event({"error": {"message": "no"}}), False),
        ([chunk({"content": "a"}), event({"error": "no"}), chunk({}, "stop")], DONE, False),
    ],
)
def test_an_end_is_told_when_the_engine_told_it(events: list[str], end: str, *, whole: bool):
    found = read(events, end)
    assert isinstance(found[-1] if found else None, Ended) is whole
    assert sum(isinstance(each, Ended) for each in found) == whole
    if "error" in "".join((*events, end)):
        assert isinstance(found[-1], Failed)
        assert found[-1].error.message == "no"


def test_the_last_usage_wins_and_null_choices_are_none():
    events = [
        event({"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": {"completion_tokens": 1}}),
        event({"choices": None, "usage": None}),
        chunk({}, "stop"),
        usage_chunk(),
    ]
    last = read(events)[-1]
    assert isinstance(last, Ended)
    assert last.usage is not None
    assert last.usage.to_usage().completion == 3


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": "12", "completion_tokens": 3.0}, {"input_tokens": 12, "output_tokens": 3}]
)
@pytest.mark.parametrize("odd", [{"index": 0.0}, {"index": "0"}, {"index": None}])
def test_odd_numbers_spoil_no_answer(odd: dict[str, Any], usage: dict[str, Any]):
    chunks = [chunk({"content": "Hi"}, **odd), chunk({}, "stop", **odd), usage_chunk(usage)]
    *_, ended = read(chunks)
    assert isinstance(ended, Ended)
    assert [item.text() for item in ended.items] == ["Hi"]
    assert ended.usage is not None
    assert ended.usage.to_usage() == Usage(12, 0, 3)


@pytest.mark.parametrize("nothing", [False, "", {}, None])
def test_an_empty_error_beside_an_answer_is_none(nothing: Any):
    said_so = {"choices": [{"index": 0, "delta": {"content": "Hi"}}], "error": nothing}
    assert isinstance(read([event(said_so), chunk({}, "stop")])[-1], Ended)


def test_other_choices_than_the_first_are_left_out():
    events = [chunk({"content": "a"}), chunk({"content": "b"}, index=1), chunk({}, "stop")]
    assert said(read(events)) == [("text", "", "a")]


def test_a_comment_says_that_somebody_is_there():
    assert read([": keep-alive\n\n"], "") == [Alive()]


def test_the_model_is_told_once_and_first():
    events = read([usage_chunk(), chunk({"role": "assistant"}), chunk({"content": "a"}), chunk({}, "stop")])
    assert [each for each in events if isinstance(each, Began)] == [events[0]]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def reasoning(text: str) -> dict[str, Any]:
    """Return a piece of reasoning, as a mended chunk has it."""
    return {"reasoning_content": text, "reasoning": text}


def begun(slot: int) -> dict[str, Any]:
    """Return the first piece of a tool call."""
    return tool(slot, id=f"call_{slot}", name="w")


def more(slot: int, text: str) -> dict[str, Any]:
    """Return another piece of a tool call."""
    return tool(slot, arguments=text)


deltas: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"content": texts}),
    texts.map(reasoning),
    st.integers(0, 2).map(begun),
    st.builds(more, st.integers(0, 2), texts),
)
streams = st.lists(st.one_of(deltas.map(chunk), st.just(": hi\n\n"), st.just(usage_chunk())), max_size=12)


@given(streams, st.sampled_from(["stop", "length", "tool_calls"]), st.data())
def test_any_cut_of_the_bytes_says_the_same_in_every_api(events: list[str], finish: str, data: st.DataObject):
    whole = "".join([*events, chunk({}, finish)]).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert spoken(pieces) == spoken([whole])


def spoken(pieces: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return a stream in the words of both APIs."""
    stream = ChatStream("")
    messages, responses = MessageEvents("req_1"), ResponseEvents(Facts("req_1", 1, {}))
    found: list[StreamEvent] = []
    out = (bytearray(), bytearray())

    def say(events: Iterable[StreamEvent]) -> None:
        for each in events:
            found.append(each)
            out[0].extend(b"".join(messages.of(each)))
            out[1].extend(b"".join(responses.of(each)))

    try:
        for piece in pieces:
            say(stream.feed(piece))
        say(stream.end(DONE.encode()))
    except BackendError as error:
        return bytes(out[0]) + str(error).encode(), bytes(out[1])
    said(found)
    return bytes(out[0]), bytes(out[1])


@given(st.lists(deltas, max_size=12))
def test_nothing_is_lost_or_added(pieces: list[Any]):
    try:
        items = said(read([*map(chunk, pieces), chunk({}, "stop")]))
    except BackendError:
        return  # a tool call that was whole went on
    for kind, name in (("text", "content"), ("thinking", "reasoning_content")):
        told = "".join(text for each, _, text in items if each == kind)
        assert told == "".join(piece.get(name, "") for piece in pieces)
    calls = [call for piece in pieces for call in piece.get("tool_calls", ())]
    for slot in range(3):
        sent = "".join(call["function"]["arguments"] for call in calls if call["index"] == slot)
        assert sent in "".join(text for each, _, text in items if each == "tool") or not sent
