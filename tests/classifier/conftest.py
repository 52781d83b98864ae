"""Fixtures of the classifier's tests: the shipped weights and small made-up labelled prompts."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from classifier.model import Classifier

_WORDS = ("apple", "river", "stone", "lamp", "green", "seven", "paper", "cloud", "music", "train", "window")


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier.load()


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three sources in which longer prompts with more numbers are failed more often."""
    folder = tmp_path_factory.mktemp("labelled")
    for at, name in enumerate(("alpha", "beta", "gamma")):
        write_source(folder / f"{name}.parquet", rows(name, seed=at))
    return folder


@pytest.fixture
def open_rows() -> list[dict[str, Any]]:
    """Rows of one valid source, to spoil."""
    return rows("spoiled", seed=7)


@pytest.fixture
def write_rows() -> Any:
    return write_source


def rows(source: str, *, seed: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(60):
        length = 3 + (number * 7 + seed * 3) % 40
        text = " ".join(_WORDS[(number + seed + at) % len(_WORDS)] for at in range(length))
        hard = length > 20
        text += f" and find {number} + {length} when x = {seed}." if hard else "?"
        for pair, weak in (("small", 0.0 if hard else 1.0), ("panel_weak3", 0.2 if hard else 0.9)):
            noise = number % 5 == 0
            found.append({
                "source": source,
                "prompt": text,
                "system": "[tools] a, b" if number % 3 == 0 else "",
                "weak_model": pair,
                "strong_model": "large",
                "weak_score": 1.0 - weak if noise else weak,
                "strong_score": 1.0 if number % 7 else 0.0,
                "licence": "MIT",
                "pkey": f"{source}-{number}",
            })  # fmt: skip
    return found


def write_source(path: Path, content: list[dict[str, Any]]) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(content), path)
