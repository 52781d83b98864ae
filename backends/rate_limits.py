"""What an engine says of its limits in the headers of an answer: when to come again, and what is left."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

PREFIX = "x-ratelimit-"
LONGEST = 86400.0


def rate_limits_in(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers `x-ratelimit-...`, which clients read; names are in lower case."""
    return {name: value for name, value in headers.items() if name.startswith(PREFIX)}


def seconds_to_wait(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Return for how long an engine asks to be left alone.

    Reads `retry-after-ms` (OpenAI), and `retry-after` as seconds or as a date (RFC 9110, 10.2.3). A date
    is compared with that of the answer, as clocks of two machines differ.

    Args:
        headers: Names in lower case.
        now: The time of day in UTC, where the answer has no date.

    Returns:
        Seconds in [0, 86400]; None when it does not say.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        number = _number(headers.get(name))
        if number is not None:
            return min(LONGEST, max(0.0, number * unit))
    then = _date(headers.get("retry-after"))
    if then is None:
        return None
    since = _date(headers.get("date")) or now()
    return min(LONGEST, max(0.0, (then - since).total_seconds()))


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
