"""How much each part of a model explains: variance components by restricted maximum likelihood.

y = mean + sum of parts + noise, where a part is normal with covariance ratio x K x noise variance, and K is
its (N, N) kernel. The ratios are what ridge strengths and shrinkages are made of: learning them from the
pairs is the empirical Bayes of this package. Patterson and Thompson 1971; the steps are those of average
information (Gilmour, Thompson and Cullis 1995) on log ratios, with a normal prior on them, as a hundred noisy
outcomes would otherwise leave them anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_ROUNDS = 12
_LONGEST_STEP = 1.5  # of a log ratio in one round
_LOWEST, _HIGHEST = -9.0, 2.0
_DONE = 0.02


@dataclass(frozen=True, slots=True)
class LogRatio:
    """What is believed of a log ratio before there are outcomes: its mean and standard deviation."""

    mean: float
    deviation: float

    def moved(self, by: float) -> "LogRatio":
        """The same with another mean."""
        return LogRatio(self.mean + by, self.deviation)


@dataclass(frozen=True, slots=True)
class _Point:
    loss: float
    slope: Array
    curvature: Array


def log_ratios(kernels: Sequence[Array], y: Array, beliefs: Sequence[LogRatio]) -> Array:
    """The log variance ratio of each kernel, most probable under outcomes and beliefs.

    Args:
        kernels: (N, N) each, positive semi-definite.
        y: (N,) outcomes.
        beliefs: One a kernel; where the search starts.
    """
    mean = np.array([belief.mean for belief in beliefs])
    deviation = np.array([belief.deviation for belief in beliefs])
    at = mean.copy()
    point = _evaluate(kernels, y, at, mean, deviation)
    for _ in range(_ROUNDS):
        wanted = np.asarray(-np.linalg.solve(point.curvature, point.slope), dtype=np.float64)
        step = np.clip(wanted, -_LONGEST_STEP, _LONGEST_STEP)
        moved: Array = np.clip(at + step, _LOWEST, _HIGHEST)
        tried = _evaluate(kernels, y, moved, mean, deviation)
        if tried.loss > point.loss:  # too far: once nearer, then leave it
            moved = (at + moved) / 2.0
            tried = _evaluate(kernels, y, moved, mean, deviation)
            if tried.loss > point.loss:
                break
        change = float(np.abs(moved - at).max())
        at, point = moved, tried
        if change < _DONE:
            break
    return at


def _evaluate(kernels: Sequence[Array], y: Array, at: Array, mean: Array, deviation: Array) -> _Point:
    """Negative restricted log posterior, its slope, and the average information in place of its curvature."""
    size = len(y)
    ratios = np.exp(at)
    total = np.eye(size)
    for ratio, kernel in zip(ratios, kernels, strict=True):
        total += ratio * kernel
    lower = np.linalg.cholesky(total)
    inverse = np.linalg.inv(total)
    ones = inverse.sum(axis=1)
    weight = float(ones.sum())
    project = inverse - np.outer(ones, ones) / weight
    residual = project @ y
    noise = max(float(y @ residual) / (size - 1), 1e-12)
    loss = float(np.log(np.diag(lower)).sum()) + 0.5 * np.log(weight) + 0.5 * (size - 1) * np.log(noise)
    pulled = [ratio * (kernel @ residual) for ratio, kernel in zip(ratios, kernels, strict=True)]
    traces = [ratio * float(np.sum(project * k)) for ratio, k in zip(ratios, kernels, strict=True)]
    slope = np.array(
        [0.5 * (trace - float(residual @ pull) / noise) for trace, pull in zip(traces, pulled, strict=True)]
    )
    columns = np.column_stack(pulled)
    information = 0.5 * columns.T @ project @ columns / noise
    return _Point(
        loss=loss + 0.5 * float(np.sum(((at - mean) / deviation) ** 2)),
        slope=slope + (at - mean) / deviation**2,
        curvature=information + np.diag(deviation**-2.0),
    )
