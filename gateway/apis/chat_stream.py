"""A streamed chat answer, read as the pipeline writes it, whatever pieces it is cut into."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from backends.errors import BackendError
from gateway.apis.chat import AnsweredChoice, AnsweredUsage, ChatAnswer, read_answer
from gateway.apis.errors import ChatError, error_from
from gateway.apis.items import Item, ItemEvent, Items
from gateway.sse import EventSplitter, is_comment, payload_of

CUTS = frozenset({"length", "content_filter"})
"""Finish reasons that say that an answer was cut off."""


@dataclass(frozen=True, slots=True)
class Began:
    """The engine has begun to answer.

    Attributes:
        model: The engine's name of it.
        usage: What it has counted so far, where it says so from the first chunk on.
    """

    model: str
    usage: AnsweredUsage | None


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing new, but somebody is there."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer ends here, and is not whole."""

    error: ChatError


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is whole, as far as the engine says.

    Attributes:
        finish: OpenAI's finish reason; "" when the engine gave none.
        stop_sequence: The one that was hit, where the engine names it.
        usage: None when the engine did not count.
        items: All of the answer.
    """

    finish: str
    stop_sequence: str | None
    usage: AnsweredUsage | None
    items: list[Item]


StreamEvent = Began | ItemEvent | Alive | Failed | Ended


class ChatStream:
    """Reads server-sent events of chat chunks, yields what an API has to say of them.

    An end is what the pipeline passed on as one: `[DONE]`, or a finish reason and no error after it.
    """

    def __init__(self, replica: str) -> None:
        self._replica = replica
        self._splitter = EventSplitter()
        self._items = Items()
        self._usage: AnsweredUsage | None = None
        self._finish: str | None = None
        self._stop_sequence: str | None = None
        self._began = False
        self._done = False
        self._over = False

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """Take in a piece of the stream.

        Raises:
            BackendError: A chunk is nothing that could be told in another API.
        """
        for event in self._splitter.feed(data):
            if self._over:
                return
            payload = payload_of(event)
            if payload is None:
                if is_comment(event):
                    yield Alive()
            elif payload == b"[DONE]":
                self._done = True
            elif payload:
                yield from self._chunk(payload)

    def end(self, data: bytes) -> Iterator[StreamEvent]:
        """Take in the last piece; say how the answer ended, unless it ended in the middle."""
        yield from self.feed(data)
        if self._over or not (self._done or self._finish is not None):
            return
        self._over = True
        if not self._began:
            yield Began("", self._usage)
        yield from self._items.close(cut=self._finish in CUTS)
        yield Ended(self._finish or "", self._stop_sequence, self._usage, self._items.all)

    def _chunk(self, payload: bytes) -> Iterator[StreamEvent]:
        chunk = self._read(payload)
        if chunk.error or (chunk.error is not None and not chunk.choices):
            self._over = True
            yield Failed(error_from(chunk.error))
            return
        if chunk.usage is not None:
            self._usage = chunk.usage
        if not self._began and chunk.choices:
            self._began = True
            yield Began(chunk.model or "", self._usage)
        choice = chunk.choice()
        if choice is not None:
            yield from self._choice(choice)

    def _choice(self, choice: AnsweredChoice) -> Iterator[StreamEvent]:
        if choice.delta is not None:
            logprobs = (choice.logprobs.content if choice.logprobs else None) or []
            try:
                yield from self._items.add(choice.delta, logprobs)
            except ValueError as error:
                raise self._broken(str(error)) from error
        if choice.finish_reason is not None:
            self._finish = choice.finish_reason
        if isinstance(choice.stop_reason, str):
            self._stop_sequence = choice.stop_reason

    def _read(self, payload: bytes) -> ChatAnswer:
        try:
            return read_answer(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._broken("it sent a chunk that is not one") from error

    def _broken(self, what: str) -> BackendError:
        return BackendError(f"Replica {self._replica} failed: {what}.", replica=self._replica)
