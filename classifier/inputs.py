"""What an adapted model computes with: a prompt as one vector of features and one of its words.

* shape: the features of `classifier.features`, in units of how far prompts of one task differ in them,
  bounded. So what tells tasks apart counts most in mixed traffic; in traffic of one task all count alike.
* topic: the direction of its 64 numbers of latent semantics (`classifier.prior_view`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from classifier.features import FEATURE_NAMES

Array = npt.NDArray[np.float64]

BOUND = 4.0
"""Deviations beyond which a feature counts no further."""

_LEAST_DEVIATION = 0.05  # of a feature that the pairs hardly vary in; less would blow up what is new
SHAPE_WIDTH = 1.0
TOPIC_WIDTH = 1.0
"""Inverse squared widths of the two kernels, exp(-width x squared distance)."""

WITHIN_TASKS = {
    "words": 0.48, "chars": 0.45, "sentences": 0.35, "longest_sentence": 0.34, "numbers": 0.65,
    "operators": 0.49, "brackets": 0.50, "nesting": 0.50, "commas": 0.61, "code": 0.14, "latex": 0.50,
    "long_words": 0.06, "word_length": 0.67, "distinct_words": 0.11, "ends_in_question": 0.34,
    "options": 0.08, "asks": 0.27, "prove": 0.06, "compute": 0.30, "suppose": 0.34, "steps": 0.23,
    "build": 0.07, "transform": 0.10, "creative": 0.11, "smalltalk": 0.23, "asks_fact": 0.30,
    "constraints": 0.26, "technical": 0.29, "format": 0.21, "negation": 0.26, "quotes": 0.49,
    "numeric_options": 0.17, "rarity": 0.89, "topics": 0.46,
}  # fmt: skip
"""Deviations of features within a category of a source, over the training sources.

Features that do not vary there have none, and go by how far the pairs differ in them.
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """How features are brought to a common scale: (features,) each."""

    mean: Array
    factor: Array

    @property
    def bound(self) -> float:
        """What BOUND deviations come to."""
        return float(BOUND / np.sqrt(len(self.mean)))

    def shape(self, values: Array) -> Array:
        """Scaled features of (N, features)."""
        return np.minimum(np.maximum((values - self.mean) * self.factor, -self.bound), self.bound)


def fit_scale(values: Array) -> Scale:
    """The scale over (N, features); a feature that never varies has no weight."""
    found = values.std(axis=0)
    deviation = np.array(
        [WITHIN_TASKS.get(name, own) for name, own in zip(FEATURE_NAMES, found.tolist(), strict=True)]
    )
    factor = np.where(found > 1e-9, 1.0 / np.maximum(deviation, _LEAST_DEVIATION), 0.0)
    return Scale(values.mean(axis=0), factor / np.sqrt(values.shape[1]))


def unit(topics: Array) -> Array:
    """Each row of (N, D) at a length of 1; rows of zeros stay."""
    length = np.linalg.norm(topics, axis=-1, keepdims=True)
    return topics / np.maximum(length, 1e-12)


def shape_kernel(one: Array, other: Array) -> Array:
    """(N, M) likeness of shapes, in (0, 1]."""
    squared = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    return np.exp(-SHAPE_WIDTH * np.maximum(squared, 0.0))


def topic_kernel(one: Array, other: Array) -> Array:
    """(N, M) likeness of topics, in (0, 1]."""
    return np.exp(2.0 * TOPIC_WIDTH * (one @ other.T - 1.0))


def k_means(rows: Array, clusters: int, rng: np.random.Generator, rounds: int = 15) -> Array:
    """Centres of at most `clusters` groups of (N, D): Lloyd's steps from k-means++ starts.

    Arthur and Vassilvitskii 2007. Groups that lose all rows are dropped.
    """
    centres = rows[rng.integers(len(rows))][None, :]
    nearest = ((rows - centres[0]) ** 2).sum(axis=1)
    while len(centres) < clusters and nearest.sum() > 1e-9:
        chosen = rows[rng.choice(len(rows), p=nearest / nearest.sum())]
        centres = np.vstack([centres, chosen])
        nearest = np.minimum(nearest, ((rows - chosen) ** 2).sum(axis=1))
    for _ in range(rounds):
        label = nearest_centre(rows, centres)
        moved = np.vstack([rows[label == at].mean(axis=0) for at in np.unique(label)])
        if moved.shape == centres.shape and np.abs(moved - centres).max() < 1e-6:
            break
        centres = moved
    return centres


def nearest_centre(rows: Array, centres: Array) -> npt.NDArray[np.int64]:
    """(N,) the number of the centre that each row is nearest to."""
    return np.argmin((centres**2).sum(axis=1)[None, :] - 2.0 * rows @ centres.T, axis=1)
