"""Request traces in the form of Mooncake: one JSON object a line.

`{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [...]}`, where an equal id
means an equal block of 512 tokens behind an equal prefix (Mooncake, FAST'25). Other fields are let be.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from backends.gsm.errors import TraceInvalid


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """One request of a trace.

    Attributes:
        at: Seconds since the trace began; never goes back.
        input_tokens: Tokens of the prompt.
        output_tokens: Tokens of the answer.
        groups: The ids of its groups, in the order of the sequence; an id that comes twice in one request,
            which cannot be an equal prefix, counts at its first place.
    """

    at: float
    input_tokens: int
    output_tokens: int
    groups: tuple[int, ...]


def read_trace(lines: Iterable[str | bytes], source: str) -> Iterator[TracedRequest]:
    """Read requests one by one.

    Args:
        lines: The lines of the trace; empty ones are passed over.
        source: What the lines come from, for messages.

    Yields:
        The requests, in the order of the lines.

    Raises:
        TraceInvalid: A line is no such object, or its time is before that of the line above.
    """
    latest = float("-inf")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        request = _parse(line, where)
        if request.at < latest:
            raise TraceInvalid(
                f"{where}: its timestamp is before that of the line above; sort the trace by time"
            )
        latest = request.at
        yield request


def _parse(line: str | bytes, where: str) -> TracedRequest:
    try:
        data: Any = json.loads(line)
    except ValueError as error:  # of JSON, and of bytes that are not UTF-8
        raise TraceInvalid(f"{where}: is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise TraceInvalid(f"{where}: is not a JSON object")
    fields = cast("dict[str, Any]", data)
    return TracedRequest(
        at=_number(fields, "timestamp", where) / 1000,
        input_tokens=_count(fields, "input_length", where),
        output_tokens=_count(fields, "output_length", where),
        groups=_groups(fields, where),
    )


def _number(fields: dict[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    # NaN and infinity pass `json.loads`, and would stop or confuse every comparison of times.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise TraceInvalid(f"{where}: `{name}` has to be a number of milliseconds from 0 on")
    return value


def _count(fields: dict[str, Any], name: str, where: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TraceInvalid(f"{where}: `{name}` has to be a whole number of tokens")
    return value


def _groups(fields: dict[str, Any], where: str) -> tuple[int, ...]:
    value = fields.get("hash_ids")
    if not isinstance(value, list):
        raise TraceInvalid(f"{where}: `hash_ids` has to be a list of whole numbers")
    ids = cast("list[Any]", value)
    if any(isinstance(item, bool) or not isinstance(item, int) for item in ids):
        raise TraceInvalid(f"{where}: `hash_ids` has to be a list of whole numbers")
    return tuple(dict.fromkeys(ids))
