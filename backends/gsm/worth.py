"""What keeping a group is worth, learned from when groups of its kind were used again.

A group that is kept takes room until it is used or given up. Keeping it up to an age T brings P(used by T)
hits for E[min(time of use, T)] of room and time; the best T gives the most hits for the room, and that
quotient is the worth. It is the Gittins index of a group (Gittins, 1979); hits per room and time is also what
LHD ranks by (Beckmann, Chen, Cidon: LHD, NSDI 2018). Evicting what has the least is best as long as groups
are small beside the whole memory.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

AGES = 44
"""Ages fall into this many bins, two an octave; the last one takes all from 2^21.5 on."""

_PRIOR_HAZARD = 0.02
_PRIOR_WEIGHT = 4.0
_FACTOR_WEIGHT = 30.0
_KIND_WEIGHT = 30.0
_FADING = 0.98
_SMOOTHINGS = 2
_MOST_HAZARD = 0.95

_STARTS = [2.0 ** (age / 2) - 1 for age in range(AGES + 1)]
_WIDTHS = [end - start for start, end in pairwise(_STARTS)]

BIN_ENDS = (*_STARTS[1:-1], math.inf)
"""The ages at which the bins end, in requests; the last one never does."""


def age_bin(age: int) -> int:
    """Return the bin, in [0, AGES), of an age counted in requests."""
    return min(AGES - 1, int(2 * math.log2(age + 1)))


class ReturnTimes:
    """How long groups of each kind wait for their next use.

    A life table: for each kind and bin of age, how many groups came to it and how many of them were used in
    it. Groups of one request share their fate, so hundreds of them say little, and what is known of a kind is
    drawn towards less special knowledge: the table of a kind towards that of all kinds times a factor for the
    kind (proportional hazards), the factor towards that of its level, the factor of a level towards the
    number of uses, the table of all kinds towards a chance of use that falls as 1 / age, under which the
    least recently used is worth the least.
    """

    def __init__(self, levels: int, kinds_a_level: int) -> None:
        """Begin with nothing known.

        Kinds are numbered `level * kinds_a_level + i`; level n is taken to be used n + 1 times as often as
        level 0.
        """
        self._per_level = kinds_a_level
        kinds = levels * kinds_a_level
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
                row[:] = [count * _FADING for count in row]

    def uses_older(self, age: int) -> float:
        """Return how many uses came at more than this age."""
        return sum(sum(row[age_bin(age) + 1 :]) for row in self._used)

    def worth(self, waiting: Iterable[tuple[int, int, int]]) -> list[list[float]]:
        """Work out the worth of each kind at each age.

        Args:
            waiting: Kind, age and number of the groups that are watched and wait for their next use.

        Returns:
            One row a kind of AGES values, in hits per request that a group is kept.
        """
        gone = [row[:] for row in self._lost]
        for kind, age, count in waiting:
            gone[kind][age_bin(age)] += count
        came = [_at_risk(used, lost) for used, lost in zip(self._used, gone, strict=True)]
        of_all = _hazards(_sum(self._used), _sum(came), [_PRIOR_HAZARD] * AGES, _PRIOR_WEIGHT)
        rows: list[list[float]] = []
        for kind, factor in enumerate(self._factors(came, of_all)):
            prior = [min(_MOST_HAZARD, factor * hazard) for hazard in of_all]
            rows.append(_best_rates(_smooth(_hazards(self._used[kind], came[kind], prior, _KIND_WEIGHT))))
        return rows

    def _factors(self, came: Sequence[Sequence[float]], of_all: Sequence[float]) -> list[float]:
        """Return how many times as often as all kinds each kind is used."""
        seen = [sum(row) for row in self._used]
        due = [sum(hazard * risk for hazard, risk in zip(of_all, row, strict=True)) for row in came]
        factors: list[float] = []
        for first in range(0, len(seen), self._per_level):
            kinds = range(first, first + self._per_level)
            level = first // self._per_level + 1
            of_level = _shrunk(sum(seen[kind] for kind in kinds), sum(due[kind] for kind in kinds), level)
            factors += [_shrunk(seen[kind], due[kind], of_level) for kind in kinds]
        return factors


def _shrunk(seen: float, due: float, prior: float) -> float:
    return (seen + _FACTOR_WEIGHT * prior) / (due + _FACTOR_WEIGHT)


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


def _hazards(
    used: Sequence[float], risk: Sequence[float], prior: Sequence[float], weight: float
) -> list[float]:
    return [(used[age] + weight * prior[age]) / (risk[age] + weight) for age in range(AGES)]


def _smooth(hazards: list[float]) -> list[float]:
    """Even out chance, which a search for the best age would take for knowledge."""
    for _ in range(_SMOOTHINGS):
        inner = [
            (before + 2 * here + after) / 4
            for before, here, after in zip(hazards, hazards[1:], hazards[2:], strict=False)
        ]
        hazards = [hazards[0], *inner, hazards[-1]]
    return hazards


def _best_rates(hazards: Sequence[float]) -> list[float]:
    """Return, for each age to start from, the most hits per time over all ages at which to give up.

    It pays to keep on over the ages that follow as long as they bring hits at a better rate than those
    before.
    """
    best = [0.0] * AGES
    stretches: list[
        tuple[float, float, float]
    ] = []  # hits, time and survivors of who came to it; the first one last
    for age in reversed(range(AGES)):
        hits = hazards[age]
        kept = _WIDTHS[age] * (1 - hits / 2)
        alive = 1 - hits
        while stretches and hits * stretches[-1][1] < stretches[-1][0] * kept:
            more, longer, left = stretches.pop()
            hits += alive * more
            kept += alive * longer
            alive *= left
        stretches.append((hits, kept, alive))
        best[age] = hits / kept
    return best
