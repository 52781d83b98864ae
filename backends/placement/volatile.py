"""What changes with each request near the head of a prompt, and spoils the reuse of all after it."""

import functools
import re
from dataclasses import dataclass

HEAD = 2000
"""Characters of a system prompt that are looked at."""

_KINDS = {
    "a time": re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b"),
    "a date": re.compile(r"\b\d{4}-\d{2}-\d{2}\b|\d{4}年\d{1,2}月\d{1,2}日|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b"),
    "an id": re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\b[0-9a-f]{32,64}\b"),
    "a timestamp": re.compile(r"\b1[6-9]\d{8}(?:\d{3})?\b"),
}


@dataclass(frozen=True, slots=True)
class Volatile:
    """Where something stands that changes.

    Attributes:
        what: In words.
        at: Characters before it.
    """

    what: str
    at: int


def find_volatile(system: str) -> Volatile | None:
    """Return the first thing in the head of a system prompt that looks like one that changes."""
    return _find(system[:HEAD])


@functools.lru_cache(maxsize=1024)  # an application sends the same one with each request
def _find(head: str) -> Volatile | None:
    found = [Volatile(what, match.start()) for what, kind in _KINDS.items() if (match := kind.search(head))]
    return min(found, key=lambda each: each.at, default=None)
