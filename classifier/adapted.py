"""An adapted model: the prior, what the pairs added to it, and how it scores one request quickly.

A request costs two products of a small matrix with a vector, one exponential of a few hundred numbers and two
dictionary lookups.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from classifier.calibration import Platt
from classifier.features import FEATURE_NAMES
from classifier.inputs import SHAPE_WIDTH, TOPIC_WIDTH, Array, Scale, nearest_centre, unit
from classifier.scoring import rank_in
from classifier.surface import CLUSTER, Space, Surface
from classifier.task_gains import TaskGains

NO_TASK = "none"
"""A task that no pair has: it gets the mean over all tasks, and no cluster."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the bounds of its middle 90% over bootstrap resamples."""

    value: float
    low: float
    high: float


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
        prior_mean: Of the prior's raw score over the pairs.
        prior_deviation: Likewise.
        centres: (C, F + D) of the clusters that stand in for a missing task; none when C is 0.
    """

    scale: Scale
    prior_mean: float
    prior_deviation: float
    centres: Array

    def space(self, values: Array, topics: Array, raw: Array, tasks: Sequence[str]) -> Space:
        """Prompts as the surfaces see them, those without a task in their cluster.

        Args:
            values: (N, features).
            topics: (N, D) as projected.
            raw: (N,) raw scores of the prior.
            tasks: N names.
        """
        shape, topic = self.scale.shape(values), unit(topics)
        names = list(tasks)
        if len(self.centres):
            clusters = nearest_centre(np.hstack([shape, topic]), self.centres).tolist()
            names = [name or f"{CLUSTER}{cluster}" for name, cluster in zip(names, clusters, strict=True)]
        return Space((raw - self.prior_mean) / self.prior_deviation, shape, topic, names)


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
    """

    model: PairModel
    quantiles: tuple[float, ...]
    platt: Platt | None
    report: AdaptationReport
    _serving: "_Serving" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_serving", _serving(self.model))

    @property
    def topics(self) -> int:
        """How many numbers a projection must have; 0 when none is used."""
        return int(self.model.landmarks.topic.shape[1])

    def estimate(
        self, values: Sequence[float], topic: Sequence[float], raw: float, task: str
    ) -> tuple[float, float | None]:
        """Score one request.

        Args:
            values: Its features.
            topic: Its projection, of `topics` numbers; any when that is 0.
            raw: Raw score of the prior.
            task: Its task, or "".

        Returns:
            The score in (0, 1), a rank among the pairs by expected gain; and p_flash_ok.
        """
        model = self.model
        gain, flash_ok, task = self._serving.of(values, topic, raw, task)
        score = rank_in(self.quantiles, gain + model.gain.tasks.gain(task))
        if self.platt is None:
            return score, None
        return score, self.platt.probability(flash_ok + model.flash_ok.tasks.gain(task))

    def contributions(
        self,
        values: Sequence[float],
        topic: Sequence[float],
        raw_of: Callable[[Sequence[float]], float],
        task: str,
        centre: Sequence[float],
    ) -> Mapping[str, float]:
        """By how much each feature, the prior, the topic and the task move the score of a request.

        Args:
            values: Its features; each in turn is replaced by its median, `centre`.
            topic: Its projection; replaced by none.
            raw_of: Raw score of the prior; replaced by the mean over the pairs.
            task: Its task; replaced by none.
            centre: Median of each feature over the reference.
        """
        raw = raw_of(values)
        score = self.estimate(values, topic, raw, task)[0]
        moved: dict[str, float] = {}
        for at, name in enumerate(FEATURE_NAMES):
            other = list(values)
            other[at] = centre[at]
            moved[name] = score - self.estimate(other, topic, raw_of(other), task)[0]
        none = [0.0] * len(topic)
        moved["prior"] = score - self.estimate(values, topic, self.model.view.prior_mean, task)[0]
        moved["topic"] = score - self.estimate(values, none, raw, task)[0]
        moved["task"] = score - self.estimate(values, topic, raw, NO_TASK)[0]
        return moved


@dataclass(frozen=True, slots=True)
class _Serving:
    """The arrays of a PairModel, arranged so that a request needs few steps."""

    mean: Array
    factor: Array
    bound: float
    shapes: Array
    shape_offsets: Array
    topics: Array
    weights: Array
    level: Array
    slope: Array
    prior_mean: float
    prior_deviation: float
    centres: Array
    centre_offsets: Array

    def of(
        self, values: Sequence[float], topic: Sequence[float], raw: float, task: str
    ) -> tuple[float, float, str]:
        """Expected gain and flash_ok before the effect of the task, and the task."""
        shape = np.array(values)
        shape -= self.mean
        shape *= self.factor
        np.maximum(shape, -self.bound, out=shape)
        np.minimum(shape, self.bound, out=shape)
        likeness = self.shapes @ shape
        likeness += self.shape_offsets
        likeness -= SHAPE_WIDTH * float(shape @ shape)
        joined = shape
        if len(self.topics):
            words = np.array(topic, dtype=np.float64)
            length = float(words @ words) ** 0.5
            words *= 1.0 / max(length, 1e-12)
            likeness = np.concatenate((likeness, self.topics @ words - 2.0 * TOPIC_WIDTH))
            joined = np.concatenate((shape, words))
        np.exp(likeness, out=likeness)
        found = self.weights @ likeness
        found += self.level
        found += self.slope * ((raw - self.prior_mean) / self.prior_deviation)
        if not task and len(self.centres):
            task = f"{CLUSTER}{int((self.centre_offsets - self.centres @ joined).argmin())}"
        gain, flash_ok = found.tolist()
        return gain, flash_ok, task


def _serving(model: PairModel) -> _Serving:
    surfaces = (model.gain.surface, model.flash_ok.surface)
    view, marks = model.view, model.landmarks
    has_topics = bool(marks.topic.shape[1])
    return _Serving(
        mean=view.scale.mean,
        factor=view.scale.factor,
        bound=view.scale.bound,
        shapes=np.ascontiguousarray(2.0 * SHAPE_WIDTH * marks.shape),
        shape_offsets=-SHAPE_WIDTH * (marks.shape**2).sum(axis=1),
        topics=2.0 * TOPIC_WIDTH * marks.topic if has_topics else np.zeros((0, 0)),
        weights=np.vstack([
            np.concatenate([each.shape_weights, each.topic_weights]) if has_topics else each.shape_weights
            for each in surfaces
        ]),
        level=np.array([each.mean for each in surfaces]),
        slope=np.array([each.slope for each in surfaces]),
        prior_mean=view.prior_mean,
        prior_deviation=view.prior_deviation,
        centres=view.centres,
        centre_offsets=0.5 * (view.centres**2).sum(axis=1),
    )  # fmt: skip
