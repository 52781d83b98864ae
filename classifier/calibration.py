"""From a score to a probability: Platt scaling, and when to believe it.

Platt 1999: p = sigmoid(slope x score + intercept), fitted by maximum likelihood to smoothed targets, which
keeps it finite where the outcomes are separable. The scores must be of a model that did not learn from the
same outcomes (out of fold), or the slope comes out too steep.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MIN_PAIRS = 500
"""Pairs from which a probability is stated; below, its error exceeds .05 on some kinds of traffic."""

MIN_OF_EACH = 25
"""Pairs of either outcome that it takes, besides."""

_STEPS = 50
_BINS = 10


@dataclass(frozen=True, slots=True)
class Platt:
    """p = sigmoid(slope x score + intercept)."""

    slope: float
    intercept: float

    def probability(self, score: float) -> float:
        """In (0, 1)."""
        logit = min(40.0, max(-40.0, self.slope * score + self.intercept))
        return 1.0 / (1.0 + math.exp(-logit))

    def probabilities(self, scores: Array) -> Array:
        """The same for many."""
        return 1.0 / (1.0 + np.exp(-np.clip(self.slope * scores + self.intercept, -40.0, 40.0)))


def fit_platt(scores: Array, positive: npt.NDArray[np.bool_]) -> Platt:
    """Fit to (N,) scores out of fold and their outcomes, by Newton's method with halved steps.

    A slope below 0 says that the scores carry nothing: then only the intercept is fitted.
    """
    positives = float(positive.sum())
    negatives = len(positive) - positives
    target = np.where(positive, (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0))
    deviation = float(scores.std())
    if deviation < 1e-9:
        return _constant(target)
    scaled = np.column_stack([(scores - scores.mean()) / deviation, np.ones(len(scores))])
    slope, intercept = _newton(scaled, target).tolist()
    if slope <= 0.0:
        return _constant(target)
    return Platt(slope / deviation, intercept - slope * float(scores.mean()) / deviation)


def enough_to_calibrate(positive: npt.NDArray[np.bool_]) -> bool:
    """Whether a probability may be stated: MIN_PAIRS outcomes, and MIN_OF_EACH of either kind."""
    kinds = int(positive.sum()), int((~positive).sum())
    return sum(kinds) >= MIN_PAIRS and min(kinds) >= MIN_OF_EACH


def calibration_error(probabilities: Array, positive: npt.NDArray[np.bool_], bins: int = _BINS) -> float:
    """Expected calibration error over equally filled bins (Naeini et al. 2015; Nixon et al. 2019)."""
    parts = np.array_split(np.argsort(probabilities, kind="stable"), bins)
    return float(
        sum(len(p) * abs(probabilities[p].mean() - positive[p].mean()) for p in parts if len(p))
        / len(positive)
    )


def _newton(rows: Array, target: Array) -> Array:
    weights = np.zeros(rows.shape[1])
    loss = _loss(rows, target, weights)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-rows @ weights))
        curvature = rows.T @ (rows * (p * (1.0 - p))[:, None]) + 1e-6 * np.eye(rows.shape[1])
        step = np.linalg.solve(curvature, rows.T @ (target - p))
        while np.abs(step).max() > 1e-9 and _loss(rows, target, weights + step) > loss:
            step = step / 2.0
        weights = weights + step
        loss = _loss(rows, target, weights)
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _loss(rows: Array, target: Array, weights: Array) -> float:
    logits = rows @ weights
    return float(np.sum(np.logaddexp(0.0, logits) - target * logits))


def _constant(target: Array) -> Platt:
    mean = float(target.mean())
    return Platt(0.0, math.log(mean / (1.0 - mean)))
