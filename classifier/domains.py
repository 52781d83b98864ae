"""Which field a request belongs to, by weighted cue words in English and Chinese.

Every distinct cue counts once. A domain needs cues worth two points, so that a lone "law" or "patient" in
a talk about code or queues names nothing; the domain with most points wins.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from math import log2

from classifier.domain_cues import ENGLISH
from classifier.domain_cues_zh import CHINESE
from classifier.reading import Reading, read
from classifier.text import Marks, ascii_signs

DOMAINS = ("legal", "medical", "finance", "safety", "code", "math", "extraction", "creative", "chat")
"""All domains; "chat" is what none of the others claims."""

_ENOUGH = 2.0
_SAFETY, _CODE, _MATH = map(DOMAINS.index, ("safety", "code", "math"))

_CODE_MARKS = Marks(
    "```", "def ", "#include", "</", "()", "=>", "==", "};", "return ", "self.", "SELECT "
)  # fmt: skip
_MATH_MARKS = Marks("\\frac", "\\sum", "\\int", "\\sqrt", "^2", "^n", "f(x)", "²")
# "1 + 2". The pattern begins with the operator, which is rarer than a digit and quicker to look for.
_ARITHMETIC = re.compile(r"[-+*/^×÷](?:(?<=\d.)|(?<=\d .)) ?\d")
_OPERATORS = frozenset(b"-+*/^")
# What sounds dangerous and is not.
_HARMLESS = re.compile(
    r"\b(?:(?:bath|photo|seed|cherry|lava) bombs?|bombs?hell|(?:nail|glue|heat|spray|water|paint) guns?"
    r"|poison ivy|video games?|virus scan\w*|(?:heart|panic|asthma) attacks?)\b",
    re.IGNORECASE,
)
_HARMLESS_POINTS = 1.5
_PLURAL_CHARS = 4  # a cue this long stands for its plural as well
_LONG = 60.0
"""Words beyond which a text holds a few cues of any domain by chance."""

Claims = tuple[tuple[int, float], ...]


def _claims() -> dict[str, Claims]:
    """Every cue with the domains, by their places in DOMAINS, that it speaks for."""
    found: dict[str, dict[int, float]] = {}
    for tables in (ENGLISH, CHINESE):
        for domain, table in tables.items():
            at = DOMAINS.index(domain)
            for points, cues in table.items():
                for cue in chain.from_iterable(map(_forms, cues.split())):
                    found.setdefault(cue, {}).setdefault(at, points)
    return {cue: tuple(claims.items()) for cue, claims in found.items()}


def _forms(cue: str) -> Sequence[str]:
    """A cue as it may stand in a text: in lower case where it is ASCII, and its plural."""
    if not cue.isascii():
        return (cue,)
    cue = cue.lower()
    if "_" in cue or len(cue) < _PLURAL_CHARS or not cue.isalpha() or cue.endswith("s"):
        return (cue,)
    return (cue, f"{cue[:-1]}ies" if cue.endswith("y") and cue[-2] not in "aeou" else f"{cue}s")


_CLAIMS = _claims()
_CUES = frozenset(cue for cue in _CLAIMS if cue.isascii() and "_" not in cue)
_PHRASES = {tuple(cue.split("_")): cue for cue in _CLAIMS if cue.isascii() and "_" in cue}


def _beginnings(cues: Iterable[str]) -> dict[int, tuple[str, ...]]:
    """Two characters, as a number of `_twos` -> the cues that begin with them, the longest first."""
    found: dict[int, list[str]] = {}
    for cue in cues:
        found.setdefault(_twos(cue[:2].encode("utf-16-le"))[0], []).append(cue)
    return {head: tuple(sorted(each, key=len, reverse=True)) for head, each in found.items()}


def _twos(encoded: bytes) -> "memoryview[int]":
    """A number for each two characters of UTF-16, without overlap: had in a third of the time of a string."""
    return memoryview(encoded)[: len(encoded) & ~3].cast("I")


_CHINESE = _beginnings(cue for cue in _CLAIMS if not cue.isascii() and len(cue) > 1)
_CHINESE_HEADS = frozenset(_CHINESE)
_CHARACTERS = frozenset(cue for cue in _CLAIMS if not cue.isascii() and len(cue) == 1)
_PAIRS = frozenset(words[:2] for words in _PHRASES)
_LONGER = frozenset(words[:2] for words in _PHRASES if len(words) > 2)


def detect_domain(text: str) -> str:
    """The domain of `text`: one of DOMAINS. Bounded for any length; never raises."""
    return domain_of(read(text))


def domain_of(reading: Reading) -> str:
    """The domain of a text that was read already."""
    found = _found(reading)
    code, math = _code_and_math(reading)
    if not (found or code or math):
        return "chat"
    points = [0.0] * len(DOMAINS)
    points[_CODE], points[_MATH] = code, math
    for cue in found:
        for domain, worth in _CLAIMS[cue]:
            points[domain] += worth
    if points[_SAFETY] and _HARMLESS.search(reading.text):
        points[_SAFETY] -= _HARMLESS_POINTS
    most = max(points)
    enough = _ENOUGH if reading.units <= _LONG else _ENOUGH * (1.0 + 0.25 * log2(reading.units / _LONG))
    return DOMAINS[points.index(most)] if most >= enough else "chat"


def _code_and_math(reading: Reading) -> tuple[float, float]:
    """The points of marks, as against cue words."""
    text = reading.text
    signs = reading.signs if len(reading.stem) == len(text) else ascii_signs(text)
    code = _CODE_MARKS.count(text, signs)
    math = _MATH_MARKS.count(text, signs) or (
        not (text.isascii() and _OPERATORS.isdisjoint(signs)) and _ARITHMETIC.search(text)
    )
    return min(4.0, 1.25 * code), 2.0 if math else 0.0


def _found(reading: Reading) -> Collection[str]:
    """The cues in it; those of two and three words stand in `_CLAIMS` joined by "_"."""
    words = reading.words
    found = _CUES & reading.distinct
    if pairs := _PAIRS.intersection(pairwise(words)):
        found = found.union(_phrases(words, pairs))
    return found.union(_in_chinese(reading.text)) if reading.chinese else found


def _phrases(words: Sequence[str], pairs: Collection[tuple[str, ...]]) -> Iterator[str]:
    for pair in pairs:
        if pair in _PHRASES:
            yield _PHRASES[pair]
    if not _LONGER.isdisjoint(pairs):
        for three in _PHRASES.keys() & set(zip(words, words[1:], words[2:], strict=False)):
            yield _PHRASES[three]


def _in_chinese(text: str) -> Iterator[str]:
    """Chinese cues in `text`, of those that begin alike the longest."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    heads = _CHINESE_HEADS.intersection(_twos(encoded)) | _CHINESE_HEADS.intersection(_twos(encoded[2:]))
    for head in heads:
        for cue in _CHINESE[head]:
            if cue in text:
                yield cue
                break
    yield from _CHARACTERS.intersection(text)
