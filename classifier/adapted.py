"""An adapted model: the prior, what the pairs added to it, and how it scores one request quickly.

A request costs two products of a small matrix with a vector, one exponential of a few hundred numbers and two
dictionary lookups.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from classifier.calibration import Platt
from classifier.features import FEATURE_NAMES
from classifier.inputs import SHAPE_WIDTH, TOPIC_WIDTH, Array, Scale, nearest_centre
from classifier.scoring import rank_in
from classifier.surface import CLUSTER, Space, Surface
from classifier.task_gains import TaskGains

Starts = tuple[float, float]
Floats = npt.NDArray[np.float32]

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
        starts_mean: (STARTS,) of what the prior says of the pairs.
        starts_deviation: Likewise.
        centres: (C, F + D) of the clusters that stand in for a missing task; none when C is 0.
    """

    scale: Scale
    starts_mean: Array
    starts_deviation: Array
    centres: Array

    def space(self, values: Array, topics: Array, starts: Array, tasks: Sequence[str]) -> Space:
        """Prompts as the surfaces see them, those without a task in their cluster.

        Args:
            values: (N, features).
            topics: (N, D), each of length 1.
            starts: (N, STARTS) what the prior says.
            tasks: N names.
        """
        shape = self.scale.shape(values)
        names = list(tasks)
        if len(self.centres):
            clusters = nearest_centre(np.hstack([shape, topics]), self.centres).tolist()
            names = [name or f"{CLUSTER}{cluster}" for name, cluster in zip(names, clusters, strict=True)]
        return Space((starts - self.starts_mean) / self.starts_deviation, shape, topics, names)


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

    def estimate(
        self, values: Sequence[float], topic: Array, starts: Starts, task: str
    ) -> tuple[float, float | None]:
        """Score one request.

        Args:
            values: Its features.
            topic: What it is about, of length 1.
            starts: What the prior says of it.
            task: Its task, or "".

        Returns:
            The score in (0, 1), a rank among the pairs by expected gain; and p_flash_ok.
        """
        model = self.model
        gain, flash_ok, task = self._serving.of(values, topic, starts, task)
        score = rank_in(self.quantiles, gain + model.gain.tasks.gain(task))
        if self.platt is None:
            return score, None
        return score, self.platt.probability(flash_ok + model.flash_ok.tasks.gain(task))

    def contributions(
        self,
        values: Sequence[float],
        topic: Array,
        starts_of: Callable[[Sequence[float]], Starts],
        task: str,
        centre: Sequence[float],
    ) -> Mapping[str, float]:
        """By how much each feature, the prior, the topic and the task move the score of a request.

        Args:
            values: Its features; each in turn is replaced by its median, `centre`.
            topic: What it is about; replaced by nothing.
            starts_of: What the prior says of features; replaced by the mean over the pairs.
            task: Its task; replaced by none.
            centre: Median of each feature over the reference.
        """
        starts = starts_of(values)
        score = self.estimate(values, topic, starts, task)[0]
        moved: dict[str, float] = {}
        for at, name in enumerate(FEATURE_NAMES):
            other = list(values)
            other[at] = centre[at]
            moved[name] = score - self.estimate(other, topic, starts_of(other), task)[0]
        raw, failure = self.model.view.starts_mean.tolist()
        moved["prior"] = score - self.estimate(values, topic, (raw, failure), task)[0]
        moved["topic"] = score - self.estimate(values, np.zeros(len(topic)), starts, task)[0]
        moved["task"] = score - self.estimate(values, topic, starts, NO_TASK)[0]
        return moved


@dataclass(frozen=True, slots=True)
class _Serving:
    """The arrays of a PairModel in single precision, arranged so that a request needs few steps."""

    mean: Floats
    factor: Floats
    bound: np.float32
    shapes: Floats
    shape_offsets: Floats
    topics: Floats
    weights: Floats
    level: Sequence[float]
    slopes: Sequence[Sequence[float]]
    centres: Floats
    centre_offsets: Floats

    def of(
        self, values: Sequence[float], topic: Array, starts: Starts, task: str
    ) -> tuple[float, float, str]:
        """Expected gain and flash_ok before the effect of the task, and the task."""
        shape = np.array(values, dtype=np.float32)
        shape *= self.factor
        shape -= self.mean
        np.maximum(shape, -self.bound, out=shape)
        np.minimum(shape, self.bound, out=shape)
        words = topic.astype(np.float32)
        size = len(self.shapes)
        likeness = np.empty(2 * size, dtype=np.float32)
        np.dot(self.shapes, shape, out=likeness[:size])
        likeness[:size] += self.shape_offsets - SHAPE_WIDTH * shape.dot(shape)
        np.dot(self.topics, words, out=likeness[size:])
        np.exp(likeness, out=likeness)
        gain, flash_ok = self.weights.dot(likeness).tolist()
        if not task and len(self.centres):
            joined = np.concatenate((shape, words))
            task = f"{CLUSTER}{int((self.centre_offsets - self.centres.dot(joined)).argmin())}"
        raw, failure = starts
        levels = [
            level + by_raw * raw + by_failure * failure
            for level, (by_raw, by_failure) in zip(self.level, self.slopes, strict=True)
        ]
        return levels[0] + gain, levels[1] + flash_ok, task


def _serving(model: PairModel) -> _Serving:
    surfaces = (model.gain.surface, model.flash_ok.surface)
    view, marks = model.view, model.landmarks
    slopes = [surface.slopes / view.starts_deviation for surface in surfaces]
    return _Serving(
        mean=_single(view.scale.mean * view.scale.factor),
        factor=_single(view.scale.factor),
        bound=np.float32(view.scale.bound),
        shapes=_single(2.0 * SHAPE_WIDTH * marks.shape),
        shape_offsets=_single(-SHAPE_WIDTH * (marks.shape**2).sum(axis=1)),
        topics=_single(2.0 * TOPIC_WIDTH * marks.topic),
        weights=_single(
            np.vstack([
                np.concatenate([each.shape_weights, each.topic_weights * np.exp(-2.0 * TOPIC_WIDTH)])
                for each in surfaces
            ])
        ),
        level=[
            surface.mean - float(slope @ view.starts_mean)
            for surface, slope in zip(surfaces, slopes, strict=True)
        ],
        slopes=[slope.tolist() for slope in slopes],
        centres=_single(view.centres),
        centre_offsets=_single(0.5 * (view.centres**2).sum(axis=1)),
    )  # fmt: skip


def _single(values: Array) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
