"""OpenAI's error object, read back for the APIs that say it in other words."""

from typing import Any

import msgspec


class ChatError(msgspec.Struct):
    """An error as the pipeline writes it, or an engine in a stream."""

    message: str = "The model failed."
    type: str | None = None
    code: str | int | None = None
    param: str | None = None


class _Envelope(msgspec.Struct):
    error: ChatError = msgspec.field(default_factory=ChatError)


def read_error(body: bytes) -> ChatError:
    """Return the error in a body; one that cannot be read says no more than that the model failed."""
    try:
        return msgspec.json.decode(body, type=_Envelope).error
    except (msgspec.DecodeError, RecursionError):
        return ChatError()


def error_from(value: Any) -> ChatError:  # noqa: ANN401 - whatever JSON has
    """Return the error that stands in a chunk: an object as OpenAI has it, or a text."""
    if isinstance(value, str):
        return ChatError(value)
    try:
        return msgspec.convert(value, ChatError)
    except msgspec.ValidationError:
        return ChatError()
