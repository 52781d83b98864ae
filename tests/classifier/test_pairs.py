"""Pairs from files, as users have them."""

import json
from pathlib import Path

import pytest

from classifier.errors import DatasetInvalid
from classifier.pairs import Pair, distinct_prompts, load_pairs
from tests.classifier.conftest import write_source


def test_jsonl_csv_and_parquet_say_the_same(tmp_path: Path):
    content = [
        {"prompt": 'Say "hi", 你好', "flash_score": 0.5, "standard_score": 1.0, "task": "chat"},
        {"prompt": "Prove it", "flash_score": 0.0, "standard_score": 1.0, "task": ""},
    ]
    expected = [Pair('Say "hi", 你好', 0.5, 1.0, "chat"), Pair("Prove it", 0.0, 1.0)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, content)) + "\n\n", encoding="utf-8")
    (tmp_path / "a.csv").write_text(
        'prompt,flash_score,standard_score,task\n"Say ""hi"", 你好",.5,1,chat\nProve it,False,True,\n',
        encoding="utf-8",
    )
    write_source(tmp_path / "a.parquet", content)
    for kind in ("jsonl", "csv", "parquet"):
        assert load_pairs(tmp_path / f"a.{kind}") == expected


def test_the_columns_of_the_labelled_data_will_do(tmp_path: Path):
    row = {"prompt": "x", "weak_score": 0, "strong_score": 1, "category": "maths", "system": "[tools] a, b"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert load_pairs(tmp_path / "a.jsonl", "category") == [Pair("x", 0.0, 1.0, "maths", tool_count=2)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"flash_score": 1, "standard_score": 1}, "'prompt'"),
        ({"prompt": "x", "standard_score": 1}, "'flash_score'.*'weak_score' would do"),
        ({"prompt": "x", "flash_score": 7, "standard_score": 1}, "row 1: flash_score is 7"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path: Path, row: dict[str, object], message: str):
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(DatasetInvalid, match=rf"a\.jsonl.*{message}"):
        load_pairs(tmp_path / "a.jsonl")


def test_a_task_column_that_was_asked_for_must_be_there(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "x", "flash": 1, "standard": 1}', encoding="utf-8")
    with pytest.raises(DatasetInvalid, match="'app'"):
        load_pairs(tmp_path / "a.jsonl", "app")


def test_pairs_of_one_prompt_share_a_number():
    pairs = [Pair(prompt, 0.0, 1.0) for prompt in ("a", "b", "a")]
    assert distinct_prompts(pairs) == [0, 1, 0]
