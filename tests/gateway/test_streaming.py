"""Event streams: cut into events however they arrive, looked at, and passed on byte for byte."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.errors import BackendError, BackendRejected, BackendUnavailable
from backends.types import Usage
from gateway.answers import as_events, read_plain
from gateway.sse import MAX_EVENT, EventSplitter, payload_of
from gateway.streaming import Relay

LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
DONE = b"data: [DONE]\n\n"


def event(**chunk: Any) -> bytes:
    """Return an event as engines write it."""
    return b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def token(text: str, finish: str | None = None) -> bytes:
    """Return an event with a piece of the answer."""
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


USAGE = event(choices=[], usage={"prompt_tokens": 12, "completion_tokens": 3})


ALL_KINDS = ("data: ", "data:", "data", ":", "event: ", "id: ", "retry: ", "database: ")
PLAIN_KINDS = ("data: {", "data:[", ":")


@st.composite
def lines(draw: st.DrawFn, kinds: tuple[str, ...]) -> tuple[bytes, bytes | None]:
    """Return a line of an event, and the data that it carries; None when it carries none."""
    text = draw(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=8)).encode()
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "data":
            return b"data", b""
        case "data:" if text.startswith(b" "):
            return b"data:" + text, text[1:]
        case "data: " | "data:" | "data: {" | "data:[":
            return kind.encode() + text, kind[5:].strip().encode() + text
        case _:
            return kind.encode() + text, None


@st.composite
def streams(draw: st.DrawFn, kinds: tuple[str, ...] = ALL_KINDS) -> tuple[list[bytes], list[bytes]]:
    """Return a stream of whole events in pieces, and the payloads of its events that have data."""
    out, payloads = b"", list[bytes]()
    for written in draw(st.lists(st.lists(lines(kinds), min_size=1, max_size=4), max_size=5)):
        end = draw(LINE_ENDS)
        out += b"".join(line + end for line, _ in written) + end
        data = [value for _, value in written if value is not None]
        if data:
            payloads.append(b"\n".join(data))
    places = sorted(draw(st.sets(st.integers(0, len(out)), max_size=8)))
    return [out[a:b] for a, b in zip([0, *places], [*places, len(out)], strict=True)], payloads


@given(streams())
@example(([b"data: a\r\n\r", b"\ndata: b\n\n"], [b"a", b"b"]))
@example(([b"data: a\r", b"\r", b"data: b\r\r"], [b"a", b"b"]))
@example(([b"data: a\r", b"\ndata: b\r\n", b"\r\n"], [b"a\nb"]))
@example(([b"data: a\n\n\n", b"data: b\n\n"], [b"a", b"b"]))
@example(([b"data: \xe4", b"\xbd", b"\xa0\n\n"], [b"\xe4\xbd\xa0"]))
def test_a_stream_gives_the_same_bytes_and_payloads_however_it_is_cut(
    stream: tuple[list[bytes], list[bytes]],
):
    pieces, payloads = stream
    splitter = EventSplitter()
    events = [found for piece in pieces for found in splitter.feed(piece)]
    whole, cut = b"".join(pieces), b"".join(events)
    assert whole.startswith(cut)
    assert whole[len(cut) :].strip(b"\n") == b""
    assert [data for found in events if (data := payload_of(found)) is not None] == payloads


@given(streams(PLAIN_KINDS))
def test_a_relay_that_has_no_reason_to_change_a_stream_passes_it_untouched(
    stream: tuple[list[bytes], list[bytes]],
):
    pieces, _ = stream
    relay = Relay("r", show_usage=True)
    assert b"".join(map(relay.feed, pieces)).rstrip(b"\n") == b"".join(pieces).rstrip(b"\n")


@given(st.data(), st.booleans())
def test_what_a_relay_notes_does_not_depend_on_how_the_stream_was_cut(data: st.DataObject, show: bool):
    tail = token("", "stop") + USAGE
    sent = b"\xef\xbb\xbf: hi\r\n\r\n" + token("Pa") + token("\u4f60\U0001f600") + tail + DONE
    places = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=10)))
    relay = Relay("r", show_usage=show)
    passed = b"".join(relay.feed(sent[a:b]) for a, b in zip([0, *places], [*places, len(sent)], strict=True))
    expected = sent.removeprefix(b"\xef\xbb\xbf").removesuffix(DONE)
    assert passed == (expected if show else expected.removesuffix(USAGE))
    state = relay.state
    assert (state.tokens_seen, state.done, state.finishes, state.failed) == (2, True, 1, False)
    assert state.usage == Usage(12, 0, 3)
    relay.check_end()


def test_events_that_come_whole_are_passed_as_the_same_object():
    piece = token("a") + token("b")
    assert Relay("r", show_usage=False).feed(piece) is piece


def test_done_is_held_back_wherever_it_stands():
    relay = Relay("r", show_usage=True)
    assert relay.feed(token("a") + DONE) == token("a")
    assert relay.state.done
    relay = Relay("r", show_usage=True)
    assert relay.feed(b"data:[DONE]\r\n\r\n") == b""
    assert relay.state.done


def test_usage_beside_choices_is_noted_and_passed():
    both = event(choices=[{"delta": {"content": "a"}}], usage={"prompt_tokens": 1, "completion_tokens": 1})
    relay = Relay("r", show_usage=False)
    assert relay.feed(both) == both
    assert relay.state.usage == Usage(1, 0, 1)


@pytest.mark.parametrize("choices", [{"choices": []}, {"choices": None}, {}])
def test_usage_alone_is_left_out_for_a_client_that_did_not_ask(choices: dict[str, Any]):
    alone = event(**choices, usage={"prompt_tokens": 1})
    assert Relay("r", show_usage=False).feed(alone) == b""
    assert Relay("r", show_usage=True).feed(alone) == alone


def test_the_last_usage_counts():
    relay = Relay("r", show_usage=False)
    first, last = ({"prompt_tokens": 9, "completion_tokens": count} for count in (1, 2))
    relay.feed(event(choices=[], usage=first) + event(choices=[], usage=last))
    assert relay.state.usage == Usage(9, 0, 2)


def test_fields_that_are_null_mean_nothing():
    relay = Relay("r", show_usage=False)
    empty = event(choices=None, usage=None, error=None)
    odd = event(choices=[{"delta": None, "finish_reason": None}, {"delta": {"content": None}}], usage=None)
    assert relay.feed(empty + odd) == empty + odd
    state = relay.state
    assert (state.has_token, state.finishes, state.failed, state.usage) == (False, 0, False, None)


@pytest.mark.parametrize("error", [{"message": "boom"}, "boom", 500])
def test_an_error_event_is_passed_on_and_noted(error: object):
    relay = Relay("r", show_usage=False)
    sent = token("a") + event(error=error)
    assert relay.feed(sent) == sent
    assert relay.state.failed
    relay.check_end()  # the client has been told


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "boom", "code": 500}, BackendUnavailable),
        ("boom", BackendUnavailable),
        ({"message": "too long", "code": 400}, BackendRejected),
        ({"message": "too long", "code": "400"}, BackendRejected),
    ],
)
def test_a_stream_that_begins_with_an_error_is_no_stream(error: object, kind: type[BackendError]):
    relay = Relay("r", show_usage=False)
    relay.feed(event(choices=[{"delta": {"role": "assistant"}}]))
    with pytest.raises(kind):
        relay.feed(event(error=error))


@pytest.mark.parametrize("sent", [b"", DONE, b": ping\n\n" + DONE, event(choices=[]) + DONE])
def test_a_stream_in_which_nothing_was_said_is_no_answer(sent: bytes):
    relay = Relay("r", show_usage=False)
    relay.feed(sent)
    with pytest.raises(BackendUnavailable, match="empty"):
        relay.check_end()


@pytest.mark.parametrize("nothing", [False, "", {}, []])
def test_an_empty_error_beside_an_answer_is_none(nothing: Any):
    relay = Relay("r", show_usage=False)
    sent = event(choices=[{"index": 0, "delta": {"content": "a"}}], error=nothing)
    assert relay.feed(sent) == sent
    assert (relay.state.has_token, relay.state.failed) == (True, False)


def test_fields_that_mean_nothing_here_are_taken_off():
    relay = Relay("r", show_usage=False)
    sent = b"retry: 3\n\nid: 7\nevent: message\ndata: {}\n\n: ping\n\ndata: [1\nid: 8\ndata: ]\n\n"
    assert relay.feed(sent) == b"data: {}\n\n: ping\n\ndata: [1\ndata: ]\n\n"


@pytest.mark.parametrize("odd", ["not json", ": keep-alive", "", "null", "7", '"busy"'])
def test_data_that_can_be_no_chunk_are_left_out(odd: str):
    relay = Relay("r", show_usage=False)
    sent = token("a") + f"data: {odd}\n\n".encode() + token("", "stop") + DONE
    assert relay.feed(sent) == token("a") + token("", "stop")
    assert relay.state.done


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ('{"message":"no room"}', {"message": "no room"}),
        ('{"error":{"message":"no room"}}', {"message": "no room"}),
        ("no room", {"message": "no room"}),
    ],
)
def test_an_event_that_is_called_an_error_is_one(data: str, told: Any):
    sent = f"event: error\ndata: {data}\n\n".encode()
    relay = Relay("r", show_usage=True)
    assert relay.feed(token("a")) == token("a")
    assert json.loads(relay.feed(sent).removeprefix(b"data: ")) == {"error": told}
    assert relay.state.failed
    with pytest.raises(BackendUnavailable):
        Relay("r", show_usage=True).feed(sent)


def test_nothing_follows_the_end():
    relay = Relay("r", show_usage=True)
    assert relay.feed(token("a") + DONE + token("b") + b": ping\n\n" + DONE) == token("a")
    assert relay.feed(token("c")) == b""
    assert relay.state.chunks_seen == 1


@pytest.mark.parametrize("cut", [1, 2])
def test_the_last_event_needs_no_blank_line(cut: int):
    for last, whole in ((DONE, b""), (token("", "stop"), token("", "stop"))):
        relay = Relay("r", show_usage=True)
        assert relay.feed(token("a") + last[:-cut]) == token("a")
        assert relay.finish() == whole
        relay.check_end()


def test_half_an_event_at_the_end_is_none():
    relay = Relay("r", show_usage=True)
    relay.feed(token("a") + token("", "stop")[:-6])
    assert relay.finish() == b""
    with pytest.raises(BackendError, match="in the middle"):
        relay.check_end()


def test_several_answers_are_whole_when_each_has_ended():
    relay = Relay("r", show_usage=True, choices=2)
    relay.feed(token("a") + token("", "stop"))
    with pytest.raises(BackendError, match="in the middle"):
        relay.check_end()
    relay.feed(token("", "stop"))
    relay.check_end()


def test_reasoning_is_shown_under_the_name_that_clients_read():
    relay = Relay("r", show_usage=False)
    sent = b'data: {"n":1.10,"choices":[{"index":0,"delta":{"reasoning":"First, "}}]}\n\n'
    shown = json.loads(relay.feed(sent).removeprefix(b"data: "))
    assert shown["choices"][0]["delta"] == {"reasoning": "First, ", "reasoning_content": "First, "}
    assert b"1.10" in relay.feed(sent)
    both = event(choices=[{"delta": {"reasoning": "a", "reasoning_content": "b"}}])
    nothing = event(choices=[{"delta": {"reasoning": None, "content": "a"}}])
    assert relay.feed(both + nothing) == both + nothing


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 5}}, 5),
        ({"prompt_cache_hit_tokens": 5}, 5),
        ({"prompt_tokens_details": {"cached_tokens": 4}, "prompt_cache_hit_tokens": 5}, 4),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 5}, 5),
        ({"prompt_tokens_details": {"cached_tokens": None}, "prompt_cache_hit_tokens": 5}, 5),
        ({"prompt_tokens_details": None}, 0),
        ({"prompt_tokens_details": {}}, 0),
    ],
)
def test_cached_tokens_are_read_in_both_spellings(usage: dict[str, Any], cached: int):
    relay = Relay("r", show_usage=True)
    relay.feed(event(choices=[], usage={"prompt_tokens": 9, **usage}))
    assert relay.state.usage == Usage(9, cached, 0)
    assert read_plain(
        json.dumps({"choices": [1], "usage": {"prompt_tokens": 9, **usage}}).encode(), "r"
    ) == Usage(9, cached, 0)


@pytest.mark.parametrize(
    "delta",
    [{"content": "a"}, {"reasoning_content": "a"}, {"reasoning": "a"}, {"tool_calls": [{"index": 0}]}],
)
def test_the_first_token_is_whatever_the_model_says_first(delta: dict[str, Any]):
    relay = Relay("r", show_usage=False)
    relay.feed(event(choices=[{"delta": {"role": "assistant", "content": ""}}]))
    assert not relay.state.has_token
    relay.feed(event(choices=[{"delta": delta}]))
    assert relay.state.has_token


@pytest.mark.parametrize(
    "odd",
    [
        b": ping\n\n",
        b"data: [1]\n\n",
        b'data: {"half": \n\n',
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
        b'data: {"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n",
    ],
)
def test_what_is_not_understood_is_passed_on(odd: bytes):
    assert Relay("r", show_usage=False).feed(odd) == odd


def test_a_stream_without_an_end_is_told_from_one_that_finished():
    relay = Relay("r", show_usage=False)
    relay.feed(token("a"))
    with pytest.raises(BackendError, match="r ended the stream in the middle"):
        relay.check_end()
    relay.feed(token("", "length"))
    relay.check_end()


def test_an_event_is_bounded():
    splitter = EventSplitter()
    splitter.feed(b"data: " + bytes(MAX_EVENT - 6))
    with pytest.raises(ValueError, match="longer than"):
        splitter.feed(b"a")


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (b'{"choices": [1]}', None),
        (b'{"choices": [1], "usage": null}', None),
        (b'{"choices": [1], "usage": "many"}', None),
        (b'{"choices": [1], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}', Usage(3, 0, 2)),
    ],
)
def test_the_usage_of_a_plain_answer(body: bytes, usage: Usage | None):
    assert read_plain(body, "r") == usage


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b"null", b'"busy"', b'{"choices": []}', b'{"message": "busy"}']
)
def test_json_that_is_no_answer_is_told(body: bytes):
    with pytest.raises(BackendUnavailable, match=r"no answer|empty"):
        read_plain(body, "r")


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"usage"', b'{"x":' + b"[" * 100_000])
def test_a_plain_answer_that_is_not_json_is_told(body: bytes):
    with pytest.raises(BackendUnavailable, match="not JSON"):
        read_plain(body, "r")


def test_a_plain_completion_is_told_as_a_stream_with_its_text_once():
    choice = {"index": 0, "text": "天 blue", "finish_reason": "stop"}
    plain = json.dumps({"object": "text_completion", "choices": [choice]}).encode()
    relay = Relay("flash/main/0", show_usage=True)
    passed = relay.feed(as_events(plain))
    chunks = [json.loads(line[6:]) for line in passed.decode().split("\n\n") if line]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["天 blue", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, "stop"]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert relay.state.finishes
    assert relay.state.done


@pytest.mark.parametrize("choice", [{"message": None}, {"message": "Hm"}, {"message": []}, {}, 7, None])
def test_a_plain_answer_without_a_message_is_an_empty_stream_and_no_fault_of_ours(choice: Any):
    relay = Relay("flash/main/0", show_usage=True)
    relay.feed(as_events(json.dumps({"choices": [choice]}).encode()))
    with pytest.raises(BackendUnavailable, match="is empty"):
        relay.check_end()
