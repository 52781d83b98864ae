"""Labelled prompts: reading them, averaging them per prompt, and the licence gate.

A folder of parquet files, one a source (the file's stem is its name), with the columns `prompt`, `system`,
`weak_model`, `strong_model`, `weak_score`, `strong_score` (0..1), `licence` and `pkey`. A row is one prompt
with the outcomes of one pair of models; rows whose weak model is named `panel_*` average several. Files
without model pairs (auxiliary difficulties) are skipped.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import compress
from pathlib import Path
from typing import Any

from classifier.errors import DatasetInvalid, MissingDependency

COLUMNS = ("prompt", "system", "weak_model", "strong_model", "weak_score", "strong_score", "licence", "pkey")
_PAIR_COLUMNS = {"weak_model", "strong_model", "weak_score", "strong_score"}

OPEN_LICENCE = re.compile(
    r"\b(?:MIT|Apache-2\.0|BSD|CC0|CC BY(?:-SA)? [34]\.0|ODC-BY|public domain)\b", re.IGNORECASE
)
CLOSED_LICENCE = re.compile(r"\bby-nc|non-?commercial|research only|©", re.IGNORECASE)
"""A licence that names no open one, or a closed one, allows measuring but not training shipped weights."""

CLOSED_FOLDERS = frozenset({"dev", "test"})
"""Folders that hold evaluation data only."""

_SHORT_STEM = 32


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one pair of models scored on a prompt, each in [0, 1]."""

    weak_model: str
    strong_model: str
    weak: float
    strong: float

    @property
    def is_panel(self) -> bool:
        """Whether it averages several models rather than being a real pair."""
        return self.weak_model.startswith("panel_")


@dataclass(frozen=True, slots=True)
class LabelledPrompt:
    """One prompt with every outcome known for it."""

    key: str
    text: str
    tool_count: int
    outcomes: Sequence[Outcome]

    @property
    def weak_fails(self) -> float:
        """Mean failure of the weak models, in [0, 1]."""
        return 1.0 - sum(outcome.weak for outcome in self.outcomes) / len(self.outcomes)

    @property
    def strong_succeeds(self) -> float:
        """Mean success of the strong models, in [0, 1]."""
        return sum(outcome.strong for outcome in self.outcomes) / len(self.outcomes)


@dataclass(frozen=True, slots=True)
class Source:
    """The prompts of one file, each once, ordered by key."""

    name: str
    licences: Sequence[str]
    prompts: Sequence[LabelledPrompt]


def load_sources(folder: Path) -> list[Source]:
    """Read every parquet file with model pairs in `folder`.

    Returns:
        The sources, ordered by name.

    Raises:
        DatasetInvalid: The folder is missing, has no such file, or a file cannot be used.
        MissingDependency: pyarrow is not installed.
    """
    return list(iterate_sources(source_files(folder)))


def source_files(folder: Path) -> list[Path]:
    """The parquet files of `folder`, ordered by name.

    Raises:
        DatasetInvalid: The folder is missing or holds none.
    """
    if not folder.is_dir():
        raise DatasetInvalid(f"{folder} is not a folder; --data takes a folder of labelled .parquet files")
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise DatasetInvalid(
            f"{folder} holds no .parquet file; --data takes a folder of labelled .parquet files"
        )
    return files


def iterate_sources(files: Sequence[Path]) -> Iterator[Source]:
    """Read `files` one after the other, leaving out those without model pairs.

    Raises:
        DatasetInvalid: None has model pairs, or one cannot be read or lacks a column.
        MissingDependency: pyarrow is not installed.
    """
    any_pairs = False
    for file in files:
        source = _load(file)
        if source is not None:
            any_pairs = True
            yield source
    if not any_pairs:
        raise DatasetInvalid(f"no file in {files[0].parent} has model pairs (columns {', '.join(COLUMNS)})")


def stem_key(stem: str, text: str) -> str:
    """What near-duplicates share: the letters and digits of the stem, whatever its case and punctuation.

    The same stem with other options is the same prompt; stems as short as "Which is true?" are told apart by
    the whole text.
    """
    key = "".join(filter(str.isalnum, stem.casefold()))
    return key if len(key) >= _SHORT_STEM else "".join(filter(str.isalnum, text.casefold()))


def grouped_split(source: Source, share: float) -> tuple[Source, Source]:
    """Part `source` by prompt key, so that no prompt is on both sides; the same keys always go the same way.

    Args:
        source: To part.
        share: Of the prompts that the second part gets, in [0, 1], on average.
    """
    held = [int(sha256(prompt.key.encode()).hexdigest()[:8], 16) < share * 2**32 for prompt in source.prompts]
    parts = [
        replace(source, prompts=tuple(compress(source.prompts, [each is side for each in held])))
        for side in (False, True)
    ]
    return parts[0], parts[1]


def assert_shippable(sources: Sequence[Source], folder: Path) -> None:
    """Refuse data that must not go into shipped weights.

    Raises:
        DatasetInvalid: The folder is for evaluation only, or a source names no licence or a closed one.
    """
    if folder.resolve().name in CLOSED_FOLDERS:
        raise DatasetInvalid(f"{folder} is for evaluation only; train on a folder of openly licensed prompts")
    for source in sources:
        for licence in source.licences:
            if not OPEN_LICENCE.search(licence) or CLOSED_LICENCE.search(licence):
                stated = licence.strip() or "no stated licence"
                raise DatasetInvalid(
                    f"{source.name} has prompts under {stated!r}, which weights may not be trained on; "
                    "take the file out of the training folder"
                )


def _load(file: Path) -> Source | None:
    parquet = _pyarrow_parquet()
    try:
        names = set(parquet.read_schema(file).names)
        if not names >= _PAIR_COLUMNS:
            return None
        missing = [column for column in COLUMNS if column not in names]
        if missing:
            raise DatasetInvalid(f"{file} lacks the column {missing[0]!r}")
        # ParquetFile, not read_table: the latter takes folder names such as a=b for partition columns.
        rows: list[dict[str, Any]] = parquet.ParquetFile(file).read(columns=list(COLUMNS)).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors derive from these
        raise DatasetInvalid(f"{file} is not a readable parquet file: {error}") from error
    if not rows:
        raise DatasetInvalid(f"{file} holds no rows")
    return _group(file, rows)


def _group(file: Path, rows: Sequence[dict[str, Any]]) -> Source:
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if not row["prompt"] or not row["pkey"]:
            raise DatasetInvalid(f"{file} has a row without {'a prompt' if row['pkey'] else 'a pkey'}")
        by_key.setdefault(str(row["pkey"]), []).append(row)
    prompts = [
        LabelledPrompt(
            key=key,
            text=str(group[0]["prompt"]),
            tool_count=_tool_count(group[0]["system"]),
            outcomes=tuple(_outcome(file, row) for row in group),
        )
        for key, group in sorted(by_key.items())
    ]
    licences = sorted({str(row["licence"] or "") for row in rows})
    return Source(name=file.stem, licences=tuple(licences), prompts=tuple(prompts))


def _outcome(file: Path, row: dict[str, Any]) -> Outcome:
    weak, strong = row["weak_score"], row["strong_score"]
    if weak is None or strong is None or not (0 <= weak <= 1 and 0 <= strong <= 1):
        raise DatasetInvalid(
            f"{file}: scores of {row['pkey']} are {weak!r} and {strong!r}; both must lie in [0, 1]"
        )
    return Outcome(str(row["weak_model"]), str(row["strong_model"]), float(weak), float(strong))


def _tool_count(system: str | None) -> int:
    """Tools are listed in the system column as `[tools] name, name`."""
    if system and system.startswith("[tools]"):
        return system.count(",") + 1
    return 0


def _pyarrow_parquet() -> Any:  # noqa: ANN401 - pyarrow ships no types
    try:
        from pyarrow import parquet  # heavy, and needed for training and evaluation only
    except ImportError as error:
        raise MissingDependency('pyarrow is not installed; run: pip install "flashlane[train]"') from error
    return parquet
