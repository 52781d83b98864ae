"""An adapted model: what pairs added to the prior. `classifier.adapted_scorer` serves it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from classifier.calibration import Platt
from classifier.inputs import Array, Scale, nearest_centre
from classifier.risk import Calibration
from classifier.second_stage import SecondStage
from classifier.surface import CLUSTER, Space, Surface
from classifier.task_gains import TaskGains
from classifier.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the bounds of its middle 90% over bootstrap resamples."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SecondStageReport:
    """What vectors of a sentence encoder changed on top, on the same held-out pairs.

    Attributes:
        encoder: Its name.
        difference: APGR of both stages - APGR of the first.
        better: Share of the resamples in which both rank better.
        kept: Whether that was enough to keep the second stage.
    """

    encoder: str
    difference: Interval
    better: float
    kept: bool


@dataclass(frozen=True, slots=True)
class AdaptationReport:
    """What adapting changed, on pairs held out from what ranked them (five folds by prompt).

    Attributes:
        pairs: How many there were.
        tasks: How many tasks were named.
        gap: Mean score of the standard model over that of Flash.
        before: APGR of the prior.
        after: APGR of the adapted model.
        difference: After - before, resampled together.
        better: Share of the resamples in which the adapted model ranks better.
        flash_auc: How well p_flash_ok, or what would be it, tells good answers of Flash from bad ones; None
            when all are of one kind.
        calibration_error: Expected calibration error of p_flash_ok; None while it is not stated.
        second_stage: What an encoder adds; None without one. All other figures are of the first stage.
    """

    pairs: int
    tasks: int
    gap: float
    before: Interval
    after: Interval
    difference: Interval
    better: float
    flash_auc: float | None
    calibration_error: float | None
    second_stage: SecondStageReport | None = None


@dataclass(frozen=True, slots=True)
class Effects:
    """One outcome: its surface and the counters of what each task adds to it.

    The counters hold outcome - surface of every pair, so later pairs can be added to them as they come.
    """

    surface: Surface
    tasks: TaskGains


@dataclass(frozen=True, slots=True)
class View:
    """How prompts are brought before the surfaces.

    Attributes:
        scale: Of the features.
        starts_mean: (STARTS,) of what the prior says of the pairs.
        starts_deviation: Likewise.
        centres: (C, F + D) of the clusters that stand in for a missing task; none when C is 0.
        vocabulary: The terms that count.
    """

    scale: Scale
    starts_mean: Array
    starts_deviation: Array
    centres: Array
    vocabulary: Vocabulary

    def space(
        self,
        values: Array,
        topics: Array,
        starts: Array,
        terms: Sequence[Collection[str]],
        tasks: Sequence[str],
    ) -> Space:
        """Prompts as the surfaces see them, those without a task in their cluster.

        Args:
            values: (N, features).
            topics: (N, D), each of length 1.
            starts: (N, STARTS) what the prior says.
            terms: The distinct terms of each.
            tasks: N names.
        """
        shape = self.scale.shape(values)
        names = list(tasks)
        if len(self.centres):
            clusters = nearest_centre(np.hstack([shape, topics]), self.centres).tolist()
            names = [name or f"{CLUSTER}{cluster}" for name, cluster in zip(names, clusters, strict=True)]
        return Space(
            starts=(starts - self.starts_mean) / self.starts_deviation,
            shape=shape,
            topic=topics,
            terms=self.vocabulary.rows(terms),
            tasks=names,
        )


@dataclass(frozen=True, slots=True)
class PairModel:
    """What was fitted to pairs.

    Attributes:
        view: How prompts are looked at.
        landmarks: The prompts that the surfaces are spanned by.
        gain: Standard score - flash score.
        flash_ok: Whether Flash's answer was good enough, as 1 and 0.
    """

    view: View
    landmarks: Space
    gain: Effects
    flash_ok: Effects

    def expected(self, effects: Effects, space: Space) -> Array:
        """(N,) the outcome expected of each prompt, its task counted in."""
        tasks = np.array([effects.tasks.gain(task) for task in space.tasks])
        return effects.surface.of(space, self.landmarks) + tasks


@dataclass(frozen=True, slots=True)
class Adapted:
    """A prior adapted to pairs of one tenant and one pair of models.

    Immutable; safe to share between threads.

    Attributes:
        model: What was fitted.
        quantiles: Expected gains, out of fold, at even shares of the pairs; strictly increasing.
        platt: From the expected flash_ok to a probability; None while the pairs are too few.
        report: How good it is.
        calibration: Its pairs, scored out of fold by the first stage, for a cut with a promise.
        second: What an encoder adds; None where none was given, or it added too little.
    """

    model: PairModel
    quantiles: tuple[float, ...]
    platt: Platt | None
    report: AdaptationReport
    calibration: Calibration
    second: SecondStage | None = None
