"""Leave-one-source-out evaluation: every source is ranked by a model that never saw it.

Real pairs of models only, with a gap of at least MIN_GAP between their means; figures are averaged over the
pairs of a source and then over sources. Beside the score stand the length of the prompt and a random ranking:
a router that does not beat length has learned little.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from classifier.dataset import Source
from classifier.errors import DatasetInvalid
from classifier.figures import (
    MIN_GAP,
    Figures,
    PairRows,
    average,
    failure_auc,
    figures_of,
    mean_known,
    real_pairs,
    yardsticks,
)
from classifier.metrics import Array
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

Progress = Callable[[str], None]


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
        pairs = real_pairs(prompt.outcomes for prompt in source.prompts)
        if not pairs:
            continue
        others = [matrix for other, matrix in enumerate(matrices) if other != at]
        fitted = fit(distinct(others, unlike=matrices[at].keys), own)
        values = matrices[at].prompts.filled(fitted.lsa).values
        report = _report(source, pairs, raw_scores(fitted.ranker, values))
        failure = failure_auc(pairs, probabilities(fitted.ranker.failure, values))
        reports[source.name] = replace(report, failure_auc=failure)
    if not reports:
        raise DatasetInvalid(f"no source has a real pair of models with a gap of at least {MIN_GAP}")
    return Report(sources=reports, macro=_macro(list(reports.values())))


def _report(source: Source, pairs: Sequence[PairRows], scores: Array) -> SourceReport:
    lengths = np.array([len(prompt.text) for prompt in source.prompts], dtype=np.float64)
    marks = yardsticks(lengths)
    return SourceReport(
        rows=sum(len(pair.rows) for pair in pairs),
        pairs=len(pairs),
        score=figures_of(pairs, scores),
        length=figures_of(pairs, marks["length"]),
        random=figures_of(pairs, marks["random"]),
    )


def _macro(reports: Sequence[SourceReport]) -> SourceReport:
    return SourceReport(
        rows=sum(report.rows for report in reports),
        pairs=sum(report.pairs for report in reports),
        score=average([report.score for report in reports]),
        length=average([report.length for report in reports]),
        random=average([report.random for report in reports]),
        failure_auc=mean_known([report.failure_auc for report in reports]),
    )


def _plain(report: SourceReport) -> dict[str, object]:
    return {
        **report.score.as_json(),
        "rows": report.rows,
        "pairs": report.pairs,
        "length": report.length.as_json(),
        "random": report.random.as_json(),
        "failure_head_auc": None if report.failure_auc is None else round(report.failure_auc, 4),
    }
