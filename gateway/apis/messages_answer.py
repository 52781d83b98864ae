"""Answers, streams and errors as Anthropic's Messages API says them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.apis.chat import AnsweredChoice, AnsweredMessage, AnsweredUsage, ChatAnswer
from gateway.apis.chat_stream import Alive, Began, Ended, Failed, StreamEvent
from gateway.apis.errors import ChatError
from gateway.apis.items import Added, Closed, Item, Kind, Opened, items_of
from gateway.apis.reply import sse

STOP_REASONS: Mapping[str, str] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""OpenAI's finish reasons; any other is the end of a turn."""

ERROR_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""By status; any other below 500 is `invalid_request_error`, from there on `api_error`."""

OVERLOADED = 529
CODES: Mapping[str, str] = {
    "rate_limit_exceeded": "rate_limit_error",
    "server_is_overloaded": "overloaded_error",
    "timeout": "timeout_error",
    "context_length_exceeded": "invalid_request_error",
}
"""By OpenAI's code, for an error in a stream, which has no status."""


def message_id(request_id: str) -> str:
    """Return the id of the message that answers a request."""
    return f"msg_{request_id.removeprefix('req_')}"


def error_body(status: int, error: ChatError, request_id: str) -> tuple[int, dict[str, object]]:
    """Return the status and the body of an error; an overload has a status of its own here."""
    if error.code == "server_is_overloaded":
        status = OVERLOADED
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return status, _error(kind, error.message, request_id)


def message_of(answer: ChatAnswer, request_id: str) -> dict[str, object]:
    """Return a whole message; the answer has a choice."""
    choice = answer.choice() or AnsweredChoice()
    items = items_of(choice.message or AnsweredMessage(), [])
    stop = choice.stop_reason if isinstance(choice.stop_reason, str) else None
    return {
        **_shell(request_id, answer.model or ""),
        "content": [_block(item, request_id) for item in items],
        **_stop(choice.finish_reason or "", stop, items),
        "usage": _usage(answer.usage),
    }


class MessageEvents:
    """Says the events of a chat stream as those of a Messages stream."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def of(self, event: StreamEvent) -> Iterable[bytes]:
        """Return the server-sent events for one event."""
        match event:
            case Began():
                yield self._start(event)
            case Opened():
                yield sse(
                    "content_block_start",
                    {"index": event.item.index, "content_block": _opening(event.item, self._request_id)},
                )
            case Added():
                yield sse("content_block_delta", {"index": event.item.index, "delta": _delta(event)})
            case Closed():
                yield sse("content_block_stop", {"index": event.item.index})
            case Alive():
                yield sse("ping", {})
            case Failed():
                yield sse("error", _error(_kind(event.error), event.error.message, self._request_id))
            case Ended():
                yield self._end(event)
                yield sse("message_stop", {})

    def _start(self, event: Began) -> bytes:
        message: dict[str, object] = {
            **_shell(self._request_id, event.model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(event.usage),
        }
        return sse("message_start", {"message": message})

    def _end(self, event: Ended) -> bytes:
        delta = _stop(event.finish, event.stop_sequence, event.items)
        return sse("message_delta", {"delta": delta, "usage": _usage(event.usage)})


def _shell(request_id: str, model: str) -> dict[str, object]:
    return {"id": message_id(request_id), "type": "message", "role": "assistant", "model": model}


def _input(arguments: str) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return the arguments as an object, which they must be here.

    A model may write what is none, or be cut off; its text is kept, so that a tool can say what is wrong.
    """
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {"unparsed_arguments": arguments}


def _block(item: Item, request_id: str) -> dict[str, object]:
    """Return a whole content block."""
    block = _opening(item, request_id)
    match item.kind:
        case Kind.TOOL:
            return {**block, "input": _input(item.text())}
        case Kind.THINKING:
            return {**block, "thinking": item.text()}
        case Kind.TEXT | Kind.REFUSAL:
            return {**block, "text": item.text()}


def _opening(item: Item, request_id: str) -> dict[str, object]:
    """Return a content block as it begins, empty."""
    match item.kind:
        case Kind.TOOL:
            call_id = item.call_id or f"toolu_{request_id.removeprefix('req_')}_{item.index}"
            return {"type": "tool_use", "id": call_id, "name": item.name, "input": {}}
        case Kind.THINKING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case Kind.TEXT | Kind.REFUSAL:
            return {"type": "text", "text": ""}


def _delta(event: Added) -> dict[str, object]:
    match event.item.kind:
        case Kind.TOOL:
            return {"type": "input_json_delta", "partial_json": event.text}
        case Kind.THINKING:
            return {"type": "thinking_delta", "thinking": event.text}
        case Kind.TEXT | Kind.REFUSAL:
            return {"type": "text_delta", "text": event.text}


def _stop(finish: str, stop_sequence: str | None, items: Sequence[Item]) -> dict[str, object]:
    """Return why a message ended; engines say "stop" for the end of a turn and for a stop sequence."""
    reason, sequence = STOP_REASONS.get(finish), None
    if reason is None:
        kinds = {item.kind for item in items}
        if Kind.TOOL in kinds:
            reason = "tool_use"
        elif stop_sequence is not None:
            reason, sequence = "stop_sequence", stop_sequence
        else:
            reason = "refusal" if Kind.REFUSAL in kinds else "end_turn"
    return {"stop_reason": reason, "stop_sequence": sequence}


def _usage(usage: AnsweredUsage | None) -> dict[str, object]:
    """Return usage; what was read from a cache is not part of `input_tokens` here."""
    counts = (usage or AnsweredUsage()).to_usage()
    found: dict[str, object] = {
        "input_tokens": counts.prompt - counts.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.completion,
    }
    reasoning = usage.reasoning_tokens() if usage else None
    if reasoning is not None:
        found["output_tokens_details"] = {"thinking_tokens": reasoning}
    return found


def _kind(error: ChatError) -> str:
    by_code = CODES.get(str(error.code))
    if by_code is not None:
        return by_code
    return error.type if error.type in {"invalid_request_error", "rate_limit_error"} else "api_error"


def _error(kind: str, message: str, request_id: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
