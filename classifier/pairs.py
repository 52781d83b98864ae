"""Pairs: one prompt, and how well Flash and the standard model answered it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from classifier.tables import Row, column, read_rows, score_of, text_of

FLASH_COLUMNS = ("flash_score", "flash", "weak_score")
STANDARD_COLUMNS = ("standard_score", "standard", "strong_score")
TASK_COLUMN = "task"


@dataclass(frozen=True, slots=True)
class Pair:
    """One prompt with both outcomes.

    Attributes:
        prompt: The pending task, as text.
        flash: Score of Flash's answer, in [0, 1].
        standard: Score of the standard model's answer, in [0, 1].
        task: Name of the recurring task; "" when none is known.
        tool_count: How many tools were offered.
    """

    prompt: str
    flash: float
    standard: float
    task: str = ""
    tool_count: int = 0

    @property
    def gain(self) -> float:
        """What the standard model was better by, in [-1, 1]."""
        return self.standard - self.flash


def load_pairs(file: Path, task_column: str = TASK_COLUMN) -> list[Pair]:
    """Read the pairs of one pair of models.

    Args:
        file: .jsonl, .csv or .parquet with the columns `prompt`, `flash_score`, `standard_score` and,
            optionally, the task. The names of the labelled data (`weak_score`, `strong_score`) do as well.
        task_column: Where the task stands; a file without it has no tasks.

    Raises:
        DatasetInvalid: A column is missing or a value is out of range; names file, row and column.
        MissingDependency: A parquet file, and pyarrow is not installed.
    """
    rows = read_rows(file)
    prompt = column(file, rows, ("prompt",), "the text of the request")
    flash = column(file, rows, FLASH_COLUMNS, "how good Flash's answer was, 0 to 1")
    standard = column(file, rows, STANDARD_COLUMNS, "how good the standard answer was, 0 to 1")
    if task_column != TASK_COLUMN:
        column(file, rows, (task_column,), "the task of a request")
    return [
        Pair(
            prompt=text_of(file, at, row, prompt),
            flash=score_of(file, at, row, flash),
            standard=score_of(file, at, row, standard),
            task=text_of(file, at, row, task_column),
            tool_count=listed_tools(row),
        )
        for at, row in enumerate(rows)
    ]


def listed_tools(row: Row) -> int:
    """How many tools the system column lists, as `[tools] name, name`."""
    system = row.get("system")
    if isinstance(system, str) and system.startswith("[tools]"):
        return system.count(",") + 1
    return 0


def distinct_prompts(pairs: Sequence[Pair]) -> list[int]:
    """The number of each pair's prompt, in order of appearance: pairs of one prompt share it.

    What is split into parts is split by it, or a prompt would be judged by its own outcome.
    """
    numbers: dict[str, int] = {}
    return [numbers.setdefault(pair.prompt, len(numbers)) for pair in pairs]
