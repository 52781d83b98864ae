"""Figures of a ranking, pair by pair of models, averaged over the pairs of a source and then over sources.

Beside the score stand the length of the prompt and a random order: a router that does not beat length has
learned little. Real pairs of models only, with a gap of at least MIN_GAP between their means.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from classifier.dataset import Outcome
from classifier.metrics import Array, auc, curve_figures

MIN_GAP = 0.02


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one ranking.

    Attributes:
        apgr: Area under the recovered gap, mean over pairs; 0.5 is random.
        apgr_weighted: The same, pairs weighed by their gap.
        cpt50: Percentage of calls to the strong model for half of the gap.
        cpt80: The same for four fifths.
        auc: How well the score finds prompts on which the strong model does better; None when undefined.
        weak_failure_auc: How well it finds prompts that the weak model fails; None when undefined.
    """

    apgr: float
    apgr_weighted: float
    cpt50: float
    cpt80: float
    auc: float | None
    weak_failure_auc: float | None

    def as_json(self) -> dict[str, float | None]:
        """Every figure, rounded to four places."""
        return {
            field.name: None if (value := getattr(self, field.name)) is None else round(value, 4)
            for field in fields(self)
        }


@dataclass(frozen=True, slots=True)
class PairRows:
    """The outcomes of one pair of models.

    Attributes:
        rows: (N,) places of its prompts in the source.
        weak: (N,) in [0, 1].
        strong: (N,) in [0, 1].
    """

    rows: npt.NDArray[np.int64]
    weak: Array
    strong: Array

    @property
    def gap(self) -> float:
        """Mean of the strong model over that of the weak one."""
        return float(self.strong.mean() - self.weak.mean())


def real_pairs(outcomes: Iterable[Sequence[Outcome]]) -> list[PairRows]:
    """The pairs in the outcomes of each prompt of a source: no panels, a gap of at least MIN_GAP."""
    grouped: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for row, found in enumerate(outcomes):
        for outcome in found:
            if not outcome.is_panel:
                names = (outcome.weak_model, outcome.strong_model)
                grouped.setdefault(names, []).append((row, outcome.weak, outcome.strong))
    pairs = [
        PairRows(
            np.array([row for row, _, _ in found], dtype=np.int64),
            np.array([weak for _, weak, _ in found]),
            np.array([strong for _, _, strong in found]),
        )
        for _, found in sorted(grouped.items())
    ]
    return [pair for pair in pairs if pair.gap >= MIN_GAP]


def figures_of(pairs: Sequence[PairRows], scores: Array) -> Figures:
    """Figures of `scores`, one a prompt of the source."""
    curves = [curve_figures(scores[pair.rows], pair.weak, pair.strong) for pair in pairs]
    areas = [curve.apgr for curve in curves]
    return Figures(
        apgr=float(np.mean(areas)),
        apgr_weighted=float(np.average(areas, weights=[pair.gap for pair in pairs])),
        cpt50=float(np.mean([curve.cpt50 for curve in curves])),
        cpt80=float(np.mean([curve.cpt80 for curve in curves])),
        auc=mean_known([auc(scores[pair.rows], pair.strong > pair.weak) for pair in pairs]),
        weak_failure_auc=failure_auc(pairs, scores),
    )


def failure_auc(pairs: Sequence[PairRows], scores: Array) -> float | None:
    """How well `scores` find prompts that the weak model fails, mean over pairs; None when undefined."""
    return mean_known([auc(scores[pair.rows], pair.weak < 0.5) for pair in pairs])


def average(figures: Sequence[Figures]) -> Figures:
    """Mean of each figure over those that define it."""

    def mean(name: str) -> float:
        return mean_known([getattr(each, name) for each in figures]) or 0.0

    return Figures(
        apgr=mean("apgr"),
        apgr_weighted=mean("apgr_weighted"),
        cpt50=mean("cpt50"),
        cpt80=mean("cpt80"),
        auc=mean_known([each.auc for each in figures]),
        weak_failure_auc=mean_known([each.weak_failure_auc for each in figures]),
    )


def mean_known(values: Sequence[float | None]) -> float | None:
    """Mean of what is not None; None when nothing is left."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def yardsticks(lengths: Array) -> Mapping[str, Array]:
    """What every ranking is compared with: the characters of a prompt, and one random order."""
    return {"length": lengths, "random": np.random.default_rng(0).random(len(lengths))}
