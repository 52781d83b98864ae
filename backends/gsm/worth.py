"""What keeping a group is worth, learned from when groups of its kind were used again.

A group that is kept takes room until it is used or given up. Keeping it up to an age T brings P(used by T)
hits for E[min(time of use, T)] of room and time; the best T gives the most hits for the room, and that
quotient is the worth. It is the Gittins index of a group (Gittins, 1979); hits per room and time is also what
LHD ranks by (Beckmann, Chen, Cidon: LHD, NSDI 2018). Evicting what has the least is best as long as groups
are small beside the whole memory.
"""

import math
from collections.abc import Iterable, Sequence

AGES = 44
"""Ages fall into this many bins, two an octave; the last one takes all from 2^21.5 on."""

_PRIOR_HAZARD = 0.05
_PRIOR_WEIGHT = 4.0
_FADING = 0.98

_STARTS = [2.0 ** (age / 2) - 1 for age in range(AGES + 1)]


def age_bin(age: int) -> int:
    """Return the bin, in [0, AGES), of an age counted in requests."""
    return min(AGES - 1, int(2 * math.log2(age + 1)))


def bin_end(age: int) -> float:
    """Return the age at which a bin ends, in requests; the last one never does."""
    return _STARTS[age + 1] if age < AGES - 1 else math.inf


class ReturnTimes:
    """How long groups of each kind wait for their next use.

    A life table: for each kind and bin of age, how many groups came to it and how many of them were used in
    it. What is known of a kind is drawn towards what is known of all kinds, and that towards a chance of use
    that falls as 1 / age, under which the least recently used group is worth the least. So an order that has
    learned nothing is LRU.
    """

    def __init__(self, kinds: int) -> None:
        """Begin with nothing known of `kinds` kinds, named 0 to kinds - 1."""
        self._used = [[0.0] * AGES for _ in range(kinds)]
        self._lost = [[0.0] * AGES for _ in range(kinds)]

    def add_use(self, kind: int, age: int) -> None:
        """Count a group of this kind that was used again at this age."""
        self._used[kind][age_bin(age)] += 1

    def add_loss(self, kind: int, age: int) -> None:
        """Count a group of this kind that was not used up to this age, and is watched no more."""
        self._lost[kind][age_bin(age)] += 1

    def fade(self) -> None:
        """Let what was counted weigh less than what will be."""
        for rows in (self._used, self._lost):
            for row in rows:
                for age in range(AGES):
                    row[age] *= _FADING

    def worth(self, waiting: Iterable[tuple[int, int]]) -> list[list[float]]:
        """Work out the worth of each kind at each age.

        Args:
            waiting: Kind and age of each group that is watched and waits for its next use.

        Returns:
            One row a kind of AGES values, in hits per request that a group is kept.
        """
        gone = [row[:] for row in self._lost]
        for kind, age in waiting:
            gone[kind][age_bin(age)] += 1
        came = [_at_risk(used, lost) for used, lost in zip(self._used, gone, strict=True)]
        of_all = _hazards(_sum(self._used), _sum(came), [_PRIOR_HAZARD] * AGES)
        return [
            _best_rates(_hazards(used, risk, of_all)) for used, risk in zip(self._used, came, strict=True)
        ]


def _at_risk(used: Sequence[float], lost: Sequence[float]) -> list[float]:
    """Count who came to each bin; a group lost in a bin counts there for half (the actuarial estimate)."""
    risk = [0.0] * AGES
    later = 0.0
    for age in reversed(range(AGES)):
        later += used[age] + lost[age]
        risk[age] = later - lost[age] / 2
    return risk


def _sum(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _hazards(used: Sequence[float], risk: Sequence[float], prior: Sequence[float]) -> list[float]:
    return [(used[age] + _PRIOR_WEIGHT * prior[age]) / (risk[age] + _PRIOR_WEIGHT) for age in range(AGES)]


def _best_rates(hazards: Sequence[float]) -> list[float]:
    """Return, for each age to start from, the most hits per time over all ages at which to give up."""
    best = [0.0] * AGES
    for start in range(AGES):
        alive, hits, kept = 1.0, 0.0, 0.0
        for age in range(start, AGES):
            used = alive * hazards[age]
            hits += used
            kept += (_STARTS[age + 1] - _STARTS[age]) * (alive - used / 2)
            alive -= used
            best[start] = max(best[start], hits / kept)
    return best
