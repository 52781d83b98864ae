"""RouteLLM's own evaluation files, read from a checkout, and its published figures.

Below `routellm/evals` (github.com/lm-sys/RouteLLM; Ong et al. 2024, arXiv:2406.18665):

* mmlu/responses/mmlu_*.csv, 57 files, and gsm8k/gsm8k_responses.csv: `prompt` and a column a model, True or
  False.
* mt_bench/question.jsonl (`question_id`, `turns`) and mt_bench/judgements.jsonl (`question_id`, `model`,
  `score` 1 to 10, a line a turn). Routing looks at the first turn; both turns count.
* contaminated_prompts.jsonl beside each (`eval_prompt`): left out, as RouteLLM does, where the file is there.

These files judge. Nothing is trained, tuned or chosen on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from classifier.errors import DatasetInvalid
from classifier.tables import Row, column, read_rows, score_of, text_of

STRONG = "gpt-4-1106-preview"
WEAK = "mistralai/Mixtral-8x7B-Instruct-v0.1"
_TOP_SCORE = 10.0


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of the best of RouteLLM's routers, read off ten bins."""

    cpt50: float
    cpt80: float
    apgr: float
    arena_apgr: float


PUBLISHED: Mapping[str, Published] = {
    "mmlu": Published(cpt50=35.40, cpt80=70.31, apgr=0.603, arena_apgr=0.524),
    "gsm8k": Published(cpt50=33.64, cpt80=63.26, apgr=0.622, arena_apgr=0.475),
    "mt_bench": Published(cpt50=13.40, cpt80=31.31, apgr=0.802, arena_apgr=0.610),
}
"""The best router of each benchmark; arena_apgr of the best that learned from Chatbot Arena alone."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: prompts with the outcomes of RouteLLM's two models, in [0, 1]."""

    name: str
    prompts: Sequence[str]
    weak: Sequence[float]
    strong: Sequence[float]
    contaminated: int


def load_suite(checkout: Path) -> list[Benchmark]:
    """The benchmarks that are in `checkout`: a clone of RouteLLM, or its `evals` folder.

    Raises:
        DatasetInvalid: None is there, or a file is not of the layout above; names file and column.
    """
    inside = (checkout / "routellm" / "evals", checkout / "src" / "routellm" / "evals")
    root = next((place for place in inside if place.is_dir()), checkout)
    found: list[Benchmark] = []
    if responses := sorted((root / "mmlu" / "responses").glob("mmlu_*.csv")):
        found.append(_answered("mmlu", root / "mmlu", responses))
    if (root / "gsm8k" / "gsm8k_responses.csv").is_file():
        found.append(_answered("gsm8k", root / "gsm8k", [root / "gsm8k" / "gsm8k_responses.csv"]))
    if (root / "mt_bench" / "judgements.jsonl").is_file():
        found.append(_judged(root / "mt_bench"))
    if not found:
        raise DatasetInvalid(
            f"{checkout} holds none of RouteLLM's evaluation files (mmlu/responses/mmlu_*.csv, "
            "gsm8k/gsm8k_responses.csv, mt_bench/judgements.jsonl); give a clone of lm-sys/RouteLLM"
        )
    return found


def _answered(name: str, folder: Path, files: Sequence[Path]) -> Benchmark:
    left_out = _contaminated(folder)
    prompts: list[str] = []
    weak: list[float] = []
    strong: list[float] = []
    dropped = 0
    for file in files:
        rows = read_rows(file)
        for needed in ("prompt", WEAK, STRONG):
            column(file, rows, (needed,), "RouteLLM's layout")
        for at, row in enumerate(rows):
            prompt = text_of(file, at, row, "prompt")
            if prompt in left_out:
                dropped += 1
                continue
            prompts.append(prompt)
            weak.append(score_of(file, at, row, WEAK))
            strong.append(score_of(file, at, row, STRONG))
    return Benchmark(name, prompts, weak, strong, dropped)


def _judged(folder: Path) -> Benchmark:
    questions, judgements = folder / "question.jsonl", folder / "judgements.jsonl"
    if not questions.is_file():
        raise DatasetInvalid(
            f"{questions} is missing: it holds the prompts of {judgements.name}; "
            "take it from FastChat (fastchat/llm_judge/data/mt_bench/question.jsonl)"
        )
    scores = _mean_scores(judgements)
    left_out = _contaminated(folder)
    prompts: list[str] = []
    weak: list[float] = []
    strong: list[float] = []
    dropped = 0
    for at, row in enumerate(read_rows(questions)):
        number, found = row.get("question_id"), row.get("turns")
        turns = [str(turn) for turn in cast("list[object]", found)] if isinstance(found, list) else []
        if not turns or number is None:
            raise DatasetInvalid(f"{questions}, row {at + 1}: needs question_id and turns, a list of texts")
        if not left_out.isdisjoint(turns):
            dropped += 1
            continue
        for model, outcomes in ((WEAK, weak), (STRONG, strong)):
            if (str(number), model) not in scores:
                raise DatasetInvalid(f"{judgements} has no score of {model} for question {number}")
            outcomes.append(scores[str(number), model])
        prompts.append(turns[0])
    return Benchmark("mt_bench", prompts, weak, strong, dropped)


def _mean_scores(file: Path) -> dict[tuple[str, str], float]:
    """The mean score of (question, model) over its turns, in [0, 1]."""
    rows = read_rows(file)
    for needed in ("question_id", "model", "score"):
        column(file, rows, (needed,), "RouteLLM's layout")
    sums: dict[tuple[str, str], list[float]] = {}
    for at, row in enumerate(rows):
        scaled: Row = {"score": _scaled(row["score"])}
        key = str(row["question_id"]), str(row["model"])
        sums.setdefault(key, []).append(score_of(file, at, scaled, "score"))
    return {key: sum(values) / len(values) for key, values in sums.items()}


def _scaled(score: object) -> object:
    return score / _TOP_SCORE if isinstance(score, int | float) else score


def _contaminated(folder: Path) -> frozenset[str]:
    file = folder / "contaminated_prompts.jsonl"
    if not file.is_file() or not file.stat().st_size:
        return frozenset()
    return frozenset(str(row.get("eval_prompt", "")) for row in read_rows(file))
