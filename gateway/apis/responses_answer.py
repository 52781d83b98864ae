"""Answers and streams as OpenAI's Responses API says them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from gateway.apis.chat import AnsweredChoice, AnsweredMessage, AnsweredUsage, ChatAnswer
from gateway.apis.chat_stream import CUTS, Alive, Began, Ended, Failed, StreamEvent
from gateway.apis.errors import ChatError
from gateway.apis.items import Added, Closed, Item, Kind, Opened, items_of
from gateway.apis.reply import sse
from gateway.sse import KEEP_ALIVE

DEFAULTS: Mapping[str, object] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}
"""What an answer says where the request said nothing."""

STATELESS: Mapping[str, object] = {
    "background": False,
    "previous_response_id": None,
    "store": False,
    "truncation": "disabled",
}
"""What holds for every answer, whatever the request said."""

INCOMPLETE: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
PREFIXES: Mapping[Kind, str] = {
    Kind.THINKING: "rs",
    Kind.TEXT: "msg",
    Kind.REFUSAL: "msg",
    Kind.TOOL: "fc",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What every form of one response says.

    Attributes:
        request_id: Of the exchange.
        created: When, in seconds since 1970.
        echo: Fields of the request, as they came.
    """

    request_id: str
    created: int
    echo: Mapping[str, Raw]

    def id_of(self, prefix: str) -> str:
        """Return an id made of the request's."""
        return f"{prefix}_{self.request_id.removeprefix('req_')}"

    def item_id(self, item: Item) -> str:
        """Return the id of an item."""
        return f"{self.id_of(PREFIXES[item.kind])}_{item.index}"


def response_of(answer: ChatAnswer, facts: Facts) -> dict[str, object]:
    """Return a whole response; the answer has a choice."""
    choice = answer.choice() or AnsweredChoice()
    logprobs = (choice.logprobs.content if choice.logprobs else None) or []
    items = items_of(choice.message or AnsweredMessage(), logprobs)
    return _ended(facts, answer.model or "", items, choice.finish_reason or "", answer.usage)


class ResponseEvents:
    """Says the events of a chat stream as those of a Responses stream, numbered from 0."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._model = ""
        self._began = False
        self._number = 0
        self._items: list[Item] = []
        self._closed = 0

    def of(self, event: StreamEvent) -> Iterable[bytes]:
        """Return the server-sent events for one event."""
        match event:
            case Began():
                self._began, self._model = True, event.model
                yield self._whole("created", _response(self._facts, self._model, "in_progress"))
                yield self._whole("in_progress", _response(self._facts, self._model, "in_progress"))
            case Opened():
                self._items.append(event.item)
                yield from self._open(event.item)
            case Added():
                yield self._add(event)
            case Closed():
                self._closed += 1
                yield from self._close(event)
            case Alive():
                yield KEEP_ALIVE
            case Failed():
                yield from self._fail(event.error)
            case Ended():
                usage, finish = event.usage, event.finish
                response = _ended(self._facts, self._model, event.items, finish, usage)
                yield self._whole("incomplete" if finish in INCOMPLETE else "completed", response)

    def _whole(self, name: str, response: Mapping[str, object]) -> bytes:
        return self._event(f"response.{name}", {"response": response})

    def _event(self, name: str, data: Mapping[str, object]) -> bytes:
        number = self._number
        self._number += 1
        return sse(name, {"sequence_number": number, **data})

    def _open(self, item: Item) -> Iterable[bytes]:
        begun = _item(item, self._facts, "in_progress", empty=True)
        yield self._event("response.output_item.added", {"output_index": item.index, "item": begun})
        if item.kind is not Kind.TOOL:
            part = {**self._place(item), "part": _part(item, empty=True)}
            yield self._event("response.content_part.added", part)

    def _add(self, event: Added) -> bytes:
        data = {**self._place(event.item), "delta": event.text}
        if event.item.kind is Kind.TEXT:
            data["logprobs"] = event.logprobs
        return self._event(f"{_name(event.item)}.delta", data)

    def _close(self, event: Closed) -> Iterable[bytes]:
        item, place = event.item, self._place(event.item)
        match item.kind:
            case Kind.TOOL:
                said: dict[str, object] = {"arguments": item.text(), "name": item.name}
            case Kind.REFUSAL:
                said = {"refusal": item.text()}
            case Kind.TEXT:
                said = {"text": item.text(), "logprobs": item.logprobs}
            case Kind.THINKING:
                said = {"text": item.text()}
        yield self._event(f"{_name(item)}.done", {**place, **said})
        if item.kind is not Kind.TOOL:
            yield self._event("response.content_part.done", {**place, "part": _part(item)})
        whole = _item(item, self._facts, "incomplete" if event.cut else "completed")
        yield self._event("response.output_item.done", {"output_index": item.index, "item": whole})

    def _fail(self, error: ChatError) -> Iterable[bytes]:
        code = str(error.code or error.type or "server_error")
        data = {"code": code, "message": error.message, "param": error.param}
        yield self._event("error", data)
        if not self._began:
            return
        response = _response(self._facts, self._model, "failed")
        response["error"] = {
            "code": code if code == "rate_limit_exceeded" else "server_error",
            "message": error.message,
        }
        response["output"] = [
            _item(item, self._facts, "completed" if number < self._closed else "incomplete")
            for number, item in enumerate(self._items)
        ]
        yield self._whole("failed", response)

    def _place(self, item: Item) -> dict[str, object]:
        place: dict[str, object] = {"item_id": self._facts.item_id(item), "output_index": item.index}
        return place if item.kind is Kind.TOOL else {**place, "content_index": 0}


def _name(item: Item) -> str:
    match item.kind:
        case Kind.TOOL:
            return "response.function_call_arguments"
        case Kind.THINKING:
            return "response.reasoning_text"
        case Kind.TEXT:
            return "response.output_text"
        case Kind.REFUSAL:
            return "response.refusal"


def _part(item: Item, *, empty: bool = False) -> dict[str, object]:
    text = "" if empty else item.text()
    match item.kind:
        case Kind.THINKING:
            return {"type": "reasoning_text", "text": text}
        case Kind.REFUSAL:
            return {"type": "refusal", "refusal": text}
        case _:
            logprobs: list[Any] = [] if empty else item.logprobs
            return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def _item(item: Item, facts: Facts, status: str, *, empty: bool = False) -> dict[str, object]:
    """Return an output item; with `empty`, as it begins."""
    shell: dict[str, object] = {"id": facts.item_id(item), "status": status}
    content = [] if empty else [_part(item)]
    match item.kind:
        case Kind.TOOL:
            arguments = "" if empty else item.text()
            call_id = item.call_id or f"{facts.id_of('call')}_{item.index}"
            return {
                **shell,
                "type": "function_call",
                "call_id": call_id,
                "name": item.name,
                "arguments": arguments,
            }
        case Kind.THINKING:
            return {**shell, "type": "reasoning", "summary": [], "content": content}
        case Kind.TEXT | Kind.REFUSAL:
            return {**shell, "type": "message", "role": "assistant", "content": content}


def _response(facts: Facts, model: str, status: str) -> dict[str, object]:
    """Return a response without output."""
    return {
        "id": facts.id_of("resp"),
        "object": "response",
        "created_at": facts.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
        **DEFAULTS,
        **facts.echo,
        **STATELESS,
    }


def _ended(
    facts: Facts, model: str, items: list[Item], finish: str, usage: AnsweredUsage | None
) -> dict[str, object]:
    reason = INCOMPLETE.get(finish)
    response = _response(facts, model, "completed" if reason is None else "incomplete")
    if reason is not None:
        response["incomplete_details"] = {"reason": reason}
    last = len(items) - 1
    response["output"] = [
        _item(item, facts, "incomplete" if finish in CUTS and item.index == last else "completed")
        for item in items
    ]
    response["usage"] = None if usage is None else _usage(usage)
    return response


def _usage(usage: AnsweredUsage) -> dict[str, object]:
    counts = usage.to_usage()
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
        "output_tokens": counts.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens() or 0},
        "total_tokens": counts.prompt + counts.completion,
    }
