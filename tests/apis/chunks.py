"""Chunks of chat streams for tests, and scripts that send them."""

import json
from typing import Any

from tests.cases.playing import DONE, answering, streaming
from tests.fakes.upstream import Script

USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 3,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def chunk(delta: dict[str, Any], finish: str | None = None, **choice: Any) -> str:
    """Return the event of a chunk with one choice."""
    whole = {"index": 0, "delta": delta, "finish_reason": finish, **choice}
    return event({"choices": [whole]})


def usage_chunk(usage: dict[str, Any] | None = None) -> str:
    """Return the event of a chunk with usage alone."""
    return event({"choices": [], "usage": usage or USAGE})


def event(fields: dict[str, Any]) -> str:
    """Return the event of a chunk."""
    whole = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "engine-model", **fields}
    return f"data: {json.dumps(whole)}\n\n"


def tool(index: int | None, *, id: str | None = None, name: str | None = None, arguments: str = "") -> Any:  # noqa: A002 - the name on the wire
    """Return a piece of a tool call; what is None is left out."""
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    piece: dict[str, Any] = {
        "index": index,
        "id": id,
        "type": "function" if id else None,
        "function": function,
    }
    return {"tool_calls": [{key: value for key, value in piece.items() if value is not None}]}


def stream_of(*events: str, end: str = DONE) -> Script:
    """Return a script that sends events, and the end of the stream after them."""
    return streaming(*events, *([end] if end else ()))


def broken_after(*events: str) -> Script:
    """Return a script that sends events, and then drops the connection."""
    return streaming(*events, then="cut")


def answer_of(message: dict[str, Any], finish: str = "stop", **choice: Any) -> Script:
    """Return a script that sends a whole answer."""
    whole = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **choice}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "engine-model"}
    return answering({**body, "choices": [whole], "usage": USAGE})


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Script:
    """Return a script that refuses a request."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return answering({"error": error}, status, headers)
