"""Pairs of outcomes in which made-up names are hard, and vectors that say which."""

import numpy as np

from classifier.pairs import Pair

NAMES = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst"]
"""Made-up words; those of even number are hard."""


def pairs_of(count: int, seed: int = 0, *, by_name: float = 0.5) -> list[Pair]:
    """Flash fails translations more often, and hard names, most of which no two pairs have."""
    rng = np.random.default_rng(seed)
    names, short = rng.integers(0, len(NAMES), count), rng.random(count) < 0.5
    fails = rng.random(count) < 0.04 + 0.35 * short + by_name * (names % 2 == 0)
    return [
        Pair(f"{'Translate the word' if hard else 'Review the contract of'} {NAMES[name]}.", 1.0 - fail, 1.0)
        for name, hard, fail in zip(names.tolist(), short.tolist(), fails.tolist(), strict=True)
    ]


def vectors_of(seed: int, *, telling: bool = True) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    """A vector a name; with `telling` it says which names are hard."""
    found = np.random.default_rng(seed).normal(size=(len(NAMES), 16)).astype(np.float32)
    if telling:
        found[:, 0] = np.where(np.arange(len(NAMES)) % 2 == 0, 4.0, -4.0)
    return found
