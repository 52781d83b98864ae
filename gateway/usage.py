"""`usage` as engines write it: read, judged, and taken off where a client did not ask for it."""

import logging

import msgspec
from msgspec import Raw

from backends.types import Usage

log = logging.getLogger(__name__)

_LAST_FIELD = b',"usage":{'


class _CachedDetails(msgspec.Struct):
    cached_tokens: int | None = None


class UsageFields(msgspec.Struct):
    """`usage` as engines write it; cached tokens in both spellings. Reasoning is part of the completion."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def cached_tokens(self) -> int:
        """Return the cached tokens as they were said; 0 when they were not."""
        details = self.prompt_tokens_details
        cached = details.cached_tokens if details else None
        return (self.prompt_cache_hit_tokens if cached is None else cached) or 0

    def to_usage(self) -> Usage:
        """Return the counts; more cached tokens than there are cannot be."""
        prompt = max(0, self.prompt_tokens or 0)
        return Usage(prompt, min(max(0, self.cached_tokens()), prompt), max(0, self.completion_tokens or 0))


_read = msgspec.json.Decoder(UsageFields).decode
_read_leniently = msgspec.json.Decoder(UsageFields | None, strict=False).decode


def read_usage(value: Raw) -> UsageFields | None:
    """Return a field `usage`; None when it is null, or so odd that nothing can be read of it."""
    try:
        return _read_leniently(value)
    except msgspec.ValidationError:
        return None


def usage_of(fields: UsageFields, replica: str) -> Usage:
    """Return the counts of an answer of `replica`; counts that cannot be are mended, and logged."""
    prompt, cached, completion = (
        fields.prompt_tokens or 0,
        fields.cached_tokens(),
        fields.completion_tokens or 0,
    )
    if not 0 <= cached <= prompt or completion < 0:
        log.warning(
            "Replica %s counts what cannot be: %d cached of %d prompt tokens, %d completion tokens",
            replica,
            cached,
            prompt,
            completion,
        )
    return fields.to_usage()


def cut_last_usage(payload: bytes) -> tuple[bytes, UsageFields] | None:
    """Take `usage` off a chunk whose last field it is, which is how vLLM writes it.

    Costs little enough to be done for every token. What looks like the field in a text cannot be taken
    for it: its quotes would be escaped there.

    Returns:
        The chunk without it, all other bytes as they were, and the counts; None when it stands elsewhere.
    """
    at = payload.rfind(_LAST_FIELD)
    if at < 0:
        return None
    try:
        return payload[:at] + b"}", _read(payload[at + len(_LAST_FIELD) - 1 : -1])
    except (msgspec.DecodeError, RecursionError):
        return None  # more follows, or it is part of something else


def without_usage(payload: bytes) -> bytes:
    """Return a chunk without its `usage`, wherever it stands; the other values keep their bytes."""
    try:
        chunk = msgspec.json.decode(payload, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return payload
    return msgspec.json.encode(chunk) if chunk.pop("usage", None) is not None else payload
