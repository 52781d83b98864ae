"""Latent semantic analysis of a reading: how rare its words are, and what it is about, in 64 numbers.

Deerwester et al. 1990: a truncated SVD of the matrix of prompts and terms. The table holds a row of 64 small
integers for each term; a text is the sum of the rows of its distinct terms, each times the rarity of its
term, over the length of those rarities. Any linear model of the 64 numbers can be folded into one number a
term (`Lsa.folded`), so that serving looks terms up and multiplies no rows.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, log, sqrt
from operator import mul

from classifier.reading import Reading, read

DIMENSIONS = 64

UNKNOWN = log(4000)
"""The rarity of a word that is not in the table: as if one prompt in 4,000 had it."""

DAMPING = 25.0
"""Added to the squared length of a text's rarities, so that two or three words do not make a topic."""

_RAREST = 3
_MOST_CHINESE = 2048  # characters of a stem in which Chinese ones are looked for
_CHINESE_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")


def terms_of(reading: Reading) -> frozenset[str]:
    """The distinct terms of a reading: ASCII words and Chinese characters.

    Pairs of characters would say more, and cost more than everything else in a Chinese request.
    """
    if not reading.chinese:
        return reading.distinct
    return reading.distinct.union("".join(_CHINESE_RUN.findall(reading.stem, 0, _MOST_CHINESE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lsa:
    """A table of T terms.

    Attributes:
        terms: The terms.
        rarities: (T,) -log of the share of prompts with the term, sources weighing the same.
        rows: T x DIMENSIONS signed bytes, row by row.
        scales: (DIMENSIONS,) what a unit of `rows` is worth.
        gains: (T,) the folded ridge that predicts the gain, in its standard deviations.
        neutral: The rarity that a text is given that is mostly in other scripts, or has no words.
    """

    terms: tuple[str, ...] = field(repr=False)
    rarities: tuple[float, ...] = field(repr=False)
    rows: bytes = field(repr=False)
    scales: tuple[float, ...] = field(repr=False)
    gains: tuple[float, ...] = field(repr=False)
    neutral: float
    _known: frozenset[str] = field(init=False, repr=False, compare=False)
    _places: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _rarity: Mapping[str, float] = field(init=False, repr=False, compare=False)
    _gain: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(self.terms))
        object.__setattr__(self, "_places", {term: at for at, term in enumerate(self.terms)})
        object.__setattr__(self, "_rarity", dict(zip(self.terms, self.rarities, strict=True)))
        object.__setattr__(self, "_gain", dict(zip(self.terms, self.gains, strict=True)))

    def look_up(self, reading: Reading) -> tuple[float, float]:
        """The rarity of its words, and the gain that its topics speak for.

        Returns:
            The mean rarity of the three rarest ASCII words, and the folded ridge (0 for an average topic).
        """
        known = terms_of(reading) & self._known
        rarities = list(map(self._rarity.__getitem__, known))
        gains = fsum(map(self._gain.__getitem__, known))  # exact, as the order of a set is no order
        topics = gains / sqrt(DAMPING + fsum(map(mul, rarities, rarities)))
        if 2.0 * len(reading.words) < reading.units:
            return self.neutral, topics  # another script: its few ASCII words tell little
        if reading.chinese:
            rarities = [self._rarity[word] for word in reading.distinct & known]
        return self._rarest(reading.distinct - known, rarities), topics

    def project(self, text: Reading | str) -> Sequence[float]:
        """The DIMENSIONS numbers of a text; zeros when none of its terms is known."""
        places = self._known_places(read(text) if isinstance(text, str) else text)
        rows = memoryview(self.rows).cast("b")
        sums = [0.0] * DIMENSIONS
        for at in places:
            rarity = self.rarities[at]
            row = rows[at * DIMENSIONS : (at + 1) * DIMENSIONS]
            sums = [total + rarity * value for total, value in zip(sums, row, strict=True)]
        length = sqrt(DAMPING + sum([self.rarities[at] ** 2 for at in places]))
        return [scale * total / length for scale, total in zip(self.scales, sums, strict=True)]

    def folded(self, weights: Sequence[float]) -> Mapping[str, float]:
        """A linear model of the DIMENSIONS numbers as one number a term; see `total`."""
        scaled = [weight * scale for weight, scale in zip(weights, self.scales, strict=True)]
        rows = memoryview(self.rows).cast("b")
        return {
            term: rarity * sum([w * v for w, v in zip(scaled, rows[at : at + DIMENSIONS], strict=True)])
            for term, rarity, at in zip(
                self.terms, self.rarities, range(0, len(rows), DIMENSIONS), strict=True
            )
        }

    def total(self, folded: Mapping[str, float], reading: Reading) -> float:
        """What `weights . project(reading)` is, from `folded(weights)`."""
        known = terms_of(reading) & self._known
        squares = fsum([self._rarity[term] ** 2 for term in known])
        return fsum(map(folded.__getitem__, known)) / sqrt(DAMPING + squares)

    def _known_places(self, reading: Reading) -> list[int]:
        return sorted(map(self._places.__getitem__, terms_of(reading) & self._known))

    def _rarest(self, others: Iterable[str], rarities: Sequence[float]) -> float:
        unknown = sum(map(str.isalpha, others))
        if unknown >= _RAREST:
            return UNKNOWN
        top = sorted(rarities)[unknown - _RAREST :] + [UNKNOWN] * unknown
        return sum(top) / len(top) if top else self.neutral
