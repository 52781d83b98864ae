# ruff: noqa: RUF001 - Chinese punctuation is what these patterns match
"""What the classifier reads of a conversation: a bounded, cleaned view of the pending task.

The pending task is the last user turn. When that is a short follow-up ("now the same for the other side"),
the user turn before it belongs to the task as well. Blocks that a harness adds, and claims about
difficulty or about which model to use, are cut: they are not part of the work asked for.
"""

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from classifier.steering import cut_claims, has_trigger
from classifier.text import ascii_signs, ascii_words
from classifier.types import Turn

MAX_CHARS = 8192
"""The most characters of a text that are ever looked at."""

_HEAD = 3072
_TAIL = 3072
_SAMPLES = 4
_SAMPLE = (MAX_CHARS - _HEAD - _TAIL - _SAMPLES - 1) // _SAMPLES
_BLOCK_SEARCH = 1 << 18  # a harness block that is not closed within this many characters stays
_FOLLOW_UP_WORDS = 14

_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")
_OTHER_LETTERS = re.compile("[\u00c0-\u02af\u0370-\u1fff\u3040-\u30ff\uac00-\ud7af]")
_OTHER_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\uac00-\ud7af]")
_FIRST_OPTION = re.compile(r"(?:\n[ \t]*|[ ;；。?？:：])\(?A ?[.):：、．]")
_NEXT_OPTION = re.compile(r"(?:\n[ \t]*|[ ;；。])\(?B ?[.):：、．]")
_OPTION_CHARS = 400  # the second option begins at most this far from the first
_OPTION_TRIES = 8  # so many things that look like a first option are tried
_SECOND_OPTION = ("B.", "B)", "B:", "B：", "B．", "B、", "B .")  # without one of these there are no options
_REWORKING = re.compile(
    r"\b(?:summari[sz]e|summary|translate|rewrite|rephrase|paraphrase|proofread|shorten|polish|tl;?dr|classify"
    r"|extract)\b|总结|翻译|概括|摘要|改写|润色|缩写|译成|提取",
    re.IGNORECASE,
)
_INSTRUCTION = 120  # an instruction that stands before or after its material is at most this long
_MATERIAL = 100  # this much of the material counts
_BLOCKS = ("system-reminder", "tool_result", "context", "environment_details")
_CLOSERS = frozenset({
    "thanks", "thank", "thx", "ty", "bye", "goodbye", "ok", "okay", "great", "cool", "nice", "perfect",
    "谢谢", "多谢", "再见", "好的",
})  # fmt: skip


class Reading(msgspec.Struct, frozen=True):
    """A bounded view of one text.

    Attributes:
        text: At most MAX_CHARS characters: the whole text, or its head, samples of its middle and its tail.
        stem: `text` without multiple-choice options, and without the bulk of a text that is only to be
            summarised, translated or reworked.
        length: Characters of `text` without that bulk.
        words: Lower-cased ASCII words of the stem.
        distinct: The set of `words`.
        signs: ASCII punctuation of the stem, in order.
        chinese: Chinese characters in the stem.
        other: Letters of the stem in scripts other than ASCII and Chinese.
        units: Length of the stem in words; unspaced scripts count 1.6 characters as a word.
        options: Whether multiple-choice options were cut.
        carried: Whether an earlier user turn is part of it.
    """

    text: str
    stem: str
    length: int
    words: Sequence[str]
    distinct: frozenset[str]
    signs: bytes
    chinese: int
    other: int
    units: float
    options: bool
    carried: bool


def bounded(text: str) -> str:
    """At most MAX_CHARS characters of `text`: head, evenly spaced samples of the middle, tail."""
    if len(text) <= MAX_CHARS:
        return text
    gap = (len(text) - _HEAD - _TAIL) // (_SAMPLES + 1)
    middle = [text[at : at + _SAMPLE] for at in range(_HEAD + gap, len(text) - _TAIL, gap)][:_SAMPLES]
    return "\n".join((text[:_HEAD], *middle, text[-_TAIL:]))


def read(text: str, *, carried: bool = False) -> Reading:
    """Read `text`, whatever its length or content; never raises."""
    text = bounded(_without_blocks(text))
    words = ascii_words(text)
    distinct = frozenset(words)
    if steered := has_trigger(text, distinct):
        text = cut_claims(text)
    view = text.strip()
    asked = _without_options(view)
    stem = _without_material(asked)
    if steered or len(stem) < len(view):
        words = ascii_words(stem)
        distinct = frozenset(words)
    chinese = other = 0
    units = float(len(words))
    if not stem.isascii():
        chinese, other, unspaced = _letters(stem)
        units = len(words) + (chinese + unspaced) / 1.6 + (other - unspaced) / 5.5
    return Reading(
        text=view, stem=stem, length=len(view) - len(asked) + len(stem),
        words=words, distinct=distinct, signs=ascii_signs(stem),
        chinese=chinese, other=other, units=units, options=len(asked) < len(view), carried=carried,
    )  # fmt: skip


def read_task(turns: Sequence[Turn]) -> Reading:
    """Read the pending task: the last user turn, and the one before it when this one is a short follow-up."""
    last = _last_user(turns, len(turns), 0)
    if last is None:
        return read(turns[-1].text if turns else "")
    task = read(turns[last].text)
    if task.units > _FOLLOW_UP_WORDS or _closes(task):
        return task
    earlier = _last_user(turns, last, max(0, last - 2))
    if earlier is None:
        return task
    return read(f"{bounded(_without_blocks(turns[earlier].text))}\n{task.text}", carried=True)


def _last_user(turns: Sequence[Turn], end: int, start: int) -> int | None:
    """Where the last user turn before `end`, and not before `start`, stands."""
    for at in range(end - 1, start - 1, -1):
        if turns[at].role == "user":
            return at
    return None


def _letters(stem: str) -> tuple[int, int, int]:
    """Count Chinese characters, letters of other scripts, and those of them in unspaced scripts."""
    chinese = len("".join(_CHINESE.findall(stem)))
    other = len(_OTHER_LETTERS.findall(stem))
    return chinese, other, len(_OTHER_UNSPACED.findall(stem)) if other else 0


def _without_options(view: str) -> str:
    """Cut multiple-choice options: from an "A." that a "B." follows, to the end."""
    if "B" not in view or not any(mark in view for mark in _SECOND_OPTION):
        return view
    for first in islice(_FIRST_OPTION.finditer(view), _OPTION_TRIES):
        if first.start() and _NEXT_OPTION.search(view, first.end(), first.end() + _OPTION_CHARS):
            return view[: first.start()]
    return view


def _without_material(stem: str) -> str:
    """Keep an instruction to summarise, translate or rework, and the beginning of what it applies to.

    The length of a pasted text says how much there is to read, not how hard the request is.
    """
    kept = _MATERIAL if stem.isascii() or not _CHINESE.search(stem, 0, _INSTRUCTION) else _MATERIAL // 3
    if len(stem) <= _INSTRUCTION + kept:
        return stem
    head, tail = stem[:_INSTRUCTION], stem[-_INSTRUCTION:]
    before = min((at for mark in ":\n：" if (at := head.find(mark)) > 0), default=0)
    if before and _REWORKING.search(head, 0, before):
        return stem[: before + kept]
    after = tail.rstrip().rfind("\n")
    if after > 0 and _REWORKING.search(tail, after):
        return stem[:kept] + tail[after:]
    return stem


def _closes(task: Reading) -> bool:
    if task.chinese:
        return task.text.strip(" \n!！。.~") in _CLOSERS
    return len(task.words) <= 4 and bool(task.words) and task.words[0] in _CLOSERS


def _without_blocks(text: str) -> str:
    """Cut the blocks that agent harnesses add to a user turn, as long as something else is left."""
    head = text[:64].lstrip()
    if not head.startswith("<"):
        return text
    for name in _BLOCKS:
        if head.startswith(f"<{name}>"):
            close = f"</{name}>"
            end = text.find(close, 0, _BLOCK_SEARCH)
            if end >= 0:
                rest = text[end + len(close) : end + len(close) + 64]
                return text[end + len(close) :] if rest.strip() else text
    return text
