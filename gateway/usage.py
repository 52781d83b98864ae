"""`usage` as engines write it: read, judged, and taken off where a client did not ask for it."""

import logging
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from backends.types import Usage

log = logging.getLogger(__name__)

_LAST_FIELD = b',"usage":{'


MOST = 10**12
"""Tokens that no answer has: a count beyond is no count."""

Count = Annotated[int, Meta(ge=-MOST, le=MOST)]


class _CachedDetails(msgspec.Struct):
    cached_tokens: Count | None = None


class UsageFields(msgspec.Struct):
    """`usage` as engines write it, in either spelling. Reasoning is part of the completion."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _CachedDetails | None = None
    prompt_cache_hit_tokens: Count | None = None
    prompt_cache_miss_tokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None

    @property
    def says_something(self) -> bool:
        """Tell whether the input was counted; without that an estimate of the whole is nearer."""
        return self._prompt() is not None

    def cached_tokens(self) -> int:
        """Return the cached tokens as they were said; 0 when they were not.

        Of two spellings the one that has some is meant: the other was filled in by something on the way.
        """
        details = self.prompt_tokens_details
        return (details.cached_tokens if details else None) or self.prompt_cache_hit_tokens or 0

    def prompt(self) -> int:
        """Return the input tokens, cached ones included, as they were said."""
        return self._prompt() or 0

    def completion(self) -> int:
        """Return the output tokens as they were said, or as they follow from the total."""
        said = self._completion()
        if said is None and self.total_tokens is not None and self._prompt() is not None:
            return self.total_tokens - self.prompt()
        return said or 0

    def to_usage(self) -> Usage:
        """Return the counts; more cached tokens than there are cannot be."""
        prompt = max(0, self.prompt())
        return Usage(prompt, min(max(0, self.cached_tokens()), prompt), max(0, self.completion()))

    def _prompt(self) -> int | None:
        said = self.input_tokens if self.prompt_tokens is None else self.prompt_tokens
        if said is not None:
            return said
        if self.prompt_cache_miss_tokens is not None:
            return self.prompt_cache_miss_tokens + (self.prompt_cache_hit_tokens or 0)
        completion = self._completion()
        return None if self.total_tokens is None or completion is None else self.total_tokens - completion

    def _completion(self) -> int | None:
        return self.output_tokens if self.completion_tokens is None else self.completion_tokens


_read = msgspec.json.Decoder(UsageFields).decode
_read_leniently = msgspec.json.Decoder(UsageFields | None, strict=False).decode


def read_usage(value: Raw) -> UsageFields | None:
    """Return a field `usage`; None when it is null, or so odd that nothing can be read of it."""
    try:
        fields = _read_leniently(value)
    except msgspec.ValidationError:
        fields = _what_can_be_read(value)
    return fields if fields is not None and fields.says_something else None


def _what_can_be_read(value: Raw) -> UsageFields | None:
    """Return the counts of a usage some of whose fields are odd; the odd ones are left out."""
    try:
        given = msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.ValidationError:
        return None
    fields = UsageFields()
    for name in UsageFields.__struct_fields__:
        kind: Any = _CachedDetails if name == "prompt_tokens_details" else Count
        try:
            setattr(fields, name, msgspec.convert(given.get(name), kind | None, strict=False))
        except msgspec.ValidationError:
            continue
    return fields


def usage_of(fields: UsageFields, replica: str) -> Usage:
    """Return the counts of an answer of `replica`; counts that cannot be are mended, and logged."""
    prompt, cached, completion = fields.prompt(), fields.cached_tokens(), fields.completion()
    if 0 <= cached <= prompt and completion >= 0:
        return Usage(prompt, cached, completion)
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
