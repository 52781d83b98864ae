"""From features to a score: linear heads, their combination, and its quantile in the reference.

Plain Python on purpose: a request needs about a hundred multiplications, less than numpy's overhead.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from classifier.features import FEATURE_NAMES
from classifier.lsa import Lsa

LENGTH_WEIGHT = 1.0
"""Worth of one standard deviation of log length, against one of the expected gain."""

TOPICS_WEIGHT = 0.4
"""Worth of one standard deviation of the gain that the topics speak for."""

DEMANDING_WEIGHT = 4.0
"""Worth of a text that reads like demanding work for certain, against one that reads like everyday chat."""

UNKNOWN_SCRIPT_WEIGHT = 5.0
"""Worth of a unit of log length beyond a greeting, in a script that the cue words do not cover.

Set by hand, as no labelled prompt is in such a script: what cannot be judged goes to the standard model.
"""

_UNKNOWN_SCRIPT_FREE = math.log1p(4)
_EDGE = 0.005  # the share of the scale that is kept for what lies outside the reference, on either side

_WORDS = FEATURE_NAMES.index("words")
_CHARS = FEATURE_NAMES.index("chars")
_TOPICS = FEATURE_NAMES.index("topics")
_OTHER_SCRIPT = FEATURE_NAMES.index("other_script")


@dataclass(frozen=True, slots=True)
class Head:
    """A logistic head: sigmoid(weights . values + bias)."""

    weights: tuple[float, ...]
    bias: float

    def probability(self, values: Sequence[float]) -> float:
        """In (0, 1)."""
        logit = 0.0
        for weight, value in zip(self.weights, values, strict=True):
            logit += weight * value
        return _sigmoid(logit + self.bias)


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit if -40.0 < logit < 40.0 else math.copysign(40.0, -logit)))


def _unrolled(heads: Sequence[Head]) -> Callable[..., Sequence[float]]:
    """The function that returns the logit of each head, of the values as its arguments.

    Expressions without a loop take a third of the time, and no time for weights of zero.
    """
    sums = [
        " + ".join([f"{float(w)!r} * v{at}" for at, w in enumerate(head.weights) if w] or ["0.0"])
        + f" + {float(head.bias)!r}"
        for head in heads
    ]
    arguments = ", ".join(f"v{at}" for at in range(len(FEATURE_NAMES)))
    names: dict[str, object] = {"__builtins__": {}, "inf": math.inf, "nan": math.nan}
    return eval(f"lambda {arguments}: ({', '.join(sums)})", names)  # noqa: S307 - made of the digits of floats


@dataclass(frozen=True, slots=True)
class Standard:
    """Mean and standard deviation that bring a quantity to a common scale."""

    mean: float
    deviation: float

    def of(self, value: float) -> float:
        """How many deviations `value` lies above the mean."""
        return (value - self.mean) / self.deviation


@dataclass(frozen=True, slots=True)
class Ranker:
    """Everything that orders prompts by the gain expected from the standard model.

    Attributes:
        weak_fails: P(weak model fails), as far as it tells where the strong model helps.
        strong_succeeds: P(strong model succeeds).
        demanding: P(demanding work rather than everyday chat).
        failure: P(weak model fails) for its own sake; no part of the score.
        gain: Scale of P(weak fails) x P(strong succeeds) over the labelled prompts.
        length: Scale of the log length over the labelled prompts.
    """

    weak_fails: Head
    strong_succeeds: Head
    demanding: Head
    failure: Head
    gain: Standard
    length: Standard
    _logits: Callable[..., Sequence[float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        heads = (self.weak_fails, self.strong_succeeds, self.demanding)
        object.__setattr__(self, "_logits", _unrolled(heads))

    def raw(self, values: Sequence[float]) -> float:
        """The unbounded score of a feature vector in the order of FEATURE_NAMES."""
        weak_fails, strong_succeeds, demanding = self._logits(*values)
        gain = _sigmoid(weak_fails) * _sigmoid(strong_succeeds)
        unknown = values[_OTHER_SCRIPT] * max(0.0, values[_WORDS] - _UNKNOWN_SCRIPT_FREE)
        return (
            self.gain.of(gain)
            + LENGTH_WEIGHT * self.length.of(values[_CHARS])
            + TOPICS_WEIGHT * values[_TOPICS]
            + DEMANDING_WEIGHT * _sigmoid(demanding)
            + UNKNOWN_SCRIPT_WEIGHT * unknown
        )


@dataclass(frozen=True, slots=True)
class Prior:
    """The shipped scorer: a ranker and the reference distribution that places its output in [0, 1].

    Attributes:
        ranker: Orders prompts.
        quantiles: Raw scores at evenly spaced shares of the reference traffic, strictly increasing.
        centre: Median of each feature over the reference; what `contributions` compares with.
        lsa: The table behind the features `rarity` and `topics`.
    """

    ranker: Ranker
    quantiles: tuple[float, ...]
    centre: tuple[float, ...]
    lsa: Lsa

    def score(self, values: Sequence[float]) -> float:
        """The share of the reference traffic that `values` outranks, in (0, 1); ordered at the ends too."""
        return rank_in(self.quantiles, self.ranker.raw(values))

    def contributions(self, values: Sequence[float]) -> Mapping[str, float]:
        """By how much each feature alone moves the score, against its median in the reference.

        The scorer is not additive, so these do not sum to the score.
        """
        score = self.score(values)
        moved: dict[str, float] = {}
        for at, name in enumerate(FEATURE_NAMES):
            other = list(values)
            other[at] = self.centre[at]
            moved[name] = score - self.score(other)
        return moved


def rank_in(table: Sequence[float], raw: float) -> float:
    """The share of a distribution that `raw` outranks, in (0, 1); ordered beyond its ends too.

    Args:
        table: The distribution's values at even shares, strictly increasing.
        raw: What to place.
    """
    if raw <= table[0]:
        return _EDGE * math.exp(max(raw - table[0], -500.0))
    if raw >= table[-1]:
        return 1.0 - _EDGE * math.exp(max(table[-1] - raw, -30.0))
    above = bisect_right(table, raw)
    low, high = table[above - 1], table[above]
    share = (above - 1 + (raw - low) / (high - low)) / (len(table) - 1)
    return _EDGE + (1.0 - 2.0 * _EDGE) * share


def reference_cut(share: float) -> float:
    """The score above which `share` of the reference traffic lies.

    Raises:
        ValueError: `share` is not in [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies in [0, 1], not {share}")
    return _EDGE + (1.0 - 2.0 * _EDGE) * (1.0 - share)
