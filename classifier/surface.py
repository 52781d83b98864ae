"""Fitting what pairs say: a Gaussian process over prompts, with an effect for each task.

outcome = mean + slopes x starts + f(shape) + g(topic) + h(terms) + task effect + noise. The starts are what
the prior says, with slopes that were learned on other sources; f and g are smooth functions (kernels of
`classifier.inputs`), h is linear in the terms of `classifier.vocabulary`; the strengths of f, g, h and the
task effects are variance components (`classifier.variance`). With few pairs all of them shrink to nothing and
the prior is left, so no weight between prior and pairs has to be chosen.

f and g are kept as weights on at most LANDMARKS prompts (subset of regressors, Quinonero-Candela and
Rasmussen 2005): exact up to that many pairs, and as quick to serve with any number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from classifier.inputs import Array, shape_kernel, topic_kernel
from classifier.variance import LogRatio, log_ratios

CLUSTER = "cluster:"
"""Prefix of the task of a prompt without one: the cluster that it is nearest to."""

LANDMARKS = 128
LARGEST_SEARCH = 200
"""Pairs that the variance components are learned from at most; their cost grows with the cube."""

SHAPE_BELIEF = LogRatio(-3.3, 0.7)
TOPIC_BELIEF = LogRatio(-3.3, 0.7)
TERMS_BELIEF = LogRatio(-3.3, 0.7)
TASK_BELIEF = LogRatio(-2.0, 1.2)
CLUSTER_BELIEF = LogRatio(-5.0, 0.7)
"""Before any outcome: what they came out at on average over the training sources."""

WHERE_NAMED = -0.7
"""Of the log ratio of each function where tasks are named: much of what a prompt says is which task it is."""

Slopes = tuple[float, float]

NO_TASKS = 1e9
"""The shrinkage where there are no tasks to tell apart."""

_JITTER = 1e-6


@dataclass(frozen=True, slots=True)
class Space:
    """Prompts as the functions see them.

    Attributes:
        starts: (N, STARTS) what the prior says, standardised.
        shape: (N, F).
        topic: (N, D).
        terms: (N, T).
        tasks: N names; "" for none.
    """

    starts: Array
    shape: Array
    topic: Array
    terms: Array
    tasks: Sequence[str]

    def take(self, rows: npt.NDArray[np.int64]) -> "Space":
        """The prompts at these places."""
        places: list[int] = rows.tolist()
        return Space(
            starts=self.starts[rows],
            shape=self.shape[rows],
            topic=self.topic[rows],
            terms=self.terms[rows],
            tasks=[self.tasks[row] for row in places],
        )


@dataclass(frozen=True, slots=True)
class Surface:
    """One fitted outcome, without its task effects.

    Attributes:
        mean: Level of the outcome.
        slopes: (STARTS,) of the starts.
        shape_weights: (M,) of the shape kernel to each landmark.
        topic_weights: (M,) of the topic kernel.
        term_weights: (T,) of the terms.
        task_shrinkage: Variance of the noise over that of the task effects, in pairs.
    """

    mean: float
    slopes: Array
    shape_weights: Array
    topic_weights: Array
    term_weights: Array
    task_shrinkage: float

    def of(self, space: Space, landmarks: Space) -> Array:
        """(N,) the outcome expected, before the effect of the task."""
        found = self.mean + space.starts @ self.slopes + space.terms @ self.term_weights
        found = found + shape_kernel(space.shape, landmarks.shape) @ self.shape_weights
        return found + topic_kernel(space.topic, landmarks.topic) @ self.topic_weights


def choose_landmarks(space: Space, rng: np.random.Generator) -> Space:
    """At most LANDMARKS prompts of `space`, drawn at random."""
    rows = np.arange(len(space.starts), dtype=np.int64)
    if len(rows) > LANDMARKS:
        rows = np.sort(rng.choice(rows, LANDMARKS, replace=False))
    return space.take(rows)


def find_ratios(
    space: Space, outcome: Array, slopes: Slopes, rng: np.random.Generator
) -> Mapping[str, float]:
    """The log variance ratio of each part, for an outcome of any scale.

    Args:
        space: The N prompts.
        outcome: (N,).
        slopes: Of the starts, in standard deviations of the outcome.
        rng: Draws the pairs that are looked at when there are more than LARGEST_SEARCH.
    """
    rows = np.arange(len(outcome), dtype=np.int64)
    if len(rows) > LARGEST_SEARCH:
        rows = np.sort(rng.choice(rows, LARGEST_SEARCH, replace=False))
    some = space.take(rows)
    y = outcome[rows] / _deviation(outcome) - some.starts @ np.array(slopes)
    several = len(set(some.tasks)) > 1
    named = several and any(task and not task.startswith(CLUSTER) for task in some.tasks)
    less = WHERE_NAMED if named else 0.0
    parts = {
        "shape": (shape_kernel(some.shape, some.shape), SHAPE_BELIEF.moved(less)),
        "topic": (topic_kernel(some.topic, some.topic), TOPIC_BELIEF.moved(less)),
        "terms": (some.terms @ some.terms.T, TERMS_BELIEF.moved(less)),
    }
    if several:
        columns = _one_hot(some.tasks, sorted({task for task in some.tasks if task}))
        parts["task"] = columns @ columns.T, TASK_BELIEF if named else CLUSTER_BELIEF
    kernels, beliefs = zip(*parts.values(), strict=True)
    return dict(zip(parts, log_ratios(kernels, y, beliefs).tolist(), strict=True))


def fit_surface(
    space: Space, outcome: Array, landmarks: Space, slopes: Slopes, ratios: Mapping[str, float]
) -> Surface:
    """Fit one outcome, its task effects jointly, with the strengths of `find_ratios`."""
    scale = _deviation(outcome)
    y = outcome / scale - space.starts @ np.array(slopes)
    names = sorted({task for task in space.tasks if task}) if "task" in ratios else []
    blocks = [
        np.ones((len(y), 1)),
        shape_kernel(space.shape, landmarks.shape),
        topic_kernel(space.topic, landmarks.topic),
        space.terms,
    ]
    penalties = [
        np.zeros((1, 1)),
        _penalty(shape_kernel(landmarks.shape, landmarks.shape), ratios["shape"]),
        _penalty(topic_kernel(landmarks.topic, landmarks.topic), ratios["topic"]),
        np.eye(space.terms.shape[1]) * np.exp(-ratios["terms"]),
    ]
    if names:
        blocks.append(_one_hot(space.tasks, names))
        penalties.append(np.eye(len(names)) * np.exp(-ratios["task"]))
    weights = _solve(np.hstack(blocks), penalties, y) * scale
    ends = np.cumsum([1, len(landmarks.starts), len(landmarks.starts), space.terms.shape[1]])
    mean, shape_weights, topic_weights, term_weights, _ = np.split(weights, ends)
    return Surface(
        mean=float(mean[0]),
        slopes=np.array(slopes) * scale,
        shape_weights=shape_weights,
        topic_weights=topic_weights,
        term_weights=term_weights,
        task_shrinkage=float(np.exp(-ratios["task"])) if names else NO_TASKS,
    )


def _penalty(kernel: Array, ratio: float) -> Array:
    return (kernel + _JITTER * np.eye(len(kernel))) * np.exp(-ratio)


def _solve(columns: Array, penalties: Sequence[Array], y: Array) -> Array:
    normal = columns.T @ columns
    start = 0
    for penalty in penalties:
        end = start + len(penalty)
        normal[start:end, start:end] += penalty
        start = end
    return np.asarray(np.linalg.solve(normal, columns.T @ y), dtype=np.float64)


def _one_hot(tasks: Sequence[str], names: Sequence[str]) -> Array:
    places = {name: at for at, name in enumerate(names)}
    found = np.zeros((len(tasks), len(names)))
    for row, task in enumerate(tasks):
        if task in places:
            found[row, places[task]] = 1.0
    return found


def _deviation(outcome: Array) -> float:
    return max(float(outcome.std()), 1e-9)
