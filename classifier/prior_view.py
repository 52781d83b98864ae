"""What an adapted model takes from the prior: where its two outcomes start, and what a prompt is about."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from classifier.inputs import Array
from classifier.lsa import DIMENSIONS, terms_of
from classifier.reading import Reading
from classifier.scoring import Prior

STARTS = 2
"""How many numbers `starts` gives."""


class PriorView:
    """A prior, with its tables in numpy."""

    __slots__ = ("_bias", "_failure", "_known", "_places", "_raw", "_rows", "prior")

    def __init__(self, prior: Prior) -> None:
        lsa = prior.lsa
        rows = np.frombuffer(lsa.rows, dtype=np.int8).reshape(-1, DIMENSIONS).astype(np.float32)
        rows *= np.array(lsa.rarities, dtype=np.float32)[:, None] * np.array(lsa.scales, dtype=np.float32)
        self.prior = prior
        self._rows = rows
        self._places = {term: at for at, term in enumerate(lsa.terms)}
        self._known = frozenset(lsa.terms)
        self._raw = prior.ranker.raw
        self._failure = np.array(prior.ranker.failure.weights)
        self._bias = prior.ranker.failure.bias

    def starts(self, values: Sequence[float]) -> tuple[float, float]:
        """The raw score, and the logit of P(weak model fails), of one prompt's features."""
        return self._raw(values), float(self._failure @ np.array(values)) + self._bias

    def topic(self, reading: Reading) -> Array:
        """(DIMENSIONS,) the direction of `Lsa.project`, of length 1; zeros when no term is known.

        The length of a projection says little beyond how many words there are.
        """
        return self.direction(reading).astype(np.float64)

    def direction(self, reading: Reading) -> npt.NDArray[np.float32]:
        """The same in single precision."""
        terms = terms_of(reading) if reading.chinese else reading.distinct
        # Sorted, as the order of a set differs from process to process, and with it the last bits of a sum.
        places = sorted(map(self._places.__getitem__, self._known.intersection(terms)))
        if not places:
            return np.zeros(DIMENSIONS, dtype=np.float32)
        total = np.add.reduce(self._rows.take(places, 0), 0)
        total *= 1.0 / max(sqrt(total.dot(total)), 1e-12)
        return total
