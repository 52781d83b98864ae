"""Training the prior: from labelled prompts to the arrays that ship.

Outcome heads, P(weak fails) and P(strong succeeds), learn from outcomes averaged over all models of a prompt,
every source weighing the same. Another head tells demanding work from everyday chat by the prompts in
`classifier.reference_prompts`. Everything is deterministic: the same data gives the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from classifier.dataset import Source, stem_key
from classifier.errors import DatasetInvalid
from classifier.features import FEATURE_NAMES, extract, ordered
from classifier.fitting import (
    Design,
    learned,
    logistic,
    one_thread,
    outcome_head,
    quantiles,
    standard,
    unscaled,
)
from classifier.lsa import Lsa, terms_of
from classifier.lsa_training import Corpus, fit_lsa
from classifier.reading import Reading, read
from classifier.reference_prompts import load_reference_prompts
from classifier.scoring import Head, Prior, Ranker

Array = npt.NDArray[np.float64]

REFERENCE_SHARES = {"everyday prompts": 0.55, "labelled prompts": 0.30, "demanding prompts": 0.15}
"""The make-up of the reference traffic; the labelled part weighs every source the same."""

QUANTILES = 401
_OUTCOME_C = 0.01  # inverse strength of the L2 penalty
_DEMANDING_C = 0.1
_FAILURE_LENGTH = 0.2  # deviations of log length that the failure head is given, a deviation of its own logit
_SHARPNESS = 4.0  # logits a standard deviation of the demanding head
_MIDPOINT = -0.5  # standard deviations over the labelled prompts at which that head says one half

# Data sets differ in whether they keep the question mark and the list, more than prompts do.
_FORMAT = frozenset({"asks", "ends_in_question"})
# What these say of weak failure they say of strong failure too, so that no gain is left.
_NOT_IN_GAIN = _FORMAT | {"numeric_options", "rarity", "negation"}
# How deep brackets nest says little beside their number, and misleads on code.
_NOT_IN_FAILURE = _FORMAT | {"nesting"}
# Our own prompts are too few, and too much alike, to learn these from.
_NOT_IN_DEMANDING = frozenset({"quotes", "numeric_options", "rarity", "negation"})

_CHARS = FEATURE_NAMES.index("chars")
_RARITY = FEATURE_NAMES.index("rarity")
_TOPICS = FEATURE_NAMES.index("topics")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts as numbers.

    Attributes:
        readings: One a prompt.
        values: (prompts, features); `rarity` and `topics` are zeros until a table fills them.
    """

    readings: Sequence[Reading]
    values: Array

    def filled(self, lsa: Lsa) -> "Prompts":
        """The same with the two features that `lsa` tells."""
        values = self.values.copy()
        if len(values):
            values[:, [_RARITY, _TOPICS]] = [lsa.look_up(reading) for reading in self.readings]
        return replace(self, values=values)


@dataclass(frozen=True, slots=True)
class SourceMatrix:
    """A source as numbers.

    Attributes:
        name: Of the source.
        prompts: In the order of the source.
        keys: (prompts,) `stem_key` of each, by which duplicates are known.
        terms: (prompts,) the terms of each.
        weak_fails: (prompts,), in [0, 1].
        strong_succeeds: (prompts,), in [0, 1].
    """

    name: str
    prompts: Prompts
    keys: Sequence[str]
    terms: Sequence[frozenset[str]]
    weak_fails: Array
    strong_succeeds: Array

    def only(self, places: Sequence[int]) -> "SourceMatrix":
        """The prompts at `places`."""
        return SourceMatrix(
            name=self.name,
            prompts=Prompts([self.prompts.readings[at] for at in places], self.prompts.values[places]),
            keys=[self.keys[at] for at in places],
            terms=[self.terms[at] for at in places],
            weak_fails=self.weak_fails[places],
            strong_succeeds=self.strong_succeeds[places],
        )


@dataclass(frozen=True, slots=True)
class OwnPrompts:
    """The prompts in `classifier.reference_prompts`."""

    everyday: Prompts
    demanding: Prompts

    def filled(self, lsa: Lsa) -> "OwnPrompts":
        """The same with the two features that `lsa` tells."""
        return OwnPrompts(self.everyday.filled(lsa), self.demanding.filled(lsa))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A ranker and the table that its features need."""

    ranker: Ranker
    lsa: Lsa


def featurise(source: Source) -> SourceMatrix:
    """Compute the features and targets of every prompt of `source`, in its order."""
    readings = [read(prompt.text) for prompt in source.prompts]
    counts = [prompt.tool_count for prompt in source.prompts]
    return SourceMatrix(
        name=source.name,
        prompts=_prompts(readings, counts),
        keys=[stem_key(reading.stem, reading.text) for reading in readings],
        terms=[terms_of(reading) for reading in readings],
        weak_fails=np.array([prompt.weak_fails for prompt in source.prompts], dtype=np.float64),
        strong_succeeds=np.array([prompt.strong_succeeds for prompt in source.prompts], dtype=np.float64),
    )


def own_prompts() -> OwnPrompts:
    """Compute the features of the prompts in `classifier.reference_prompts`."""
    prompts = load_reference_prompts()
    parts = [[read(text) for text in texts] for texts in (prompts.everyday, prompts.demanding)]
    everyday, demanding = (_prompts(readings, [0] * len(readings)) for readings in parts)
    return OwnPrompts(everyday, demanding)


def distinct(sources: Sequence[SourceMatrix], unlike: Sequence[str] = ()) -> list[SourceMatrix]:
    """`sources` without prompts that were seen before in them, or whose key is one of `unlike`.

    Sources that have nothing left are left out.
    """
    seen = set(unlike)
    kept: list[SourceMatrix] = []
    for source in sources:
        places: list[int] = []
        for at, key in enumerate(source.keys):
            if key not in seen:
                seen.add(key)
                places.append(at)
        if places:
            kept.append(source.only(places))
    return kept


def fit(sources: Sequence[SourceMatrix], own: OwnPrompts) -> Fitted:
    """Fit the table of terms, the heads, and the scales that combine them.

    Raises:
        DatasetInvalid: There is no source, or the outcomes do not differ.
        MissingDependency: scikit-learn is not installed.
    """
    if not sources:
        raise DatasetInvalid("training needs at least one source")
    with one_thread():
        return _fit(sources, own)


def _fit(sources: Sequence[SourceMatrix], own: OwnPrompts) -> Fitted:
    lsa = fit_lsa([Corpus(each.terms, each.weak_fails + each.strong_succeeds) for each in sources])
    design = Design.of([source.prompts.filled(lsa).values for source in sources])
    fails = np.concatenate([source.weak_fails for source in sources])
    succeeds = np.concatenate([source.strong_succeeds for source in sources])
    weak_fails = outcome_head(design, fails, without=_NOT_IN_GAIN, c=_OUTCOME_C, name="weak_score")
    strong_succeeds = outcome_head(design, succeeds, without=_NOT_IN_GAIN, c=_OUTCOME_C, name="strong_score")
    gain = probabilities(weak_fails, design.values) * probabilities(strong_succeeds, design.values)
    ranker = Ranker(
        weak_fails=weak_fails,
        strong_succeeds=strong_succeeds,
        demanding=_fit_demanding(own.filled(lsa), design),
        failure=_fit_failure(design, fails),
        gain=standard(gain, design.weights),
        length=standard(design.values[:, _CHARS], design.weights),
    )
    return Fitted(ranker, lsa)


def fit_prior(sources: Sequence[SourceMatrix], own: OwnPrompts) -> Prior:
    """Fit on all sources and tabulate the reference distribution of the ranker's output."""
    fitted = fit(distinct(sources), own)
    own = own.filled(fitted.lsa)
    parts = [
        (own.everyday.values, REFERENCE_SHARES["everyday prompts"]),
        (own.demanding.values, REFERENCE_SHARES["demanding prompts"]),
    ]
    share = REFERENCE_SHARES["labelled prompts"] / len(sources)
    parts += [(source.prompts.filled(fitted.lsa).values, share) for source in sources]
    values = np.vstack([part for part, _ in parts])
    weights = np.concatenate([np.full(len(part), share / len(part)) for part, share in parts])
    raw = raw_scores(fitted.ranker, values)
    return Prior(
        ranker=fitted.ranker,
        quantiles=tuple(_strictly_increasing(quantiles(raw, weights, np.linspace(0.0, 1.0, QUANTILES)))),
        centre=tuple(
            float(quantiles(values[:, at], weights, np.array([0.5]))[0]) for at in range(len(FEATURE_NAMES))
        ),
        lsa=fitted.lsa,
    )


def raw_scores(ranker: Ranker, values: Array) -> Array:
    """Raw scores of (prompts, features), computed by the code that serves."""
    return np.array([ranker.raw(row) for row in values.tolist()], dtype=np.float64)


def probabilities(head: Head, values: Array) -> Array:
    """What `head` says of (prompts, features)."""
    return np.array([head.probability(row) for row in values.tolist()], dtype=np.float64)


def _prompts(readings: Sequence[Reading], tool_counts: Sequence[int]) -> Prompts:
    rows = [
        ordered(extract(reading, tool_count=count))
        for reading, count in zip(readings, tool_counts, strict=True)
    ]
    return Prompts(readings, np.array(rows, dtype=np.float64))


def _fit_failure(design: Design, fails: Array) -> Head:
    """P(weak fails) from differences within sources, and a share of length as in the score."""
    head = outcome_head(design, fails, without=_NOT_IN_FAILURE, c=_OUTCOME_C, name="weak_score", offsets=True)
    logit = standard(design.values @ np.array(head.weights), design.weights)
    length = standard(design.values[:, _CHARS], design.weights)
    share = _FAILURE_LENGTH * logit.deviation / length.deviation
    weights = [weight + share * (at == _CHARS) for at, weight in enumerate(head.weights)]
    return Head(weights=tuple(weights), bias=head.bias - share * length.mean)


def _fit_demanding(own: OwnPrompts, design: Design) -> Head:
    """Tell demanding work from everyday chat, on a scale set by the labelled prompts."""
    mean, deviation = design.moments()
    kept = learned(_NOT_IN_DEMANDING)
    stacked = np.vstack([own.everyday.values, own.demanding.values])
    sizes = len(own.everyday.values), len(own.demanding.values)
    labels = np.repeat([0.0, 1.0], sizes)
    balanced = np.repeat([0.5 * sum(sizes) / size for size in sizes], sizes)
    rows = (stacked[:, kept] - mean[kept]) / deviation[kept]
    head = unscaled(*logistic(rows, labels, balanced, _DEMANDING_C), kept, mean, deviation)
    scale = standard(design.values @ np.array(head.weights) + head.bias, design.weights)
    factor = _SHARPNESS / scale.deviation
    return Head(
        weights=tuple(weight * factor for weight in head.weights),
        bias=(head.bias - scale.mean) * factor - _SHARPNESS * _MIDPOINT,
    )


def _strictly_increasing(table: Array) -> list[float]:
    """Lift ties by a hair, so that the table can be inverted."""
    lifted: list[float] = []
    for value in table.tolist():
        lifted.append(max(value, lifted[-1] + 1e-9) if lifted else value)
    return lifted
