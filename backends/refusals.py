"""What an engine says when it refuses or fails: whether it is about length, its own message, and no key."""

import re
from typing import cast

import msgspec

CONTEXT_SIGNS = (
    b"context length",
    b"context size",
    b"context_length",
    b"context window",
    b"exceed_context_size",
    b"maximum context",
    b"prompt is too long",
    b"input is too long",
    b"exceeds maximum",
    b"exceeds the maximum",
)
"""How vLLM, SGLang, llama.cpp, DeepSeek, OpenAI and Anthropic say that an input does not fit, lower case."""


def says_too_long(body: bytes) -> bool:
    """Tell whether an engine's error is about an input that does not fit."""
    text = body.lower()
    return any(sign in text for sign in CONTEXT_SIGNS)


BAD_KEY_SIGNS = (b'"invalid_api_key"', b'"API_KEY_INVALID"', b'"authentication_error"')
"""Codes by which some say with 400 that a key is wrong, which is ours; in a prompt the quotes are escaped."""


def says_bad_key(body: bytes) -> bool:
    """Tell whether an engine's error is about the key it was asked with."""
    return any(sign in body for sign in BAD_KEY_SIGNS)


_KEY = re.compile(rb"\b((?:sk|pk|rk|gsk)[-_]|Bearer )[A-Za-z0-9][A-Za-z0-9_.-]{5,}")
_USER_IN_URL = re.compile(rb"(://)[^\s/?#@\"]+@")


def without_keys(text: bytes) -> bytes:
    """Cut what looks like a key, or a password in a URL, out of an engine's words: it may be ours."""
    return _USER_IN_URL.sub(rb"\1***@", _KEY.sub(rb"\1***", text))


def error_message(body: bytes) -> str:
    """Return the message in an engine's error body, "" when there is none.

    Knows `{"error": {"message"}}`, `{"error": "text"}`, `{"message"}` and FastAPI's `{"detail"}`.
    """
    try:
        data: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    inner = _get(data, "error") or _get(data, "detail") or data
    if isinstance(inner, list):
        first = next(iter(cast("list[object]", inner)), None)
        message = _get(first, "msg")
    else:
        message = _get(inner, "message") or inner
    return message if isinstance(message, str) else ""


def _get(value: object, key: str) -> object:
    return cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
