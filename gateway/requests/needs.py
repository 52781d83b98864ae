"""What a chat request needs of a model, read off its content parts and parameters.

One pass over the messages; a conversation of plain strings costs a look at each message and no more.
"""

from typing import TypeVar

import msgspec
from msgspec import Raw

from gateway.errors import BodyInvalid
from gateway.requests.body import read_field
from gateway.requests.message import Message
from gateway.requests.protocol import ClientRequest
from policies.capabilities import AUDIO, PART_CAPABILITIES, TEXT_TYPES
from policies.types import JSON_SCHEMA, TOOLS, Need

TOKEN_ID_FIELDS = (
    "logit_bias",
    "stop_token_ids",
    "allowed_token_ids",
    "logprob_token_ids",
    "prompt_token_ids",
    "input_ids",
)
"""Fields that hold token ids: OpenAI's, vLLM's and SGLang's. The same number is another word elsewhere."""
TOKEN_IDS = frozenset(TOKEN_ID_FIELDS)

TOOL_FIELDS = ("tools", "functions")
SCHEMA_FIELDS = (
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "json_schema",
    "grammar",
)
"""Beside `response_format`: vLLM's fields, new and old, and llama.cpp's, that hold an answer to a form."""

FREE_FORMATS = frozenset({None, "text", "json_object"})
"""Response formats that need no schema."""

TOOL_ROLES = frozenset({"tool", "function"})
WATCHED = frozenset({"response_format", "modalities", *TOOL_FIELDS, *SCHEMA_FIELDS})
EMPTY = frozenset({b"null", b"[]", b"{}", b"false", b'""'})
LONGEST_NAME = 65
"""Characters of a part's type that are looked at: one more than a configuration may state."""
LONGEST_EMPTY = 64
T = TypeVar("T")


class _Format(msgspec.Struct):
    type: str | None = None


def needs_of(request: ClientRequest) -> tuple[Need, ...]:
    """Return what a model must be able to do for a request, earlier turns included.

    Returns:
        One need of each capability, that of its first place; () for text alone.
    """
    found: dict[str, Need] = {}
    for index, message in enumerate(request.messages):
        if message.content.__class__ is list:
            _look_at_parts(message, index, found)
        if message.role in TOOL_ROLES:
            what = f"messages of role {message.role!r}"
            _add(found, Need(TOOLS, f"messages[{index}]", what, in_messages=True))
        if message.audio:
            _look_at_audio(message, index, found)
    if not WATCHED.isdisjoint(request.fields):
        _look_at_parameters(request.fields, found)
    return tuple(found.values())


def token_ids_of(request: ClientRequest) -> str:
    """Return the first field of a request that holds token ids; "" when none does."""
    if TOKEN_IDS.isdisjoint(request.fields):
        return ""
    return next((name for name in TOKEN_ID_FIELDS if _holds(request.fields, name)), "")


def _look_at_parts(message: Message, index: int, found: dict[str, Need]) -> None:
    for place, part in enumerate(message.content or ()):
        if isinstance(part, str) or part.type in TEXT_TYPES or (not part.type and part.text is not None):
            continue
        kind = part.type[:LONGEST_NAME]
        known = PART_CAPABILITIES.get(kind)
        what = f"content parts of type {kind!r}" if kind else "content parts without a type"
        need = Need(
            known or f"parts:{kind}",
            f"messages[{index}].content[{place}]",
            f"{known} ({what})" if known else what,
            in_messages=True,
        )
        _add(found, need)


def _look_at_audio(message: Message, index: int, found: dict[str, Need]) -> None:
    """Look at what the model has said as sound in an earlier turn: the id of it stands for its content."""
    if bytes(message.audio).strip() not in EMPTY:
        _add(found, Need(AUDIO, f"messages[{index}].audio", "earlier answers in sound", in_messages=True))


def _look_at_parameters(fields: dict[str, Raw], found: dict[str, Need]) -> None:
    for name in TOOL_FIELDS:
        if _holds(fields, name):
            _add(found, Need(TOOLS, name, f"{name!r}"))
    format_ = _read(fields, "response_format", _Format)
    if format_ is not None and format_.type not in FREE_FORMATS:
        what = f"'response_format' of type {str(format_.type)[:LONGEST_NAME]!r}"
        _add(found, Need(JSON_SCHEMA, "response_format", what))
    for name in SCHEMA_FIELDS:
        if _holds(fields, name):
            _add(found, Need(JSON_SCHEMA, name, f"{name!r}"))
    for kind in _read(fields, "modalities", list[str]) or ():
        if kind != "text":
            name = kind[:LONGEST_NAME]
            _add(found, Need(f"outputs:{name}", "modalities", f"'modalities' with {name!r}"))


def _add(found: dict[str, Need], need: Need) -> None:
    found.setdefault(need.capability, need)


def _holds(fields: dict[str, Raw], name: str) -> bool:
    """Tell whether a field is there and is not empty."""
    raw = fields.get(name)
    if raw is None:
        return False
    # A long value is not copied; that it is nothing but blanks in brackets is the engine's to find out.
    return len(raw) > LONGEST_EMPTY or b"".join(bytes(raw).split()) not in EMPTY


def _read(fields: dict[str, Raw], name: str, kind: type[T]) -> T | None:
    """Return a field; None when it is absent, or not of its kind, which the engine will say."""
    try:
        return read_field(fields, name, kind)
    except BodyInvalid:
        return None
