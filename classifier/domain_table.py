"""The table that tells domains apart: for each term a number a domain, summed over the terms of a text.

A linear model of distinct words, pairs of words, Chinese characters and pairs of them, and signs of code and
mathematics. The numbers of a term stand side by side in one integer, in fields of 32 bits, so that one sum
adds up all domains at once. The last field adds up squared rarities, by whose root the sums are divided.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, sqrt

from classifier.reading import Reading
from classifier.text import Marks, ascii_signs

DOMAINS = ("legal", "medical", "finance", "safety", "code", "math", "extraction", "creative", "chat")
"""All domains; "chat" is what none of the others is."""

DAMPING = 4.0
"""Added to the squared length of a text's rarities, so that one or two words are no proof."""

MIDDLE = 128
"""The byte that stands for a weight of 0."""

COLUMNS = len(DOMAINS) + 1
"""Bytes a term: a weight for each domain, and the squared rarity."""

_SAFETY = DOMAINS.index("safety")
# What sounds dangerous and is not; too rare a way of speaking for the table to learn.
_HARMLESS = re.compile(
    r"\b(?:(?:bath|photo|seed|cherry|lava) bombs?|bombs?hell|(?:nail|glue|heat|spray|water|paint) guns?"
    r"|poison ivy|video games?|virus scan\w*|(?:heart|panic|asthma) attacks?)\b",
    re.IGNORECASE,
)
_FIELDS = struct.Struct(f"<{COLUMNS}I")
_MOST_CHINESE = 2048  # characters of a stem in which Chinese ones are looked for
_CHINESE_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")

_CODE_MARKS = Marks(
    "```", "def ", "#include", "</", "()", "=>", "==", "};", "return ", "self.", "SELECT "
)  # fmt: skip
_MATH_MARKS = Marks("\\frac", "\\sum", "\\int", "\\sqrt", "^2", "^n", "f(x)", "²")
# "1 + 2". The pattern begins with the operator, which is rarer than a digit and quicker to look for.
_ARITHMETIC = re.compile(r"[-+*/^×÷](?:(?<=\d.)|(?<=\d .)) ?\d")
_OPERATORS = frozenset(b"-+*/^")
_CODE, _MUCH_CODE, _MATH = "#code", "#much_code", "#math"  # no word begins with such a sign
_MUCH = 2


def terms_of(reading: Reading) -> Iterator[str]:
    """The terms of a reading, some perhaps twice. Two words are joined by a space."""
    yield from reading.distinct
    yield from map(" ".join, reading.pairs)
    if reading.chinese:
        for run in _CHINESE_RUN.findall(reading.stem, 0, _MOST_CHINESE):
            yield from run
            yield from map("".join, pairwise(run))
    yield from _marks(reading)


def _marks(reading: Reading) -> Sequence[str]:
    """What the signs in it say, as against its words."""
    text = reading.text
    signs = reading.signs if len(reading.stem) == len(text) else ascii_signs(text)
    code = _CODE_MARKS.count(text, signs)
    found = [_CODE, _MUCH_CODE][: 1 + (code > _MUCH)] if code else []
    if _MATH_MARKS.count(text, signs) or (
        not (text.isascii() and _OPERATORS.isdisjoint(signs)) and _ARITHMETIC.search(text)
    ):
        found.append(_MATH)
    return found


def _twos(text: str, start: int = 0) -> "memoryview[int]":
    """A number for each two characters from `start` on, without overlap: quicker to have than strings."""
    encoded = text.encode("utf-16-le", "surrogatepass")[2 * start :]
    return memoryview(encoded)[: len(encoded) & ~3].cast("I")


@dataclass(frozen=True, slots=True)
class DomainTable:
    """A table of T terms.

    Attributes:
        terms: As `terms_of` gives them.
        columns: COLUMNS x T bytes, column by column: for each of DOMAINS the weights plus MIDDLE, then the
            squared rarities.
        biases: (domains,) of the logits, in the unit of the weights.
        rarity: What a unit of the last column is worth.
    """

    terms: Sequence[str] = field(repr=False)
    columns: bytes = field(repr=False)
    biases: Sequence[float]
    rarity: float
    _singles: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _known_singles: frozenset[str] = field(init=False, repr=False, compare=False)
    _characters: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _known_characters: frozenset[str] = field(init=False, repr=False, compare=False)
    _words: Mapping[tuple[str, ...], int] = field(init=False, repr=False, compare=False)
    _known_words: frozenset[tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _chinese: Mapping[int, int] = field(init=False, repr=False, compare=False)
    _known_chinese: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        singles: dict[str, int] = {}
        characters: dict[str, int] = {}
        words: dict[tuple[str, ...], int] = {}
        chinese: dict[int, int] = {}
        for term, number in zip(self.terms, self._packed(), strict=True):
            if " " in term:
                words[tuple(term.split(" "))] = number
            elif term.isascii():
                singles[term] = number
            elif len(term) == 1:
                characters[term] = number
            else:
                chinese[_twos(term)[0]] = number
        for name, table in (
            ("singles", singles),
            ("characters", characters),
            ("words", words),
            ("chinese", chinese),
        ):
            object.__setattr__(self, f"_{name}", table)
            object.__setattr__(self, f"_known_{name}", frozenset(table))

    def domain_of(self, reading: Reading) -> str:
        """The domain with the highest logit; "chat" when no term is known."""
        total = self._total(reading)
        if not total:
            return DOMAINS[-1]
        *sums, squares = _FIELDS.unpack(total.to_bytes(_FIELDS.size, "little"))
        # Each known term adds MIDDLE to every domain alike, so which is highest is left as it is.
        length = sqrt(DAMPING + self.rarity * squares)
        logits = [value / length + bias for value, bias in zip(sums, self.biases, strict=True)]
        found = logits.index(max(logits))
        if found == _SAFETY and _HARMLESS.search(reading.text):
            logits[_SAFETY] = -inf
            found = logits.index(max(logits))
        return DOMAINS[found]

    def _total(self, reading: Reading) -> int:
        total = sum(map(self._singles.__getitem__, self._known_singles & reading.distinct))
        if pairs := self._known_words & reading.pairs:
            total += sum(map(self._words.__getitem__, pairs))
        if marks := self._known_singles.intersection(_marks(reading)):
            total += sum(map(self._singles.__getitem__, marks))
        if not reading.chinese:
            return total
        stem = reading.stem[:_MOST_CHINESE]
        chinese = self._known_chinese.intersection(_twos(stem)) | self._known_chinese.intersection(
            _twos(stem, 1)
        )
        single = self._known_characters.intersection(stem)
        total += sum(map(self._chinese.__getitem__, chinese))
        return total + sum(map(self._characters.__getitem__, single))

    def _packed(self) -> Iterator[int]:
        """The numbers of each term, in fields of 32 bits of one integer."""
        count, size = len(self.terms), _FIELDS.size
        wide = bytearray(size * count)
        for at in range(COLUMNS):
            wide[4 * at :: size] = self.columns[at * count : (at + 1) * count]
        return (int.from_bytes(wide[at : at + size], "little") for at in range(0, len(wide), size))
