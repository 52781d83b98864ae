# ruff: noqa: RUF001 - Chinese punctuation is what these patterns match
"""What the classifier reads of a conversation: a bounded, cleaned view of the pending task.

The pending task is the last user turn. When that is a short follow-up ("now the same for the other side"),
the user turn before it belongs to the task as well, and so on back to one that stands for itself. What a
harness puts around a question, and claims about difficulty or about which model to use, are cut: they are
not part of the work asked for.
"""

import functools
import re
from collections.abc import Sequence
from itertools import islice, pairwise

import msgspec

from classifier.follow_ups import ends_the_task, points_back
from classifier.harness import without_harness
from classifier.steering import cut_claims, has_trigger, is_only_claims
from classifier.text import ascii_signs, ascii_words, folded
from classifier.types import Turn

MAX_CHARS = 8192
"""The most characters of a text that are ever looked at."""

_HEAD = 3072
_TAIL = 3072
_SAMPLES = 4
_SAMPLE = (MAX_CHARS - _HEAD - _TAIL - _SAMPLES - 1) // _SAMPLES
_FOLLOW_UP_WORDS = 14
"""A turn of at most so many words belongs to the task before it."""

_POINTING_WORDS = 40
"""The same for a turn that says so ("now the same for ...")."""

_ADDING_WORDS = 10
"""A turn of at most so many words adds nothing to the task that it goes on with, once others follow it."""

LOOK_BACK = 16
"""So many user turns before the last one are looked at, at most."""


_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")
_OTHER_LETTERS = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u3040-\u30ff\uac00-\ud7af]")
_SYLLABLES = re.compile("[\u3040-\u30ff\uac00-\ud7af]")  # kana and hangul
_UNKNOWN = (
    re.compile(  # letters of scripts that no cue words are in: neither Greek, Cyrillic, Hebrew, Arabic,
        # Devanagari, Thai, kana nor hangul
        "[\u0530-\u058f\u0700-\u074f\u0780-\u08ff\u0980-\u0dff\u0e80-\u1dff]"
    )
)
_CHINESE_A_WORD, _SYLLABLES_A_WORD, _LETTERS_A_WORD = 1.6, 2.4, 5.5
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


_FEW = 40
_REPEATS = 12  # a word that comes more often than that, in the mean of all, is filler: "word word word ..."
_KEPT = 4  # so often it counts then


class Reading(msgspec.Struct, frozen=True):
    """A bounded view of one text.

    Attributes:
        text: At most MAX_CHARS characters: the whole text, or its head, samples of its middle and its tail.
        stem: `text` without multiple-choice options, and without the bulk of a text that is only to be
            summarised, translated or reworked.
        length: Characters of `text` without that bulk.
        words: Lower-cased ASCII words of the stem.
        distinct: The set of `words`.
        pairs: The set of two words side by side.
        signs: ASCII punctuation of the stem, in order.
        chinese: Chinese characters in the stem.
        scripts: Letters of the stem in scripts other than Latin and Chinese.
        other: Those of them in scripts that no cue words are in.
        units: Length of the stem in words; 1.6 Chinese characters, 2.4 of kana or hangul, and 5.5 letters of
            other scripts count as a word.
        options: Whether multiple-choice options were cut.
        carried: Whether an earlier user turn is part of it.
    """

    text: str
    stem: str
    length: int
    words: Sequence[str]
    distinct: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    signs: bytes
    chinese: int
    scripts: int
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


def read(text: str) -> Reading:
    """Read `text`, whatever its length or content; never raises."""
    return _read(without_harness(text).strip() or text)


def _read(text: str) -> Reading:
    """Read a text that has no harness."""
    text = bounded(text)
    words: list[str] | None = ascii_words(folded(text))
    if has_trigger(text, words):
        text, words = cut_claims(text), None
    view = text.strip()
    asked = _without_options(view)
    stem = _without_material(asked)
    if words is None or len(stem) < len(view):
        words = ascii_words(folded(stem))
    if len(words) > _FEW and len(words) > _REPEATS * len(frozenset(words)):
        stem = stem[: len(stem) * _KEPT * len(frozenset(words)) // len(words)]
        words = ascii_words(folded(stem))
    return _reading(
        view, stem, words, length=len(view) - len(asked) + len(stem), options=len(asked) < len(view)
    )


def _reading(view: str, stem: str, words: list[str], *, length: int, options: bool) -> Reading:
    chinese = scripts = other = 0
    units = float(len(words))
    if not stem.isascii():
        chinese, scripts, syllables, other = _letters(stem)
        units += (
            chinese / _CHINESE_A_WORD
            + syllables / _SYLLABLES_A_WORD
            + (scripts - syllables) / _LETTERS_A_WORD
        )
    return Reading(
        text=view, stem=stem, length=length, words=words, distinct=frozenset(words),
        pairs=frozenset(pairwise(words)), signs=ascii_signs(stem),
        chinese=chinese, scripts=scripts, other=other, units=units, options=options, carried=False,
    )  # fmt: skip


def read_task(turns: Sequence[Turn]) -> Reading:
    """Read the pending task: the last user turn, with those before it that it goes on with."""
    users = [turn.text for turn in turns if turn.role == "user"][-LOOK_BACK - 1 :]
    if not users:
        return read(turns[-1].text if turns else "")
    last = without_harness(users[-1])
    while not last and len(users) > 1:
        users.pop()  # the output of a tool, sent as a user's turn
        last = without_harness(users[-1])
    task = _read(last.strip() or users[-1])
    users.pop()
    if not users or task.units > _POINTING_WORDS or ends_the_task(task.words, task.text):
        return task
    if task.units > _FOLLOW_UP_WORDS and not _goes_on(task):
        return task
    return _joined([*_that_count(_before(users)), task])


def _before(users: Sequence[str]) -> Sequence[Reading]:
    """The turns, oldest first, from the last one that stands for itself on."""
    found: list[Reading] = []
    for text in reversed(users):
        part = _remembered(text) if len(text) <= _SHORT else _earlier(text)
        if part is None:
            continue
        found.insert(0, part.reading)
        if not part.goes_on:
            break
    return found


class _Earlier(msgspec.Struct, frozen=True):
    """A turn before the last one: what was read of it, and whether it goes on with the one before it."""

    reading: Reading
    goes_on: bool


def _earlier(text: str) -> _Earlier | None:
    """Read a turn before the last one; None for thanks and claims, which are no part of a task."""
    part = read(text)
    if ends_the_task(part.words, part.text) or is_only_claims(part.text, part.words):
        return None
    return _Earlier(part, _goes_on(part))


_SHORT = 2048  # characters; longer turns are read again rather than kept in memory
_remembered = functools.lru_cache(maxsize=512)(_earlier)  # a chat sends its earlier turns with each request


def _that_count(parts: Sequence[Reading]) -> Sequence[Reading]:
    """The first one, and the longest of the others unless that is short: easy turns must not add up."""
    if len(parts) < 2:
        return parts
    longest = max(parts[1:], key=_units)
    return (parts[0], longest) if longest.units > _ADDING_WORDS else parts[:1]


def _units(part: Reading) -> float:
    return part.units


def _goes_on(part: Reading) -> bool:
    return part.units <= _POINTING_WORDS and points_back(part.words, part.text, part.units)


def _joined(parts: Sequence[Reading]) -> Reading:
    """Several turns as one task: what was read of each is added up, unless it is more than is looked at."""
    if len(parts) == 1:
        return parts[0]
    stem = "\n".join([part.stem for part in parts])
    text = bounded("\n".join([part.text for part in parts]))
    length, options = sum([part.length for part in parts]), any(part.options for part in parts)
    if len(stem) > MAX_CHARS:
        stem = bounded(stem)
        words = ascii_words(folded(stem))
        cut = _reading(text, stem, words, length=length, options=options)
        return msgspec.structs.replace(cut, carried=True)
    words: list[str] = []
    signs, chinese, scripts, other, units = b"", 0, 0, 0, 0.0
    for part in parts:
        words += part.words
        signs += part.signs
        chinese += part.chinese
        scripts += part.scripts
        other += part.other
        units += part.units
    seams = [(one.words[-1], two.words[0]) for one, two in pairwise(parts) if one.words and two.words]
    return Reading(
        text=text, stem=stem, length=length, words=words,
        distinct=frozenset[str]().union(*[part.distinct for part in parts]),
        pairs=frozenset(seams).union(*[part.pairs for part in parts]), signs=signs, chinese=chinese,
        scripts=scripts, other=other, units=units, options=options, carried=True,
    )  # fmt: skip


def _letters(stem: str) -> tuple[int, int, int, int]:
    """Count Chinese characters, letters of other scripts, and of those syllables and unknown ones."""
    chinese = len("".join(_CHINESE.findall(stem)))
    scripts = len(_OTHER_LETTERS.findall(stem))
    if not scripts:
        return chinese, 0, 0, 0
    return chinese, scripts, len(_SYLLABLES.findall(stem)), len(_UNKNOWN.findall(stem))


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
