"""Leave-one-source-out evaluation: every source is ranked by a model that never saw it.

Real pairs of models only, with a gap of at least MIN_GAP between their means; figures are averaged over the
pairs of a source and then over sources. Beside the score stand the length of the prompt and a random ranking:
a router that does not beat length has learned little.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from classifier.dataset import LabelledPrompt, Source
from classifier.errors import DatasetInvalid
from classifier.metrics import Array, auc, curve_figures
from classifier.training import (
    OwnPrompts,
    SourceMatrix,
    distinct,
    featurise,
    fit,
    own_prompts,
    probabilities,
    raw_scores,
)

MIN_GAP = 0.02

Progress = Callable[[str], None]


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


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Figures of a source under the score and under the two yardsticks.

    Attributes:
        rows: Outcomes measured, over all pairs.
        pairs: Pairs of models measured.
        score: The classifier, trained without this source.
        length: Characters of the prompt.
        random: A random order.
        failure_auc: How well the weak-failure head alone, which is no part of the score, finds the prompts
            that the weak model fails; None when undefined.
    """

    rows: int
    pairs: int
    score: Figures
    length: Figures
    random: Figures
    failure_auc: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A leave-one-source-out evaluation.

    Attributes:
        sources: Source name -> its report; sources without a measurable pair are left out.
        macro: Mean over the sources.
    """

    sources: Mapping[str, SourceReport]
    macro: SourceReport

    def as_json(self) -> dict[str, object]:
        """Plain values, figures of the score at the top level of each source, yardsticks beside them."""
        return {
            "sources": {name: _plain(report) for name, report in self.sources.items()},
            "macro": _plain(self.macro),
        }


@dataclass(frozen=True, slots=True)
class _Pair:
    rows: Sequence[int]
    weak: Array
    strong: Array

    @property
    def gap(self) -> float:
        return float(self.strong.mean() - self.weak.mean())


def evaluate(sources: Sequence[Source], progress: Progress = lambda _: None) -> Report:
    """Evaluate by leaving out one source at a time.

    Args:
        sources: At least two.
        progress: Told the name of each source before it is worked on.

    Raises:
        DatasetInvalid: There are fewer than two sources, or none has a measurable pair.
        MissingDependency: scikit-learn is not installed.
    """
    return evaluate_matrices(sources, [featurise(source) for source in sources], own_prompts(), progress)


def evaluate_matrices(
    sources: Sequence[Source],
    matrices: Sequence[SourceMatrix],
    own: OwnPrompts,
    progress: Progress = lambda _: None,
) -> Report:
    """The same, on features that were computed already."""
    if len(sources) < 2:
        raise DatasetInvalid(
            "leave-one-source-out needs at least two sources (.parquet files with model pairs)"
        )
    reports: dict[str, SourceReport] = {}
    for at, source in enumerate(sources):
        progress(source.name)
        pairs = _pairs(source.prompts)
        if not pairs:
            continue
        others = [matrix for other, matrix in enumerate(matrices) if other != at]
        fitted = fit(distinct(others, unlike=matrices[at].keys), own)
        values = matrices[at].prompts.filled(fitted.lsa).values
        report = _report(source, pairs, raw_scores(fitted.ranker, values))
        failure = _failure_auc(pairs, probabilities(fitted.ranker.failure, values))
        reports[source.name] = replace(report, failure_auc=failure)
    if not reports:
        raise DatasetInvalid(f"no source has a real pair of models with a gap of at least {MIN_GAP}")
    return Report(sources=reports, macro=_macro(list(reports.values())))


def _pairs(prompts: Sequence[LabelledPrompt]) -> list[_Pair]:
    grouped: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for row, prompt in enumerate(prompts):
        for outcome in prompt.outcomes:
            if not outcome.is_panel:
                names = (outcome.weak_model, outcome.strong_model)
                grouped.setdefault(names, []).append((row, outcome.weak, outcome.strong))
    pairs = [
        _Pair(
            [row for row, _, _ in found],
            np.array([w for _, w, _ in found]),
            np.array([s for _, _, s in found]),
        )
        for _, found in sorted(grouped.items())
    ]
    return [pair for pair in pairs if pair.gap >= MIN_GAP]


def _report(source: Source, pairs: Sequence[_Pair], scores: Array) -> SourceReport:
    lengths = np.array([len(prompt.text) for prompt in source.prompts], dtype=np.float64)
    return SourceReport(
        rows=sum(len(pair.rows) for pair in pairs),
        pairs=len(pairs),
        score=_figures(pairs, scores),
        length=_figures(pairs, lengths),
        random=_figures(pairs, np.random.default_rng(0).random(len(lengths))),
    )


def _figures(pairs: Sequence[_Pair], scores: Array) -> Figures:
    curves = [curve_figures(scores[pair.rows], pair.weak, pair.strong) for pair in pairs]
    areas = [curve.apgr for curve in curves]
    return Figures(
        apgr=float(np.mean(areas)),
        apgr_weighted=float(np.average(areas, weights=[pair.gap for pair in pairs])),
        cpt50=float(np.mean([curve.cpt50 for curve in curves])),
        cpt80=float(np.mean([curve.cpt80 for curve in curves])),
        auc=_mean([auc(scores[pair.rows], pair.strong > pair.weak) for pair in pairs]),
        weak_failure_auc=_failure_auc(pairs, scores),
    )


def _failure_auc(pairs: Sequence[_Pair], scores: Array) -> float | None:
    return _mean([auc(scores[pair.rows], pair.weak < 0.5) for pair in pairs])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _macro(reports: Sequence[SourceReport]) -> SourceReport:
    return SourceReport(
        rows=sum(report.rows for report in reports),
        pairs=sum(report.pairs for report in reports),
        score=_average([report.score for report in reports]),
        length=_average([report.length for report in reports]),
        random=_average([report.random for report in reports]),
        failure_auc=_mean([report.failure_auc for report in reports]),
    )


def _average(figures: Sequence[Figures]) -> Figures:
    def mean(name: str) -> float:
        return _mean([getattr(each, name) for each in figures]) or 0.0

    return Figures(
        apgr=mean("apgr"),
        apgr_weighted=mean("apgr_weighted"),
        cpt50=mean("cpt50"),
        cpt80=mean("cpt80"),
        auc=_mean([each.auc for each in figures]),
        weak_failure_auc=_mean([each.weak_failure_auc for each in figures]),
    )


def _plain(report: SourceReport) -> dict[str, object]:
    return {
        **_figures_json(report.score),
        "rows": report.rows,
        "pairs": report.pairs,
        "length": _figures_json(report.length),
        "random": _figures_json(report.random),
        "failure_head_auc": None if report.failure_auc is None else round(report.failure_auc, 4),
    }


def _figures_json(figures: Figures) -> dict[str, float | None]:
    return {
        field.name: None if (value := getattr(figures, field.name)) is None else round(value, 4)
        for field in fields(figures)
    }
