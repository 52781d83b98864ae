"""Rows of a file of outcomes: parquet, JSONL or CSV; errors name the file, the row and the column."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from classifier.errors import DatasetInvalid, MissingDependency

Row = dict[str, Any]
SUFFIXES = (".parquet", ".jsonl", ".csv")

_WORDS = {"true": 1.0, "false": 0.0}
_LONGEST_FIELD = 1 << 24  # the csv module stops at 128 KB, which long prompts exceed


def table_files(path: Path) -> list[Path]:
    """The file `path`, or the files of the folder `path` that can be read, ordered by name.

    Raises:
        DatasetInvalid: There is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DatasetInvalid(
            f"{path} does not exist; give a file ({', '.join(SUFFIXES)}) or a folder of them"
        )
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        raise DatasetInvalid(f"{path} holds no {', '.join(SUFFIXES)} file; give a file or a folder of them")
    return files


def read_rows(file: Path) -> list[Row]:
    """Every row of `file`, by column name.

    Raises:
        DatasetInvalid: It cannot be read, or holds no rows; names the file.
        MissingDependency: It is parquet and pyarrow is not installed.
    """
    readers = {".parquet": _parquet, ".jsonl": _jsonl, ".csv": _csv}
    if file.suffix not in readers:
        raise DatasetInvalid(f"{file} is of no known kind; give one of {', '.join(SUFFIXES)}")
    try:
        rows = readers[file.suffix](file)
    except (OSError, ValueError, csv.Error) as error:  # pyarrow's and json's errors derive from these
        raise DatasetInvalid(f"{file} is not a readable {file.suffix[1:]} file: {error}") from error
    if not rows:
        raise DatasetInvalid(f"{file} holds no rows")
    return rows


def column(file: Path, rows: Sequence[Row], names: Sequence[str], use: str) -> str:
    """The first of `names` that `rows` have.

    Raises:
        DatasetInvalid: None of them; names the file and the columns.
    """
    present = set(rows[0])
    for name in names:
        if name in present:
            return name
    raise DatasetInvalid(
        f"{file} lacks the column {names[0]!r} ({use})"
        + (f"; {', '.join(map(repr, names[1:]))} would do as well" if len(names) > 1 else "")
    )


def text_of(file: Path, at: int, row: Row, name: str) -> str:
    """A text of row `at`; "" where there is none.

    Raises:
        DatasetInvalid: It is something else; names the file, the row and the column.
    """
    value = row.get(name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise DatasetInvalid(f"{file}, row {at + 1}: {name} is {value!r}, not a text")
    return value


def score_of(file: Path, at: int, row: Row, name: str) -> float:
    """A score in [0, 1] of row `at`; true and false count as 1 and 0.

    Raises:
        DatasetInvalid: It is none; names the file, the row and the column.
    """
    value: Any = row.get(name)
    try:
        score = _WORDS[value.lower()] if _is_word(value) else float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not 0.0 <= score <= 1.0:
        raise DatasetInvalid(f"{file}, row {at + 1}: {name} is {value!r}; a score lies in [0, 1]")
    return score


def _is_word(value: Any) -> bool:  # noqa: ANN401 - whatever a file holds
    return isinstance(value, str) and value.lower() in _WORDS


def _jsonl(file: Path) -> list[Row]:
    rows: list[Row] = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                row: Any = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is not an object")
                rows.append(cast("Row", row))
    return rows


def _csv(file: Path) -> list[Row]:
    csv.field_size_limit(_LONGEST_FIELD)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


def _parquet(file: Path) -> list[Row]:
    try:
        from pyarrow import parquet as untyped  # heavy, and only for files of this kind
    except ImportError as error:
        raise MissingDependency('pyarrow is not installed; run: pip install "flashlane[train]"') from error
    parquet: Any = untyped
    # ParquetFile, not read_table: the latter takes folder names such as a=b for partition columns.
    return parquet.ParquetFile(file).read().to_pylist()
