"""The JSON body of a client's request, cut into its top-level fields once; how all endpoints read one.

A field that nothing looks at travels on as the bytes that came in, so numbers keep their digits and
unknown fields their meaning.
"""

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from gateway.errors import BodyInvalid

T = TypeVar("T")
ISOLATION_FIELDS = ("cache_salt", "priority", "kv_transfer_params", "prompt_embeds", "request_id")
"""Fields that touch other tenants; they come from policy, whatever a client sends."""


def read_fields(body: bytes) -> dict[str, Raw]:
    """Cut a body into its top-level fields; of a name that comes twice the last one counts.

    Raises:
        BodyInvalid: It is not a JSON object in UTF-8.
    """
    try:
        body.decode("utf-8")
        return _decoder(dict[str, Raw]).decode(body)
    except UnicodeDecodeError as error:
        raise BodyInvalid(f"The body is not UTF-8: byte {error.start} is wrong.") from error
    except msgspec.ValidationError as error:
        raise BodyInvalid("The body must be a JSON object.") from error
    except msgspec.DecodeError as error:
        raise BodyInvalid(f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise BodyInvalid("The body is nested too deeply.") from error


def read_request(body: bytes) -> tuple[str, dict[str, Raw]]:
    """Return the model that a body names, and all of its fields but those that isolate tenants.

    Raises:
        BodyInvalid: It is not JSON, or names no model.
    """
    fields = read_fields(body)
    for name in ISOLATION_FIELDS:
        fields.pop(name, None)
    model = read_field(fields, "model", str)
    if not model:
        raise BodyInvalid("You must name a model, for example 'auto'.", param="model")
    return model, fields


def read_field(fields: Mapping[str, Raw], name: str, kind: type[T]) -> T | None:
    """Return a field; None when it is absent or null.

    Raises:
        BodyInvalid: It is of another type; the message has the path to what is wrong.
    """
    raw = fields.get(name)
    return None if raw is None else _read(_optional(kind), raw, name)


def read_json(raw: Raw | bytes, kind: object, path: str) -> Any:  # noqa: ANN401 - of the kind that is asked for
    """Read a part of a body.

    Args:
        raw: Its JSON.
        kind: A type, or a union of types.
        path: Where in the body it stands.

    Raises:
        BodyInvalid: It is of another type; the message has the path to what is wrong.
    """
    return _read(_decoder(kind), raw, path)


def _read(decoder: msgspec.json.Decoder[T], raw: Raw | bytes, path: str) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        param = path + where.rstrip("`")
        raise BodyInvalid(
            f"Invalid value for '{param}': {what[0].lower()}{what[1:]}.", param=param
        ) from error
    except msgspec.DecodeError as error:
        raise BodyInvalid(f"Invalid value for '{path}': {error}.", param=path) from error
    except RecursionError as error:
        raise BodyInvalid(f"'{path}' is nested too deeply.", param=path) from error


@functools.lru_cache
def _decoder(kind: object) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@functools.lru_cache
def _optional(kind: type[T]) -> msgspec.json.Decoder[T | None]:
    return msgspec.json.Decoder(kind | None)


def as_raw(value: Any) -> Raw:  # noqa: ANN401 - whatever JSON has
    """Return a value as it is written in a body."""
    return Raw(msgspec.json.encode(value))
