"""Training the prior: from labelled prompts to the arrays that ship.

Two logistic heads, P(weak fails) and P(strong succeeds), learn from outcomes averaged over all models of a
prompt, every source weighing the same. A third tells demanding work from everyday chat by the prompts in
`classifier.reference_prompts`. Everything is deterministic: the same data gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from classifier.dataset import Source
from classifier.errors import DatasetInvalid, MissingDependency
from classifier.features import FEATURE_NAMES, TEXT_FEATURES, extract, ordered
from classifier.reading import read
from classifier.reference_prompts import load_reference_prompts
from classifier.scoring import Head, Prior, Ranker, Standard

Array = npt.NDArray[np.float64]

REFERENCE_SHARES = {"everyday prompts": 0.55, "labelled prompts": 0.30, "demanding prompts": 0.15}
"""The make-up of the reference traffic; the labelled part weighs every source the same."""

QUANTILES = 401
_OUTCOME_C = 0.1  # inverse strength of the L2 penalty
_DEMANDING_C = 0.1
_SHARPNESS = 4.0  # logits a standard deviation of the demanding head
_MIDPOINT = -0.5  # standard deviations over the labelled prompts at which that head says one half
_LEARNED = len(TEXT_FEATURES)
_CHARS = FEATURE_NAMES.index("chars")


@dataclass(frozen=True, slots=True)
class SourceMatrix:
    """A source as numbers.

    Attributes:
        name: Of the source.
        values: (prompts, features).
        weak_fails: (prompts,), in [0, 1].
        strong_succeeds: (prompts,), in [0, 1].
    """

    name: str
    values: Array
    weak_fails: Array
    strong_succeeds: Array


@dataclass(frozen=True, slots=True)
class OwnPrompts:
    """The features of our own prompts, (prompts, features) each."""

    everyday: Array
    demanding: Array


def featurise(source: Source) -> SourceMatrix:
    """Compute the features and targets of every prompt of `source`, in its order."""
    rows = [ordered(extract(read(prompt.text), tool_count=prompt.tool_count)) for prompt in source.prompts]
    return SourceMatrix(
        name=source.name,
        values=np.array(rows, dtype=np.float64),
        weak_fails=np.array([prompt.weak_fails for prompt in source.prompts], dtype=np.float64),
        strong_succeeds=np.array([prompt.strong_succeeds for prompt in source.prompts], dtype=np.float64),
    )


def own_prompts() -> OwnPrompts:
    """Compute the features of the prompts in `classifier.reference_prompts`."""
    prompts = load_reference_prompts()
    return OwnPrompts(
        everyday=np.array([ordered(extract(read(text))) for text in prompts.everyday], dtype=np.float64),
        demanding=np.array([ordered(extract(read(text))) for text in prompts.demanding], dtype=np.float64),
    )


def fit_ranker(sources: Sequence[SourceMatrix], own: OwnPrompts) -> Ranker:
    """Fit the three heads and the scales that combine them.

    Raises:
        DatasetInvalid: There is no source, or the outcomes do not differ.
        MissingDependency: scikit-learn is not installed.
    """
    if not sources:
        raise DatasetInvalid("training needs at least one source")
    values = np.vstack([source.values for source in sources])
    weights = np.concatenate([np.full(len(source.values), 1.0 / len(source.values)) for source in sources])
    weights *= len(weights) / weights.sum()
    mean, deviation = _moments(values[:, :_LEARNED], weights)
    scaled = (values[:, :_LEARNED] - mean) / deviation

    def fit(name: str, targets: Sequence[Array]) -> Head:
        return _unscaled(_fit_soft(name, scaled, np.concatenate(targets), weights), mean, deviation)

    weak_fails = fit("weak_score", [source.weak_fails for source in sources])
    strong_succeeds = fit("strong_score", [source.strong_succeeds for source in sources])
    gain = _probabilities(weak_fails, values) * _probabilities(strong_succeeds, values)
    return Ranker(
        weak_fails=weak_fails,
        strong_succeeds=strong_succeeds,
        demanding=_fit_demanding(own, values, weights, mean, deviation),
        gain=_standard(gain, weights),
        length=_standard(values[:, _CHARS], weights),
    )


def fit_prior(sources: Sequence[SourceMatrix], own: OwnPrompts) -> Prior:
    """Fit the ranker on all sources and tabulate the reference distribution of its output."""
    ranker = fit_ranker(sources, own)
    parts = [
        (own.everyday, REFERENCE_SHARES["everyday prompts"]),
        (own.demanding, REFERENCE_SHARES["demanding prompts"]),
    ]
    parts += [(source.values, REFERENCE_SHARES["labelled prompts"] / len(sources)) for source in sources]
    values = np.vstack([part for part, _ in parts])
    weights = np.concatenate([np.full(len(part), share / len(part)) for part, share in parts])
    raw = raw_scores(ranker, values)
    return Prior(
        ranker=ranker,
        quantiles=tuple(_strictly_increasing(_quantiles(raw, weights, np.linspace(0.0, 1.0, QUANTILES)))),
        centre=tuple(
            float(_quantiles(values[:, at], weights, np.array([0.5]))[0]) for at in range(len(FEATURE_NAMES))
        ),
    )


def raw_scores(ranker: Ranker, values: Array) -> Array:
    """Raw scores of (prompts, features), computed by the code that serves."""
    return np.array([ranker.raw(row) for row in values.tolist()], dtype=np.float64)


def _fit_soft(name: str, scaled: Array, target: Array, weights: Array) -> Head:
    """Logistic regression on targets in [0, 1]: each row counts as a 1 and as a 0, in proportion."""
    both = np.concatenate([weights * target, weights * (1.0 - target)])
    labels = np.concatenate([np.ones(len(target)), np.zeros(len(target))])
    kept = both > 0
    if len(np.unique(labels[kept])) < 2:
        raise DatasetInvalid(
            f"every {name} is the same; training needs prompts that some models fail and some solve"
        )
    return _logistic(np.vstack([scaled, scaled])[kept], labels[kept], both[kept], _OUTCOME_C)


def _fit_demanding(own: OwnPrompts, values: Array, weights: Array, mean: Array, deviation: Array) -> Head:
    """Tell demanding work from everyday chat, on a scale set by the labelled prompts."""
    stacked = np.vstack([own.everyday, own.demanding])[:, :_LEARNED]
    labels = np.concatenate([np.zeros(len(own.everyday)), np.ones(len(own.demanding))])
    share = float(labels.mean())
    balanced = labels * (0.5 / share) + (1.0 - labels) * (0.5 / (1.0 - share))
    head = _logistic((stacked - mean) / deviation, labels, balanced, _DEMANDING_C)
    head = _unscaled(head, mean, deviation)
    logits = values @ np.array(head.weights) + head.bias
    scale = _standard(logits, weights)
    factor = _SHARPNESS / scale.deviation
    return Head(
        weights=tuple(weight * factor for weight in head.weights),
        bias=(head.bias - scale.mean) * factor - _SHARPNESS * _MIDPOINT,
    )


def _logistic(rows: Array, labels: Array, weights: Array, c: float) -> Head:
    try:
        from sklearn.linear_model import LogisticRegression  # heavy, and needed for training only
    except ImportError as error:
        raise MissingDependency(
            'scikit-learn is not installed; run: pip install "flashlane[train]"'
        ) from error
    model: Any = LogisticRegression(C=c, max_iter=1000)
    model.fit(rows, labels, sample_weight=weights)
    return Head(weights=tuple(model.coef_[0].tolist()), bias=float(model.intercept_[0]))


def _unscaled(head: Head, mean: Array, deviation: Array) -> Head:
    """The same head on features as they are, with zero weights for those that are not learned from."""
    weights = np.array(head.weights) / deviation
    rest = (0.0,) * (len(FEATURE_NAMES) - _LEARNED)
    return Head(weights=(*weights.tolist(), *rest), bias=head.bias - float(weights @ mean))


def _probabilities(head: Head, values: Array) -> Array:
    return np.array([head.probability(row) for row in values.tolist()], dtype=np.float64)


def _moments(values: Array, weights: Array) -> tuple[Array, Array]:
    mean = np.average(values, axis=0, weights=weights)
    deviation = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
    return mean, np.where(
        deviation > 1e-6, deviation, 1.0
    )  # a constant feature says nothing, and must not blow up


def _standard(values: Array, weights: Array) -> Standard:
    mean, deviation = _moments(values[:, None], weights)
    return Standard(float(mean[0]), float(deviation[0]))


def _quantiles(values: Array, weights: Array, shares: Array) -> Array:
    """Weighted quantiles, linear between the midpoints of the weights."""
    order = np.argsort(values, kind="stable")
    ordered_weights = weights[order]
    midpoints = (np.cumsum(ordered_weights) - ordered_weights / 2.0) / ordered_weights.sum()
    return np.interp(shares, midpoints, values[order])


def _strictly_increasing(table: Array) -> list[float]:
    """Lift ties by a hair, so that the table can be inverted."""
    lifted: list[float] = []
    for value in table.tolist():
        lifted.append(max(value, lifted[-1] + 1e-9) if lifted else value)
    return lifted
