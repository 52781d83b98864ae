"""Two rankings of the same pairs, and how sure the difference is: a paired bootstrap over prompts."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from classifier.adapted import Interval
from classifier.inputs import Array

Numbers = npt.NDArray[np.int64]

RESAMPLES = 500
_TAIL = 5.0  # percent on either side of an interval


@dataclass(frozen=True, slots=True)
class Comparison:
    """APGR of two rankings with intervals, and the share of resamples in which the second is better."""

    before: Interval
    after: Interval
    difference: Interval
    better: float


def compare(
    before: Array,
    after: Array,
    gain: Array,
    prompts: Numbers,
    *,
    folds: Numbers,
    rng: np.random.Generator,
) -> Comparison:
    """Compare rankings by (N,) scores, resampling prompts (Efron 1979); pairs of one prompt stay together.

    Pairs are ranked within their fold, and folds weigh by their gain: a model that has not seen a fold
    expects less of it the better it is, so a ranking across folds would understate every model.
    Resamples in which the mean gain is not above 0 have no APGR and are left out.
    """
    sizes = int(prompts.max()) + 1
    drawn = rng.multinomial(sizes, np.full(sizes, 1.0 / sizes), size=RESAMPLES)[:, prompts]
    counts = np.vstack([np.ones((1, len(gain))), drawn]).astype(np.float64)
    usable = counts @ gain > 1e-9
    both = [_areas(scores, gain, counts[usable], folds, rng) for scores in (before, after)]
    difference = both[1] - both[0]
    return Comparison(
        before=_interval(both[0]),
        after=_interval(both[1]),
        difference=_interval(difference),
        better=float((difference[1:] > 0.0).mean()) if len(difference) > 1 else 0.0,
    )


def _areas(scores: Array, gain: Array, counts: Array, folds: Numbers, rng: np.random.Generator) -> Array:
    """APGR of the ranking under each row of counts, the first of which is the sample itself."""
    area = np.zeros(len(counts))
    ties = rng.random(len(scores))
    for fold in np.unique(folds):
        rows = np.flatnonzero(folds == fold)
        order = rows[np.lexsort((ties[rows], -scores[rows]))]
        weights, worth = counts[:, order], counts[:, order] * gain[order]
        middle = np.cumsum(worth, axis=1) - worth / 2.0
        area += (weights * middle).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    return area / (counts @ gain)


def _interval(values: Array) -> Interval:
    low, high = np.percentile(values, [_TAIL, 100.0 - _TAIL]).tolist()
    return Interval(float(values[0]), low, high)
