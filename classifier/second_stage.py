"""The second stage of an adapted model: what a sentence encoder adds to what the first one expects.

    outcome = what the first stage expects + weights . (vector of the prompt - mean vector)

The weights are a ridge on what the first stage left of each pair, out of fold, so that it stays as it is: a
request whose vector is not there in time is scored by it alone. How strong they are comes out of the pairs,
by restricted maximum likelihood (`classifier.variance`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from classifier.calibration import Platt
from classifier.encoders import Vector
from classifier.inputs import Array
from classifier.variance import LogRatio, log_ratios

BELIEF = LogRatio(-3.3, 0.7)
"""Of the log ratio of the variance that vectors explain to that of the noise: as of what else prompts say."""

LARGEST_SEARCH = 200

Folds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weights:
    """What vectors add to one outcome: (E,)."""

    mean: Array
    slopes: Array

    def of(self, vectors: Array | Vector) -> Array:
        """(N,) for (N, E)."""
        return (vectors - self.mean) @ self.slopes


@dataclass(frozen=True, slots=True)
class SecondStage:
    """What was fitted to the vectors of pairs.

    Attributes:
        encoder: Name of the encoder that the vectors are of.
        gain: Added to the gain that the first stage expects.
        flash_ok: Added to its flash_ok.
        quantiles: Expected gains of both stages, out of fold, at even shares; strictly increasing.
        platt: From the flash_ok of both stages to a probability; None while the pairs are too few.
    """

    encoder: str
    gain: Weights
    flash_ok: Weights
    quantiles: tuple[float, ...]
    platt: Platt | None


def fit_weights(vectors: Array, left: Array, rng: np.random.Generator) -> Weights:
    """Fit what (N, E) vectors say of the (N,) that the first stage left."""
    mean, scale = vectors.mean(axis=0), max(float(left.std()), 1e-9)
    centred, y = vectors - mean, left / scale
    rows = np.arange(len(y))
    if len(rows) > LARGEST_SEARCH:
        rows = np.sort(rng.choice(rows, LARGEST_SEARCH, replace=False))
    some = centred[rows]
    ratio = float(log_ratios([some @ some.T], y[rows], [BELIEF])[0])
    normal = centred.T @ centred + np.exp(-ratio) * np.eye(vectors.shape[1])
    slopes = np.asarray(np.linalg.solve(normal, centred.T @ (y - y.mean())), dtype=np.float64)
    return Weights(mean, slopes * scale)


def added_out_of_fold(vectors: Array, left: Array, folds: Folds, rng: np.random.Generator) -> Array:
    """(N,) what vectors add to each pair, by weights that saw no pair of its fold."""
    found = np.zeros(len(folds))
    for fold in np.unique(folds):
        rest, held = folds != fold, folds == fold
        if rest.any():
            found[held] = fit_weights(vectors[rest], left[rest], rng).of(vectors[held])
    return found
