"""What changes from one request to the next near the head of a prompt, and spoils the reuse of all after it.

An engine reuses a prompt token for token from the very first on. A clock or an id in the head makes each
request's prompt another one; at the end of the last message it does no harm.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import cast

HEAD = 2000
"""Characters from the start of a prompt that are looked at: about one group of tokens."""

SHOWN = 40
"""Most characters of what was found that are repeated."""

_KINDS: Mapping[str, re.Pattern[str]] = {
    "a placeholder": re.compile(
        r"\{\{?\s*\$?[\w.-]*(?:date|time|now|today|uuid|session|request_?id|user_?id|日期|时间)[\w.-]*\s*\}\}?"
        r"|\$\{?[A-Za-z_]*(?:DATE|TIME|NOW|UUID|SESSION|date|time|now|uuid|session)\w*\}?"
        r"|<%=?[^%>]{0,60}(?:date|time|now|uuid)[^%>]{0,60}%>",
        re.IGNORECASE,
    ),
    "a clock": re.compile(
        r"\b(?:today(?:'s date)?|(?:the )?current (?:date|time|day|datetime|timestamp)(?: and time)?"
        r"|(?:the )?(?:date|time) (?:now|today))\s*(?:is\b|[:=])"
        r"|\b(?:it is now|as of now)\b"
        r"|(?:今天|今日|现在|当前|目前|此刻)(?:的)?(?:日期|时间|时刻)?(?:和时间)?\s*(?:是|为|[:\uff1a])",
        re.IGNORECASE,
    ),
    "a unix time": re.compile(r"(?<![\w.])1[6-9]\d{8}(?:\d{3}|\.\d+)?(?![\w])"),
    "an id": re.compile(
        r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
        r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{32,64}\b"
        r"|\b(?:session|request|trace|conversation|user)[ _-]?id\s*[:=]\s*\S+"
        r"|(?:会话|请求|用户|跟踪)\s*(?:ID|id|编号|标识)\s*(?:是|为|[:=\uff1a])\s*\S+",
        re.IGNORECASE,
    ),
    "a date": re.compile(
        r"\b\d{4}[-/.](?:0?[1-9]|1[0-2])[-/.](?:0?[1-9]|[12]\d|3[01])(?!\d)"
        r"|\b(?:0?[1-9]|[12]\d|3[01])[./](?:0?[1-9]|1[0-2])[./]\d{4}\b"
        r"|\b(?:0?[1-9]|1[0-2])/(?:0?[1-9]|[12]\d|3[01])/\d{4}\b"
        r"|\d{4}\s*年\s*\d{1,2}\s*月(?:\s*\d{1,2}\s*[日号])?"
        r"|\b(?:\d{1,2} )?(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
        r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
        r" (?:\d{1,2}(?:st|nd|rd|th)?,? )?\d{4}\b",
        re.IGNORECASE,
    ),
    "a time": re.compile(r"\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?\b|\d{1,2}\s*[点时]\s*\d{1,2}\s*分"),
}
"""What is looked for; of two at the same place the first one names it."""


@dataclass(frozen=True, slots=True)
class Volatile:
    """Something that changes, and where it stands.

    Attributes:
        what: In words, "a date".
        text: As it was found, cut to `SHOWN` characters.
        where: In which text, such as "messages[0]".
        line: From 1.
        column: From 1, in characters.
        before: Characters of the prompt in front of it: all that can still be reused.
    """

    what: str
    text: str
    where: str
    line: int
    column: int
    before: int

    def __str__(self) -> str:
        """Say it to whoever wrote the prompt."""
        return (
            f"{self.where}, line {self.line}, column {self.column}: {self.what} ({self.text!r}); "
            "nothing after it is reused once it changes: move it to the end of the last message"
        )


def find_volatile(texts: Sequence[tuple[str, str]]) -> Volatile | None:
    """Return the first thing in the head of a prompt that looks as if it would change.

    Args:
        texts: (where, text) of its parts, in the order in which models read them.
    """
    before = 0
    for where, text in texts:
        head = text[: HEAD - before]
        if not head:
            break
        first = _first_in(head)
        if first is not None:
            at, what, found = first
            line_start = text.rfind("\n", 0, at) + 1
            line = text.count("\n", 0, at) + 1
            return Volatile(what, found[:SHOWN], where, line, at - line_start + 1, before + at)
        before += len(text)
    return None


@lru_cache(maxsize=512)  # an application sends the same ones with each request; they take a millisecond
def _first_in(head: str) -> tuple[int, str, str] | None:
    matches = [
        (match.start(), what, match[0]) for what, kind in _KINDS.items() if (match := kind.search(head))
    ]
    return min(matches, key=itemgetter(0), default=None)


def texts_of(
    messages: Sequence[Mapping[str, object]], tools: Sequence[Mapping[str, object]] | None
) -> list[tuple[str, str]]:
    """Return the texts of a chat in the order of most chat templates: tools, then messages."""
    found = [each for index, tool in enumerate(tools or ()) for each in _strings(tool, f"tools[{index}]")]
    for index, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, str):
            found.append((f"messages[{index}]", content))
        else:
            found += _strings(content, f"messages[{index}].content")
    return found


def _strings(value: object, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[object]", value)):
            yield from _strings(each, f"{where}[{index}]")
    elif isinstance(value, Mapping):
        for name, each in cast("Mapping[str, object]", value).items():
            yield from _strings(each, f"{where}.{name}")
