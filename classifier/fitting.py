"""Fitting one linear head, and the scales that bring quantities together. Everything is deterministic."""

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from classifier.errors import DatasetInvalid, MissingDependency
from classifier.features import FEATURE_NAMES, TEXT_FEATURES
from classifier.scoring import Head, Standard

Array = npt.NDArray[np.float64]

_FLAT = 1e-6  # a feature that varies less is constant: it says nothing, and must not blow up


@dataclass(frozen=True, slots=True)
class Design:
    """What heads are fitted on.

    Attributes:
        values: (prompts, features).
        weights: (prompts,) summing to the number of prompts; every source weighs the same.
        groups: (prompts,) the number of the source.
    """

    values: Array
    weights: Array
    groups: npt.NDArray[np.int64]

    @classmethod
    def of(cls, sources: list[Array]) -> "Design":
        """Stack the values of `sources`."""
        weights = np.concatenate([np.full(len(each), 1.0 / len(each)) for each in sources])
        groups = np.repeat(np.arange(len(sources)), [len(each) for each in sources])
        return cls(np.vstack(sources), weights * (len(weights) / weights.sum()), groups)

    def moments(self) -> tuple[Array, Array]:
        """Weighted mean and deviation of each feature."""
        return moments(self.values, self.weights)


def one_thread() -> AbstractContextManager[object]:
    """Sums in one thread only: their last bits, and so the hash of the weights, depend on how many there are.

    Raises:
        MissingDependency: scikit-learn, which brings threadpoolctl, is not installed.
    """
    try:
        import threadpoolctl  # needed for training only
    except ImportError as error:
        raise MissingDependency(
            'scikit-learn is not installed; run: pip install "flashlane[train]"'
        ) from error
    untyped: Any = threadpoolctl
    return untyped.threadpool_limits(limits=1)


def outcome_head(
    design: Design, target: Array, *, without: Collection[str], c: float, name: str, offsets: bool = False
) -> Head:
    """Logistic regression on targets in [0, 1]: each row counts as a 1 and as a 0, in proportion.

    Args:
        design: Features and weights.
        target: (prompts,).
        without: Names of features that the head must not weigh.
        c: Inverse strength of the L2 penalty.
        name: Of the target, for errors.
        offsets: Give each source a level of its own, so that only differences within a source are learned.
            Serving takes the mean of these levels.

    Raises:
        DatasetInvalid: All targets are the same.
        MissingDependency: scikit-learn is not installed.
    """
    mean, deviation = design.moments()
    kept = learned(without)
    rows = (design.values[:, kept] - mean[kept]) / deviation[kept]
    levels = np.eye(int(design.groups.max()) + 1)[design.groups] if offsets else np.zeros((len(rows), 0))
    both = np.concatenate([design.weights * target, design.weights * (1.0 - target)])
    labels = np.concatenate([np.ones(len(target)), np.zeros(len(target))])
    used = both > 0
    if len(np.unique(labels[used])) < 2:
        raise DatasetInvalid(
            f"every {name} is the same; training needs prompts that some models fail and some solve"
        )
    full = np.hstack([rows, levels])
    weights, bias = logistic(np.vstack([full, full])[used], labels[used], both[used], c)
    bias += float(weights[len(kept) :].mean()) if offsets else 0.0
    return unscaled(weights[: len(kept)], bias, kept, mean, deviation)


def learned(without: Collection[str]) -> list[int]:
    """The places of the text features that are not in `without`."""
    return [at for at, name in enumerate(TEXT_FEATURES) if name not in without]


def logistic(rows: Array, labels: Array, weights: Array, c: float) -> tuple[Array, float]:
    """Weights and bias of a logistic regression.

    Raises:
        MissingDependency: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression  # heavy, and needed for training only
    except ImportError as error:
        raise MissingDependency(
            'scikit-learn is not installed; run: pip install "flashlane[train]"'
        ) from error
    model: Any = LogisticRegression(C=c, max_iter=1000)
    model.fit(rows, labels, sample_weight=weights)
    return np.asarray(model.coef_[0], dtype=np.float64), float(model.intercept_[0])


def unscaled(weights: Array, bias: float, kept: list[int], mean: Array, deviation: Array) -> Head:
    """The same head on features as they are, with zero weights for those that it does not weigh."""
    full = np.zeros(len(FEATURE_NAMES))
    full[kept] = weights / deviation[kept]
    return Head(weights=tuple(full.tolist()), bias=bias - float(full @ mean))


def moments(values: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and deviation of each column; 1 for the deviation of a constant."""
    mean = np.average(values, axis=0, weights=weights)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    return mean, np.where(deviation > _FLAT, deviation, 1.0)


def standard(values: Array, weights: Array) -> Standard:
    """The scale of one quantity."""
    mean, deviation = moments(values[:, None], weights)
    return Standard(float(mean[0]), float(deviation[0]))


def quantiles(values: Array, weights: Array, shares: Array) -> Array:
    """Weighted quantiles, linear between the midpoints of the weights."""
    order = np.argsort(values, kind="stable")
    ordered_weights = weights[order]
    midpoints = (np.cumsum(ordered_weights) - ordered_weights / 2.0) / ordered_weights.sum()
    return np.interp(shares, midpoints, values[order])
