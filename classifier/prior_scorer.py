"""The prior with what tasks have gained: what a tenant is served before there are pairs enough to adapt to.

The prior has no scale of gains of its own. Over the labelled sources a unit of its raw score is worth
GAIN_OF_RAW of gain, on average; so an effect of a task is as many units as make that gain. The prior says
little, so a task that gains .1 more than the others moves a prompt far.
"""

from collections.abc import Mapping, Sequence

from classifier.features import FEATURE_NAMES
from classifier.reading import Reading
from classifier.scoring import Prior, rank_in
from classifier.task_gains import TaskGains

GAIN_OF_RAW = 0.02
"""Slope of the gain over the raw score: .01 to .07 by source, each left out of the prior, median .018; any
slope from .01 to .03 ranks as well, within .01 of APGR."""


class PriorScorer:
    """The prior, moved by the effect of each task.

    Immutable; safe to share between threads.
    """

    __slots__ = ("_moves", "_prior")

    def __init__(self, prior: Prior, moves: Mapping[str, float] | None = None) -> None:
        """Add `moves` to the raw score, by task."""
        self._prior = prior
        self._moves = moves or {}

    def with_gains(self, gains: TaskGains) -> "PriorScorer":
        """The same prior, with these excesses counted by task."""
        known = gains.with_own_shrinkage()
        return PriorScorer(self._prior, {task: known.effect(task) / GAIN_OF_RAW for task in known.tasks})

    def excess(self, values: Sequence[float], reading: Reading, task: str, gain: float) -> tuple[str, float]:  # noqa: ARG002 - as of an adapted model
        """The task of a pair, and by how much its gain lies above what the prior makes of the prompt.

        The level that all gains have in common does not matter.
        """
        return task, gain - GAIN_OF_RAW * self._prior.ranker.raw(values)

    def estimate(self, values: Sequence[float], reading: Reading, task: str) -> tuple[float, None]:  # noqa: ARG002 - as of an adapted model
        """The score of one request, in (0, 1), and no probability; see `AdaptedScorer.estimate`."""
        return self._score(values, task), None

    def contributions(self, values: Sequence[float], reading: Reading, task: str) -> Mapping[str, float]:  # noqa: ARG002 - as of an adapted model
        """By how much each feature, against its median in the reference, and the task move the score."""
        score = self._score(values, task)
        moved: dict[str, float] = {}
        for at, name in enumerate(FEATURE_NAMES):
            other = list(values)
            other[at] = self._prior.centre[at]
            moved[name] = score - self._score(other, task)
        moved["task"] = score - self._score(values, "")
        return moved

    def _score(self, values: Sequence[float], task: str) -> float:
        raw = self._prior.ranker.raw(values)
        return rank_in(self._prior.quantiles, raw + self._moves.get(task, 0.0))
