"""How an adapted model scores one request quickly: the numbers of `classifier.adapted` in single precision.

A request costs two products of a small matrix with a vector, an exponential of a few hundred numbers, a sum
of rows of the table of terms, two sums over its terms, and two dictionary lookups.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from classifier.adapted import Adapted, Effects
from classifier.features import FEATURE_NAMES
from classifier.inputs import SHAPE_WIDTH, TOPIC_WIDTH, Array
from classifier.lsa import terms_of
from classifier.prior_view import PriorView
from classifier.reading import Reading
from classifier.scoring import Prior, rank_in
from classifier.surface import CLUSTER
from classifier.task_gains import TaskGains

NO_TASK = "none"
"""A task that no pair has: it gets the mean over all tasks, and no cluster."""

Floats = npt.NDArray[np.float32]


class AdaptedScorer:
    """An adapted model with the prior that it was adapted from.

    Immutable; safe to share between threads.
    """

    __slots__ = (
        "_adapted",
        "_bound",
        "_centre_offsets",
        "_centres",
        "_factor",
        "_failure",
        "_gains",
        "_levels",
        "_mean",
        "_oks",
        "_prior",
        "_shape_offsets",
        "_shapes",
        "_size",
        "_slopes",
        "_term_gains",
        "_term_oks",
        "_terms",
        "_topics",
        "_view",
        "_weights",
    )  # fmt: skip

    def __init__(self, prior: Prior, adapted: Adapted) -> None:
        self._prior = prior
        self._adapted = adapted
        self._view = PriorView(prior)
        model = adapted.model
        view, marks = model.view, model.landmarks
        surfaces = (model.gain.surface, model.flash_ok.surface)
        self._factor = _single(view.scale.factor)
        self._mean = _single(view.scale.mean * view.scale.factor)
        self._bound = np.float32(view.scale.bound)
        self._size = len(marks.shape)
        self._shapes = _single(2.0 * SHAPE_WIDTH * marks.shape)
        self._shape_offsets = _single(-SHAPE_WIDTH * (marks.shape**2).sum(axis=1))
        self._topics = _single(2.0 * TOPIC_WIDTH * marks.topic)
        fade = np.exp(-2.0 * TOPIC_WIDTH)
        self._weights = _single(
            np.vstack([np.concatenate([each.shape_weights, each.topic_weights * fade]) for each in surfaces])
        )
        slopes = np.array([each.slopes / view.starts_deviation for each in surfaces])
        levels = np.array([each.mean for each in surfaces]) - slopes @ view.starts_mean
        # The logit of P(weak fails) is linear in the features; its bias goes into the levels.
        head = prior.ranker.failure
        self._failure = np.array(head.weights, dtype=np.float32)
        self._levels: list[float] = (levels + slopes[:, 1] * head.bias).tolist()
        self._slopes: list[list[float]] = slopes.tolist()
        self._centres = _single(view.centres)
        self._centre_offsets = _single(0.5 * (view.centres**2).sum(axis=1))
        self._gains = _effects(model.gain)
        self._oks = _effects(model.flash_ok)
        terms = view.vocabulary.terms
        self._terms = frozenset(terms)
        self._term_gains, self._term_oks = (
            dict(zip(terms, each.term_weights.tolist(), strict=True)) for each in surfaces
        )

    def with_gains(self, gains: TaskGains) -> "AdaptedScorer":
        """The same, with the excesses of later pairs added to those that it was fitted to.

        A version that knows clusters only has no shrinkage for tasks that are named later: these get that of
        `gains`.
        """
        fitted = self._adapted.model.gain.tasks
        named = any(not task.startswith(CLUSTER) for task in fitted.tasks)
        together = fitted.merged(gains)
        apart = together if named else replace(together, shrinkage=gains.with_own_shrinkage().shrinkage)
        new = copy.copy(self)
        new._gains = {
            "": together.mean,
            **{t: (together if t.startswith(CLUSTER) else apart).gain(t) for t in together.tasks},
        }
        return new

    def excess(self, values: Sequence[float], reading: Reading, task: str, gain: float) -> tuple[str, float]:
        """The task of a pair, or its cluster, and by how much its gain lies above what is expected without.

        The result can be added to the counters of this model, and of no other.
        """
        model = self._adapted.model
        starts = np.array([self._view.starts(values)])
        topics = self._view.topic(reading)[None, :]
        space = model.view.space(np.array([values]), topics, starts, [terms_of(reading)], [task])
        return space.tasks[0], gain - float(model.gain.surface.of(space, model.landmarks)[0])

    def estimate(self, values: Sequence[float], reading: Reading, task: str) -> tuple[float, float | None]:
        """Score one request.

        Args:
            values: Its features.
            reading: What was read of it.
            task: Its task, or "".

        Returns:
            The score in (0, 1), a rank among the pairs by expected gain; and p_flash_ok.
        """
        raw, words = self._prior.ranker.raw(values), self._view.direction(reading)
        return self._estimate(values, words, self._by_terms(reading), raw, task)

    def refined(
        self, values: Sequence[float], reading: Reading, task: str, vector: Floats
    ) -> tuple[float, float | None]:
        """The same with the second stage, of a version that has one.

        Args:
            values: As of `estimate`.
            reading: Likewise.
            task: Likewise.
            vector: (E,) of `reading.text`, by the encoder that the version names.
        """
        second = self._adapted.second
        if second is None:
            return self.estimate(values, reading, task)
        raw, words = self._prior.ranker.raw(values), self._view.direction(reading)
        gain, flash_ok = self._expected(values, words, self._by_terms(reading), raw, task)
        gain += float(second.gain.of(vector))
        flash_ok += float(second.flash_ok.of(vector))
        platt = second.platt
        return rank_in(second.quantiles, gain), None if platt is None else platt.probability(flash_ok)

    def contributions(self, values: Sequence[float], reading: Reading, task: str) -> Mapping[str, float]:
        """By how much each feature, the prior, the topic and the task move the score of a request.

        Features are replaced by their median in the reference, the prior by its mean over the pairs, topic
        (and terms with it) and task by none.
        """
        raw_of, words, terms = self._prior.ranker.raw, self._view.direction(reading), self._by_terms(reading)
        raw = raw_of(values)
        score = self._estimate(values, words, terms, raw, task)[0]
        moved: dict[str, float] = {}
        for at, name in enumerate(FEATURE_NAMES):
            other = list(values)
            other[at] = self._prior.centre[at]
            moved[name] = score - self._estimate(other, words, terms, raw_of(other), task)[0]
        mean_raw = float(self._adapted.model.view.starts_mean[0])
        moved["prior"] = score - self._estimate(values, words, terms, mean_raw, task)[0]
        moved["topic"] = score - self._estimate(values, np.zeros_like(words), (0.0, 0.0), raw, task)[0]
        moved["task"] = score - self._estimate(values, words, terms, raw, NO_TASK)[0]
        return moved

    def _by_terms(self, reading: Reading) -> tuple[float, float]:
        """What its terms add to gain and flash_ok. Summed exactly, as the order of a set is no order."""
        known = self._terms.intersection(terms_of(reading))
        if not known:
            return 0.0, 0.0
        length = sqrt(len(known))
        gain, flash_ok = (
            fsum(map(weights.__getitem__, known)) / length for weights in (self._term_gains, self._term_oks)
        )
        return gain, flash_ok

    def _estimate(
        self, values: Sequence[float], words: Floats, terms: tuple[float, float], raw: float, task: str
    ) -> tuple[float, float | None]:
        gain, flash_ok = self._expected(values, words, terms, raw, task)
        platt = self._adapted.platt
        return rank_in(self._adapted.quantiles, gain), None if platt is None else platt.probability(flash_ok)

    def _expected(
        self, values: Sequence[float], words: Floats, terms: tuple[float, float], raw: float, task: str
    ) -> tuple[float, float]:
        """The gain and the flash_ok of one request, by the first stage."""
        features = np.array(values, dtype=np.float32)
        shape = features * self._factor
        shape -= self._mean
        np.maximum(shape, -self._bound, out=shape)
        np.minimum(shape, self._bound, out=shape)
        size = self._size
        likeness = np.empty(2 * size, dtype=np.float32)
        shapes = likeness[:size]
        np.dot(self._shapes, shape, out=shapes)
        shapes += self._shape_offsets
        shapes -= SHAPE_WIDTH * float(shape.dot(shape))
        np.dot(self._topics, words, out=likeness[size:])
        np.exp(likeness, out=likeness)
        gain, flash_ok = self._weights.dot(likeness).tolist()
        if not task and len(self._centres):
            nearest = self._centre_offsets - self._centres.dot(np.concatenate((shape, words)))
            task = f"{CLUSTER}{nearest.argmin()}"
        by_raw, by_failure = self._slopes[0]
        failure = float(self._failure.dot(features))
        gain += terms[0] + self._levels[0] + by_raw * raw + by_failure * failure
        gain += self._gains.get(task, self._gains[""])
        by_raw, by_failure = self._slopes[1]
        flash_ok += terms[1] + self._levels[1] + by_raw * raw + by_failure * failure
        return gain, flash_ok + self._oks.get(task, self._oks[""])


def _effects(effects: Effects) -> Mapping[str, float]:
    """What each task adds; under "" what an unknown one does."""
    tasks = effects.tasks
    return {"": tasks.mean, **{task: tasks.gain(task) for task in tasks.tasks}}


def _single(values: Array) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
