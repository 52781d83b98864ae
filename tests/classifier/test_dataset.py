"""Labelled prompts: how they are read, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from classifier.dataset import assert_shippable, grouped_split, load_sources, stem_key
from classifier.errors import DatasetInvalid

Rows = list[dict[str, Any]]
Write = Callable[[Path, Rows], None]


def test_outcomes_are_averaged_over_the_models_of_a_prompt(labelled: Path):
    source = load_sources(labelled)[0]
    prompt = source.prompts[0]
    assert source.name == "alpha"
    assert len(source.prompts) == 60
    assert len(prompt.outcomes) == 2
    assert prompt.weak_fails == pytest.approx(1 - sum(each.weak for each in prompt.outcomes) / 2)


def test_panel_rows_are_known_as_such(labelled: Path):
    outcomes = load_sources(labelled)[0].prompts[0].outcomes
    assert sorted(each.is_panel for each in outcomes) == [False, True]


def test_tools_are_counted(labelled: Path):
    assert {prompt.tool_count for prompt in load_sources(labelled)[0].prompts} == {0, 2}


def test_files_without_model_pairs_are_left_out(
    labelled: Path, tmp_path: Path, open_rows: Rows, write_rows: Write
):
    write_rows(tmp_path / "pairs.parquet", open_rows)
    write_rows(tmp_path / "aux.parquet", [{"prompt": "x", "difficulty": 0.5}])
    assert [source.name for source in load_sources(tmp_path)] == ["pairs"]


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(DatasetInvalid, match="nowhere"):
        load_sources(tmp_path / "nowhere")


def test_a_folder_without_parquet_is_named(tmp_path: Path):
    with pytest.raises(DatasetInvalid, match=r"no \.parquet"):
        load_sources(tmp_path)


def test_a_folder_without_pairs_is_refused(tmp_path: Path, write_rows: Write):
    write_rows(tmp_path / "aux.parquet", [{"prompt": "x", "difficulty": 0.5}])
    with pytest.raises(DatasetInvalid, match="model pairs"):
        load_sources(tmp_path)


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path):
    (tmp_path / "broken.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(DatasetInvalid, match=r"broken\.parquet"):
        load_sources(tmp_path)


def test_a_missing_column_is_named(tmp_path: Path, open_rows: Rows, write_rows: Write):
    for row in open_rows:
        del row["licence"]
    write_rows(tmp_path / "spoiled.parquet", open_rows)
    with pytest.raises(DatasetInvalid, match="licence"):
        load_sources(tmp_path)


@pytest.mark.parametrize("score", [1.5, -0.1, None, float("nan")])
def test_a_score_outside_zero_to_one_is_refused(
    tmp_path: Path, open_rows: Rows, write_rows: Write, score: float | None
):
    open_rows[3]["weak_score"] = score
    write_rows(tmp_path / "spoiled.parquet", open_rows)
    with pytest.raises(DatasetInvalid, match="spoiled"):
        load_sources(tmp_path)


@pytest.mark.parametrize(
    "licence", ["", "CC BY-NC 4.0", "no licence file", "MIT repo; statements © platforms"]
)
def test_prompts_without_an_open_licence_are_not_trained_on(
    tmp_path: Path, open_rows: Rows, write_rows: Write, licence: str
):
    open_rows[0]["licence"] = licence
    write_rows(tmp_path / "spoiled.parquet", open_rows)
    with pytest.raises(DatasetInvalid, match="spoiled"):
        assert_shippable(load_sources(tmp_path), tmp_path)


def test_a_folder_of_evaluation_data_is_not_trained_on(tmp_path: Path, open_rows: Rows, write_rows: Write):
    folder = tmp_path / "dev"
    folder.mkdir()
    write_rows(folder / "fine.parquet", open_rows)
    with pytest.raises(DatasetInvalid, match="evaluation only"):
        assert_shippable(load_sources(folder), folder)


@pytest.mark.parametrize("column", ["prompt", "pkey"])
def test_a_row_without_a_prompt_or_a_key_is_refused(
    tmp_path: Path, open_rows: Rows, write_rows: Write, column: str
):
    open_rows[3][column] = ""
    write_rows(tmp_path / "spoiled.parquet", open_rows)
    with pytest.raises(DatasetInvalid, match=column):
        load_sources(tmp_path)


def test_a_split_keeps_each_prompt_on_one_side(labelled: Path):
    source = load_sources(labelled)[0]
    kept, held = grouped_split(source, 0.3)
    keys = [{prompt.key for prompt in part.prompts} for part in (kept, held)]
    assert keys[0] | keys[1] == {prompt.key for prompt in source.prompts}
    assert not keys[0] & keys[1]
    assert 5 < len(held.prompts) < 30
    assert grouped_split(source, 0.0)[1].prompts == ()


def test_the_same_stem_with_other_options_is_the_same_prompt():
    stem = "Which of these gases do green plants take in during the day?"
    assert stem_key(stem, stem + "\nA. Oxygen") == stem_key(stem.upper() + " ", stem + "\nA. Argon")
    assert stem_key("Which is true?", "Which is true? A. x") != stem_key(
        "Which is true?", "Which is true? A. y"
    )
