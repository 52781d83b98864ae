"""Event streams on their way through: looked at, mended where clients need it, else passed on as they are."""

from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import Raw

from backends.errors import BackendError, BackendUnavailable
from backends.refusals import without_keys
from backends.types import Usage
from gateway.answers import NULL, Said, error_inside, is_json, with_reasoning_content
from gateway.sse import (
    BOM,
    EventSplitter,
    event_of,
    has_other_fields,
    is_called_error,
    is_comment,
    payload_of,
)
from gateway.usage import UsageFields, cut_last_usage, read_usage, usage_of, without_usage
from policies.tokens import ASCII_CHARACTERS_PER_TOKEN, estimate_tokens

SMALL_TEXT = 12
"""Bytes of text up to which a chunk is counted without being read."""


class _Choice(msgspec.Struct):
    delta: Said | None = None
    text: str | None = None
    finish_reason: Any = None

    def has_token(self) -> bool:
        return bool(self.text) or (self.delta is not None and self.delta.has_token())

    def seen(self) -> str:
        return self.text or (self.delta.text() if self.delta is not None else "")


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Raw = NULL  # read for itself: an odd one spoils no chunk
    error: Any = None  # not `Raw | None`, of which msgspec takes nothing but null
    kind: Any = msgspec.field(name="object", default=None)

    def fault(self, payload: bytes) -> object:
        """Return the error that it tells of, None when it does not; an empty one beside an answer is none."""
        if self.error or (self.error is not None and not self.choices):
            return self.error
        # As vLLM told of errors once: the fields on the top level.
        return msgspec.json.decode(payload) if self.kind == "error" else None


_chunk = msgspec.json.Decoder(_Chunk)


@dataclass(slots=True)
class StreamState:
    """What a stream has shown so far.

    Attributes:
        has_token: Something that a reader sees: text, reasoning, a tool call.
        chunks_seen: Chunks with such a thing.
        tokens_written: What their text comes to; engines may put many tokens into a chunk.
        counts: The last usage that came; engines send totals, not increments.
        replica: Whose stream it is.
        done: `[DONE]` came.
        finishes: Finish reasons that came: one a choice.
        failed: The engine told of an error in the stream.
    """

    has_token: bool = False
    chunks_seen: int = 0
    tokens_written: float = 0.0
    counts: UsageFields | None = None
    done: bool = False
    finishes: int = 0
    failed: bool = False
    replica: str = ""

    @property
    def usage(self) -> Usage | None:
        """Return what was used, as far as the engine has said it; a count that cannot be is logged."""
        return None if self.counts is None else usage_of(self.counts, self.replica)

    @property
    def is_meaningful(self) -> bool:
        """Tell whether the stream has shown that it is one: not a comment, not a role alone."""
        return self.has_token or self.finishes > 0

    @property
    def tokens_seen(self) -> int:
        """Estimate the tokens that came: one a chunk, unless their text is clearly that of many more."""
        batched = self.tokens_written > 2 * self.chunks_seen
        return int(self.tokens_written) if batched else self.chunks_seen


class Relay:
    """Passes a stream on, and reads what the record needs while it goes by.

    `[DONE]` is held back, so that the record can be written before the client sees the end. A chunk
    that carries nothing but usage is left out for a client that did not ask for it, and so is the usage
    that an engine puts into every chunk, where we asked for it and the client did not. Fields that mean
    nothing here (`id`, `event`, `retry`) are taken off, and so are data that can be no chunk and whatever
    follows `[DONE]`: clients give up at them. All else goes on as the bytes that came.
    """

    def __init__(self, replica: str, *, show_usage: bool, cut_usage: bool = False, choices: int = 1) -> None:
        """Pass a stream on.

        Args:
            replica: Whose stream it is.
            show_usage: Whether the client sees the chunk with the usage of the whole.
            cut_usage: Whether the usage in every other chunk is taken off.
            choices: How many answers were asked for; each ends with its own finish reason.
        """
        self._splitter = EventSplitter()
        self._choices = choices
        self._replica = replica
        self._show_usage = show_usage
        self._cut_usage = cut_usage
        self._envelope = 0  # bytes of a chunk around its text
        self.state = StreamState(replica=replica)

    def feed(self, data: bytes) -> bytes:
        """Take in what the engine sent, return what goes to the client now.

        Raises:
            BackendRejected: The stream begins with an error that says that the request is wrong.
            BackendUnavailable: The stream begins with another error.
            BackendError: The stream is not one of server-sent events within bounds.
        """
        whole = not self._splitter.has_rest
        try:
            events = self._splitter.feed(data)
        except ValueError as error:
            raise BackendError(f"Replica {self._replica} failed: {error}.", replica=self._replica) from error
        kept = [self._pass(event) for event in events]
        if whole and kept == events and not self._splitter.has_rest and not data.startswith(BOM):
            return data
        return b"".join(kept)

    def finish(self) -> bytes:
        """Take in the last event of a stream that was ended without a blank line; cut off, it is none."""
        payload = payload_of(self._splitter.take_rest())
        if payload is None or not (payload.strip() == b"[DONE]" or is_json(payload)):
            return b""
        return self._pass(event_of(payload))

    def check_end(self) -> None:
        """Judge how the stream ended.

        Raises:
            BackendUnavailable: It ended without having begun.
            BackendError: It ended in the middle: no `[DONE]`, and not every choice has a finish reason.
        """
        state, name = self.state, self._replica
        ended = state.done or state.finishes >= self._choices
        if state.failed or (ended and state.is_meaningful):
            return
        if not state.is_meaningful:
            raise BackendUnavailable(f"Replica {name} failed: the answer is empty.", replica=name)
        raise BackendError(f"Replica {name} ended the stream in the middle of the answer.", replica=name)

    def _pass(self, event: bytes) -> bytes:
        """Note what an event says; return it as it goes to the client, b"" when it does not."""
        if self.state.done:
            return b""
        payload = payload_of(event)
        if payload is None:
            return event if is_comment(event) else b""
        has_more = has_other_fields(event)
        if has_more and is_called_error(event):
            return self._take_error(payload)
        kept = self._look(payload)
        if kept is None:
            return b""
        mended = with_reasoning_content(kept, "delta")
        if self.state.failed:
            mended = without_keys(mended)
        return event_of(mended) if mended is not payload or has_more else event

    def _take_error(self, payload: bytes) -> bytes:
        """Take in an error that says so by the name of its event; clients look for it in the data."""
        error: object = {"message": payload.decode("utf-8", "replace")}
        if is_json(payload):
            error = msgspec.json.decode(payload)
        if isinstance(error, dict):
            error = cast("dict[str, object]", error).get("error") or cast("object", error)
        if not self.state.is_meaningful:
            raise error_inside(error, payload, self._replica)
        self.state.failed = True
        return event_of(without_keys(msgspec.json.encode({"error": error})))

    def _look(self, payload: bytes) -> bytes | None:
        """Note what an event says; return what goes on to the client, None when nothing does."""
        state = self.state
        if payload == b"[DONE]":
            state.done = True
            return None
        counts, rest = None, payload
        if self._cut_usage and b'"usage"' in payload and (cut := cut_last_usage(payload)) is not None:
            rest, counts = cut
        if self._is_small(rest):
            state.counts = counts or state.counts
            return rest
        try:
            chunk = _chunk.decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return self._look_at_odd(payload)
        self._note(chunk, rest)
        if bytes(chunk.usage) == b"null":
            return payload
        state.counts = read_usage(chunk.usage) or state.counts
        if not chunk.choices:
            return payload if self._show_usage else None
        return without_usage(payload) if self._cut_usage else payload

    def _look_at_odd(self, payload: bytes) -> bytes | None:
        """Look at what is no chunk: pass on what may be JSON of another kind, and no `ping` or the like."""
        text = payload.strip()
        if text == b"[DONE]":
            self.state.done = True
        return payload if text.startswith((b"{", b"[")) and text != b"[DONE]" else None

    def _is_small(self, payload: bytes) -> bool:
        """Tell whether a chunk can be nothing but a little more text, and count it."""
        text = len(payload) - self._envelope
        if text > SMALL_TEXT or b'"finish_reason":null' not in payload or b'"usage"' in payload:
            return False
        self.state.chunks_seen += 1
        self.state.tokens_written += max(0, text) / ASCII_CHARACTERS_PER_TOKEN
        return True

    def _note(self, chunk: _Chunk, payload: bytes) -> None:
        state = self.state
        fault = chunk.fault(payload)
        if fault is not None:
            if not state.is_meaningful:
                raise error_inside(fault, payload, self._replica)
            state.failed = True
        for choice in chunk.choices or ():
            if choice.has_token():
                self._count(choice.seen(), payload)
            if choice.finish_reason is not None:
                state.finishes += 1

    def _count(self, text: str, payload: bytes) -> None:
        state = self.state
        state.has_token = True
        state.chunks_seen += 1
        state.tokens_written += estimate_tokens(text)
        envelope = len(payload) - len(text.encode("utf-8", "surrogatepass"))
        self._envelope = min(self._envelope or envelope, envelope)
