"""The pieces of a streamed answer, put in order: one item after another, each opened, filled and closed.

Chat completions mix what they send: text, reasoning, and several tool calls at once, a piece of each in
turn. Other APIs have items (Anthropic's content blocks, the output items of Responses) that follow each
other. Here the first item that is not closed goes out as it comes; what belongs to a later one waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from gateway.apis.chat import AnsweredCall, AnsweredFunction, AnsweredMessage


class Kind(Enum):
    """What an item is."""

    THINKING = "thinking"
    TEXT = "text"
    REFUSAL = "refusal"
    TOOL = "tool"


@dataclass(slots=True, eq=False)
class Item:
    """One item of an answer.

    Attributes:
        index: Its place in the answer, from 0.
        call_id: Of a tool call; "" until it is known.
        name: Of the tool; "" until it is known.
        parts: All its text so far; of a tool call, its arguments.
        logprobs: Of its tokens, where they came.
        slot: The engine's index of a tool call, where it has one.
        sent: How many of its parts have gone out.
        logprobs_sent: How many of its log probabilities have gone out.
        opened: Whether it has been opened.
    """

    kind: Kind
    index: int
    call_id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list[str])
    logprobs: list[Any] = field(default_factory=list[Any])
    slot: int | None = None
    sent: int = 0
    logprobs_sent: int = 0
    opened: bool = False

    def text(self) -> str:
        """Return all its text so far."""
        return "".join(self.parts)

    def has_whole_arguments(self) -> bool:
        """Tell whether the arguments of a tool call are JSON from end to end."""
        if not self.parts or not self.parts[-1].endswith("}"):
            return False
        try:
            msgspec.json.decode(self.text())
        except (msgspec.DecodeError, RecursionError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Opened:
    """An item begins."""

    item: Item


@dataclass(frozen=True, slots=True)
class Added:
    """More of an item."""

    item: Item
    text: str
    logprobs: list[Any]


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing more of an item comes.

    Attributes:
        cut: The answer was cut off in it: by a limit, or by a filter.
    """

    item: Item
    cut: bool = False


ItemEvent = Opened | Added | Closed


def items_of(answer: AnsweredMessage, logprobs: list[Any]) -> list[Item]:
    """Return the items of a whole answer."""
    items: list[Item] = []
    for kind, text in _texts(answer):
        found = logprobs if kind is Kind.TEXT else []
        items.append(Item(kind, len(items), parts=[text], logprobs=found))
    for call in answer.tool_calls or ():
        function = call.function or AnsweredFunction()
        text = function.arguments_text()
        items.append(Item(Kind.TOOL, len(items), call.id or "", function.name or "", [text] if text else []))
    return items


def _texts(answer: AnsweredMessage) -> Iterator[tuple[Kind, str]]:
    """Yield the texts of an answer or of a piece of one, those that are not empty."""
    for kind, text in (
        (Kind.THINKING, answer.thinking()),
        (Kind.TEXT, answer.text()),
        (Kind.REFUSAL, answer.refusal),
    ):
        if text:
            yield kind, text


class Items:
    """Makes items of pieces."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._open = 0

    @property
    def all(self) -> list[Item]:
        """All items so far, in order."""
        return self._items

    def add(self, piece: AnsweredMessage, logprobs: list[Any]) -> Iterator[ItemEvent]:
        """Take in a piece, yield what may go out.

        Raises:
            ValueError: A tool call that was whole goes on after the next has begun.
        """
        for kind, text in _texts(piece):
            self._run(kind).parts.append(text)
        if logprobs and self._items and self._items[-1].kind is Kind.TEXT:
            self._items[-1].logprobs.extend(logprobs)
        for call in piece.tool_calls or ():
            self._call(call)
        yield from self._flow(last=False)

    def close(self, *, cut: bool) -> Iterator[ItemEvent]:
        """Yield the rest: the answer has ended, or was cut off in its last item."""
        yield from self._flow(last=True, cut=cut)

    def _run(self, kind: Kind) -> Item:
        """Return the item that goes on with text of a kind."""
        if self._items and self._items[-1].kind is kind:
            return self._items[-1]
        return self._new(Item(kind, len(self._items)))

    def _new(self, item: Item) -> Item:
        self._items.append(item)
        return item

    def _call(self, piece: AnsweredCall) -> None:
        name = (piece.function.name if piece.function else None) or ""
        item = self._known_call(piece, name) or self._new(Item(Kind.TOOL, len(self._items), slot=piece.index))
        item.call_id = item.call_id or piece.id or ""
        item.name = item.name or name
        text = piece.function.arguments_text() if piece.function else ""
        if item.index >= self._open:
            item.parts.extend([text] if text else [])
        elif text.strip():
            raise ValueError("a tool call went on after its end")

    def _known_call(self, piece: AnsweredCall, name: str) -> Item | None:
        """Return the call that a piece goes on with; None when it starts one.

        The index says which, where there is one. A new id starts a call all the same where it comes
        with a name, as some engines give every call the index 0, and others every piece an id.
        """
        calls = [item for item in self._items if item.kind is Kind.TOOL]
        if piece.id and (same := [c for c in calls if c.call_id == piece.id and c.slot == piece.index]):
            return same[-1]
        if piece.index is not None:
            calls = [call for call in calls if call.slot == piece.index]
        last = calls[-1] if calls else None
        if last is None or self._starts(piece, name, last):
            return None
        return last

    def _starts(self, piece: AnsweredCall, name: str, last: Item) -> bool:
        has_new_id = bool(piece.id and last.call_id)
        if piece.index is None:
            return has_new_id or bool(name and last.name)
        return has_new_id and bool(name)

    def _flow(self, *, last: bool, cut: bool = False) -> Iterator[ItemEvent]:
        while self._open < len(self._items):
            item = self._items[self._open]
            final = self._open == len(self._items) - 1
            if item.kind is Kind.TOOL and not item.name and not last:
                return
            if not item.opened:
                item.opened = True
                yield Opened(item)
            yield from self._send(item)
            if not last and (final or (item.kind is Kind.TOOL and not item.has_whole_arguments())):
                return
            yield Closed(item, cut and final)
            self._open += 1

    def _send(self, item: Item) -> Iterator[ItemEvent]:
        text = "".join(item.parts[item.sent :])
        item.sent = len(item.parts)
        if text:
            logprobs = item.logprobs[item.logprobs_sent :]
            item.logprobs_sent = len(item.logprobs)
            yield Added(item, text, logprobs)
