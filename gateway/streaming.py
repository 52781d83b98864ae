"""Event streams on their way through: cut into events, looked at, and passed on as they came."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.errors import BackendError
from backends.types import Usage

MAX_EVENT = 16 * 1024 * 1024
"""Most bytes of one event."""

DONE = b"data: [DONE]\n\n"
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventSplitter:
    """Cuts a byte stream into server-sent events, however it was cut into pieces.

    An event is returned as its own bytes, with the blank line that ends it.
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """Bytes of an event that has not ended."""
        return self._rest

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that end in `data`.

        Raises:
            ValueError: An event is longer than `MAX_EVENT`.
        """
        if not self._rest and data.endswith(b"\n\n") and b"\r" not in data:
            return [event + b"\n\n" for event in data[:-2].split(b"\n\n")]
        data = self._rest + data
        events: list[bytes] = []
        start = 0
        for blank in _BLANK_LINE.finditer(data):
            events.append(data[start : blank.end()])
            start = blank.end()
        self._rest = data[start:]
        if len(self._rest) > MAX_EVENT:
            raise ValueError(f"an event is longer than {MAX_EVENT} bytes")
        return events


def payload_of(event: bytes) -> bytes:
    """Return the data of an event: its `data` lines, joined by newlines; b"" when it has none."""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[6:-2]
    lines = [line for line in _LINE_END.split(event) if line == b"data" or line.startswith(b"data:")]
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


class _CachedDetails(msgspec.Struct):
    cached_tokens: int | None = None


class UsageFields(msgspec.Struct):
    """`usage` as engines write it; cached tokens in both spellings."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def to_usage(self) -> Usage:
        """Return the counts."""
        details = self.prompt_tokens_details
        cached = details.cached_tokens if details else None
        if cached is None:
            cached = self.prompt_cache_hit_tokens
        return Usage(self.prompt_tokens or 0, cached or 0, self.completion_tokens or 0)


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    def has_token(self) -> bool:
        delta = self.delta or _Delta()
        return bool(
            delta.content
            or delta.reasoning_content
            or delta.reasoning
            or delta.refusal
            or delta.tool_calls
            or self.text
        )


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: UsageFields | None = None
    error: Any = None  # not `Raw | None`, of which msgspec takes nothing but null


class _PlainAnswer(msgspec.Struct):
    usage: UsageFields | None = None


_chunk = msgspec.json.Decoder(_Chunk)
_plain = msgspec.json.Decoder(_PlainAnswer)


def usage_of_answer(body: bytes) -> Usage | None:
    """Return the usage in a plain answer; None when it has none.

    Raises:
        ValueError: The answer is not JSON.
    """
    try:
        usage = _plain.decode(body).usage
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("the answer is not JSON") from error
    return None if usage is None else usage.to_usage()


@dataclass(slots=True)
class StreamState:
    """What a stream has shown so far."""

    has_token: bool = False
    tokens_seen: int = 0
    usage: Usage | None = None
    done: bool = False
    finished: bool = False
    failed: bool = False


class Relay:
    """Passes a stream on, and reads what the record needs while it goes by.

    `[DONE]` is held back, so that the record can be written before the client sees the end. A chunk
    that carries nothing but usage is left out for a client that did not ask for it. All else goes
    on as the bytes that came.
    """

    def __init__(self, *, show_usage: bool) -> None:
        self._splitter = EventSplitter()
        self._show_usage = show_usage
        self.state = StreamState()

    def feed(self, data: bytes) -> bytes:
        """Take in what the engine sent, return what goes to the client now.

        Raises:
            ValueError: The stream is not one of server-sent events within bounds.
        """
        whole = not self._splitter.rest
        events = self._splitter.feed(data)
        kept = [event for event in events if self._look(payload_of(event))]
        if whole and len(kept) == len(events) and not self._splitter.rest:
            return data
        return b"".join(kept)

    def check_end(self, replica: str) -> None:
        """Judge how the stream ended.

        Raises:
            BackendError: It ended in the middle: no `[DONE]` and no finish reason.
        """
        if not self.state.done and not self.state.finished and not self.state.failed:
            raise BackendError(
                f"Replica {replica} ended the stream in the middle of the answer.", replica=replica
            )

    def _look(self, payload: bytes) -> bool:
        """Note what an event says, and tell whether it goes on to the client."""
        state = self.state
        if payload == b"[DONE]":
            state.done = True
            return False
        if state.has_token and b'"finish_reason":null' in payload and b'"usage"' not in payload:
            state.tokens_seen += 1
            return True
        try:
            chunk = _chunk.decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return True  # a comment, an event of another kind: not ours to judge
        return self._note(chunk)

    def _note(self, chunk: _Chunk) -> bool:
        state = self.state
        if chunk.error is not None:
            state.failed = True
        if chunk.usage is not None:
            state.usage = chunk.usage.to_usage()
        for choice in chunk.choices or ():
            if choice.has_token():
                state.has_token = True
                state.tokens_seen += 1
            if choice.finish_reason is not None:
                state.finished = True
        only_usage = chunk.usage is not None and not chunk.choices
        return self._show_usage or not only_usage
