"""Measuring one model, the shipped one or an adapted one, on files of outcomes; nothing is trained.

A file is a source, named by its stem. It needs `prompt`, `weak_score` and `strong_score`; other columns
of the labelled data (`classifier.dataset`) are used if they are there: `weak_model` and `strong_model` tell
pairs apart, `system` names tools or is the system prompt, `pkey` the prompt. Rows of panels and pairs with a
gap below MIN_GAP are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from classifier.calibration import calibration_error
from classifier.dataset import Outcome
from classifier.errors import DatasetInvalid
from classifier.figures import (
    MIN_GAP,
    Figures,
    PairRows,
    average,
    figures_of,
    mean_known,
    real_pairs,
    yardsticks,
)
from classifier.metrics import Array, CurveFigures, binned_figures, cost_quality_curve
from classifier.model import Classifier
from classifier.pairs import listed_tools
from classifier.tables import Row, column, read_rows, score_of, table_files, text_of
from classifier.types import Conversation, Turn

Progress = Callable[[str], None]
Clock = Callable[[], float]

FLASH_OK = 0.5
_LATENCY_PROMPTS = 400
_LATENCY_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Source:
    """The prompts of one file, each once, and the real pairs of models on them."""

    name: str
    conversations: Sequence[Conversation]
    pairs: Sequence[PairRows]


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one source.

    Attributes:
        rows: Outcomes measured, over all pairs.
        score: Of the model.
        binned: The same off RouteLLM's ten bins, mean over pairs.
        length: Of the characters of a prompt.
        random: Of a random order.
        ece: Calibration error of p_flash_ok; None where the model states none.
        curves: Name -> cost-quality curve over all pairs, for a plot.
    """

    rows: int
    score: Figures
    binned: CurveFigures
    length: Figures
    random: Figures
    ece: float | None
    curves: Mapping[str, tuple[Array, Array]]

    def as_json(self) -> dict[str, object]:
        """Plain values: the figures of the score at the top level, the yardsticks beside them."""
        return {
            **self.score.as_json(),
            "ece": None if self.ece is None else round(self.ece, 4),
            "rows": self.rows,
            "random": self.random.as_json(),
            "length": self.length.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Latency:
    """Time of one estimate on one core, in milliseconds, and estimates a second."""

    p50: float
    p99: float
    per_second: float

    def as_json(self) -> dict[str, float]:
        """Plain values, rounded."""
        return {
            "p50": round(self.p50, 4),
            "p99": round(self.p99, 4),
            "per_second": round(self.per_second, 1),
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All sources, their mean, and what an estimate costs."""

    sources: Mapping[str, Measured]
    macro: Measured
    latency: Latency

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "sources": {name: measured.as_json() for name, measured in self.sources.items()},
            "macro": self.macro.as_json(),
            "latency_ms": self.latency.as_json(),
        }


def load_measurable(path: Path, task_column: str | None = None) -> list[Source]:
    """Read a file, or every file of a folder; those without outcomes and without a real pair are left out.

    Args:
        path: .parquet, .jsonl or .csv, or a folder of them.
        task_column: Column that names the task of a prompt; None to name it by the system prompt.

    Raises:
        DatasetInvalid: A file cannot be used, or none has a real pair; names file, row and column.
        MissingDependency: A parquet file, and pyarrow is not installed.
    """
    files = table_files(path)
    found: list[Source] = []
    for file in files:
        rows = read_rows(file)
        if len(files) > 1 and "weak_score" not in rows[0] and "strong_score" not in rows[0]:
            continue  # prompts with a difficulty and no outcomes, as the labelled data has beside the others
        source = _source(file, rows, task_column)
        if source.pairs:
            found.append(source)
    if not found:
        raise DatasetInvalid(f"{path} has no pair of models with a gap of at least {MIN_GAP} in their means")
    return found


def measure(
    classifier: Classifier,
    sources: Sequence[Source],
    *,
    clock: Clock = perf_counter,
    progress: Progress = lambda _: None,
) -> Evaluation:
    """Measure `classifier` on each of `sources`."""
    found: dict[str, Measured] = {}
    for source in sources:
        progress(source.name)
        found[source.name] = _measured(classifier, source)
    progress("timing")
    texts = [conversation for source in sources for conversation in source.conversations]
    return Evaluation(found, _macro(list(found.values())), time_estimates(classifier, texts, clock))


def time_estimates(classifier: Classifier, conversations: Sequence[Conversation], clock: Clock) -> Latency:
    """Time estimates of some of `conversations`, one after the other, the fastest of a few rounds each."""
    step = max(1, len(conversations) // _LATENCY_PROMPTS)
    some = conversations[::step]
    best = np.full(len(some), np.inf)
    for _ in range(_LATENCY_ROUNDS):
        for at, conversation in enumerate(some):
            start = clock()
            classifier.estimate(conversation)
            best[at] = min(best[at], clock() - start)
    p50, p99 = np.percentile(best, [50, 99]).tolist()
    return Latency(1e3 * p50, 1e3 * p99, 1.0 / max(float(best.mean()), 1e-12))


def _source(file: Path, rows: Sequence[Row], task_column: str | None) -> Source:
    for name, use in (("prompt", "the text"), ("weak_score", "0 to 1"), ("strong_score", "0 to 1")):
        column(file, rows, (name,), use)
    if task_column is not None:
        column(file, rows, (task_column,), "the task, as --task-column asks")
    conversations: dict[str, Conversation] = {}
    outcomes: dict[str, list[Outcome]] = {}
    for at, row in enumerate(rows):
        prompt = text_of(file, at, row, "prompt")
        key = _key(row, prompt)
        if key not in conversations:
            task = "" if task_column is None else text_of(file, at, row, task_column)
            conversations[key] = _conversation(row, prompt, task)
        outcomes.setdefault(key, []).append(
            Outcome(
                text_of(file, at, row, "weak_model"),
                text_of(file, at, row, "strong_model"),
                score_of(file, at, row, "weak_score"),
                score_of(file, at, row, "strong_score"),
            )
        )
    return Source(file.stem, list(conversations.values()), real_pairs(outcomes.values()))


def _key(row: Row, prompt: str) -> str:
    """What rows of one prompt share: `pkey`, or where there is none the texts themselves."""
    key = row.get("pkey")
    if key is None or key == "" or key != key:  # noqa: PLR0124 - NaN, which some writers put for a missing value
        return f"{row.get('system') or ''}\0{prompt}"
    return str(key)


def _conversation(row: Row, prompt: str, task: str) -> Conversation:
    tools = listed_tools(row)
    system = row.get("system")
    return Conversation(
        turns=[Turn("user", prompt)],
        system=system if isinstance(system, str) and not tools else "",
        tools=system.encode("utf-8", "surrogatepass") if isinstance(system, str) and tools else b"",
        tool_count=tools,
        task=task,
    )


def _measured(classifier: Classifier, source: Source) -> Measured:
    estimates = [classifier.estimate(conversation) for conversation in source.conversations]
    scores = np.array([estimate.score for estimate in estimates])
    lengths = np.array([len(each.turns[0].text) for each in source.conversations], dtype=np.float64)
    marks = yardsticks(lengths)
    stated = [estimate.p_flash_ok for estimate in estimates if estimate.p_flash_ok is not None]
    binned = [binned_figures(scores[pair.rows], pair.weak, pair.strong) for pair in source.pairs]
    return Measured(
        rows=sum(len(pair.rows) for pair in source.pairs),
        score=figures_of(source.pairs, scores),
        binned=_mean_binned(binned),
        length=figures_of(source.pairs, marks["length"]),
        random=figures_of(source.pairs, marks["random"]),
        ece=_calibration(source.pairs, np.array(stated)) if len(stated) == len(estimates) else None,
        curves={name: _curve(source.pairs, values) for name, values in (("score", scores), *marks.items())},
    )


def _calibration(pairs: Sequence[PairRows], stated: Array) -> float:
    return float(np.mean([calibration_error(stated[pair.rows], pair.weak >= FLASH_OK) for pair in pairs]))


def _curve(pairs: Sequence[PairRows], scores: Array) -> tuple[Array, Array]:
    """The mean curve over pairs, at even shares."""
    shares = np.linspace(0.0, 1.0, 201)
    curves = [cost_quality_curve(scores[pair.rows], pair.weak, pair.strong) for pair in pairs]
    return shares, np.mean([np.interp(shares, x, y) for x, y in curves], axis=0)


def _mean_binned(figures: Sequence[CurveFigures]) -> CurveFigures:
    return CurveFigures(
        *(
            float(np.mean(values))
            for values in zip(*((each.apgr, each.cpt50, each.cpt80) for each in figures), strict=True)
        )
    )


def _macro(found: Sequence[Measured]) -> Measured:
    curves = {
        name: (found[0].curves[name][0], np.mean([each.curves[name][1] for each in found], axis=0))
        for name in found[0].curves
    }
    return Measured(
        rows=sum(each.rows for each in found),
        score=average([each.score for each in found]),
        binned=_mean_binned([each.binned for each in found]),
        length=average([each.length for each in found]),
        random=average([each.random for each in found]),
        ece=mean_known([each.ece for each in found]),
        curves=curves,
    )
