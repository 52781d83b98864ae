"""The terms that the pairs of an adapted model share, and a prompt as which of them it has.

The table of `classifier.lsa` knows the words of the labelled prompts; these are a tenant's own.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from classifier.inputs import Array

MAX_TERMS = 512
"""The terms that are kept, those of most prompts."""

_FEWEST_PROMPTS = 3  # a term of fewer names them: a person, a number, an address
_LONGEST_TERM = 24


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """T terms, words or Chinese characters."""

    terms: tuple[str, ...]

    def rows(self, prompts: Sequence[Collection[str]]) -> Array:
        """(N, T) for the distinct terms of N prompts: rows of length 1, or of zeros where none is known."""
        places = {term: at for at, term in enumerate(self.terms)}
        found = np.zeros((len(prompts), len(places)))
        for row, prompt in enumerate(prompts):
            known = [places[term] for term in prompt if term in places]
            found[row, known] = 1.0 / np.sqrt(max(len(known), 1))
        return found


def shared_terms(prompts: Sequence[Collection[str]]) -> Vocabulary:
    """The terms that enough of `prompts`, distinct ones, have; in a settled order."""
    counts = Counter(term for prompt in prompts for term in prompt)
    usable = [
        term
        for term, count in counts.items()
        if count >= _FEWEST_PROMPTS and len(term) <= _LONGEST_TERM and not term.isdigit()
    ]
    return Vocabulary(tuple(sorted(usable, key=lambda term: (-counts[term], term))[:MAX_TERMS]))
