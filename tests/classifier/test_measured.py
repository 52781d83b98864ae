"""Measuring a model on files of outcomes, whatever columns they have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from classifier.errors import DatasetInvalid
from classifier.measured import load_measurable, measure
from classifier.metrics import binned_figures, curve_figures
from classifier.model import Classifier
from tests.classifier.conftest import rows, write_source

FIGURES = {"auc", "weak_failure_auc", "apgr", "apgr_weighted", "cpt50", "cpt80"}


class Clock:
    """Goes on by a millisecond each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def bare_rows(texts: list[str]) -> list[dict[str, Any]]:
    return [
        {"prompt": text, "weak_score": float(number % 3 > 0), "strong_score": 1.0}
        for number, text in enumerate(texts)
    ]


def write_jsonl(path: Path, content: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content), encoding="utf-8")
    return path


def test_the_json_has_the_agreed_keys_and_nothing_else(labelled: Path, classifier: Classifier):
    found: dict[str, Any] = json.loads(
        json.dumps(measure(classifier, load_measurable(labelled), clock=Clock()).as_json())
    )
    assert set(found) == {"sources", "macro", "latency_ms"}
    assert set(found["sources"]) == {"alpha", "beta", "gamma"}
    for source in (*found["sources"].values(), found["macro"]):
        assert set(source) == FIGURES | {"ece", "rows", "random", "length"}
        assert set(source["length"]) == set(source["random"]) == FIGURES
        assert source["ece"] is None
    assert found["latency_ms"] == {"p50": 1.0, "p99": 1.0, "per_second": 1000.0}


def test_three_columns_are_enough_in_any_language_and_any_kind_of_file(
    tmp_path: Path, classifier: Classifier
):
    texts = (
        [f"证明第{n}个命题" for n in range(20)] + [f"{n}番目の問題を解いてください" for n in range(20)] + [""]
    )
    content = bare_rows(texts)
    write_jsonl(tmp_path / "zh_ja.jsonl", content)
    write_source(tmp_path / "same.parquet", content)
    (tmp_path / "comma.csv").write_text(
        "prompt,weak_score,strong_score\n" + "".join(f'"a ""b"", {n}",{n % 2},true\n' for n in range(30)),
        encoding="utf-8",
    )
    found = measure(classifier, load_measurable(tmp_path)).sources
    assert set(found) == {"zh_ja", "same", "comma"}
    assert found["zh_ja"].score == found["same"].score
    assert found["comma"].rows == 30


@pytest.mark.parametrize("missing", [None, "", float("nan")])
def test_prompts_without_a_key_are_told_apart_by_their_text(tmp_path: Path, missing: object):
    content = [row | {"pkey": missing} for row in bare_rows(["a", "b", "a", "c", "b", "d"])]
    source = load_measurable(write_jsonl(tmp_path / "keys.jsonl", content))[0]
    assert [each.turns[0].text for each in source.conversations] == ["a", "b", "c", "d"]


def test_panels_and_pairs_without_a_gap_are_left_out(tmp_path: Path):
    content = rows("mixed", seed=1)
    for row in list(content):
        if row["weak_model"] == "small":
            content.append(row | {"weak_model": "equal", "weak_score": row["strong_score"]})
    write_source(tmp_path / "mixed.parquet", content)
    source = load_measurable(tmp_path / "mixed.parquet")[0]
    assert len(source.pairs) == 1
    assert len(source.conversations) == 60


def test_prompts_with_a_difficulty_only_are_passed_over_in_a_folder_and_refused_alone(
    labelled: Path, tmp_path: Path
):
    write_source(tmp_path / "aux.parquet", [{"prompt": "x", "difficulty": 0.5}])
    with pytest.raises(DatasetInvalid, match=r"aux\.parquet lacks the column 'weak_score'"):
        load_measurable(tmp_path / "aux.parquet")
    write_source(tmp_path / "pairs.parquet", rows("pairs", seed=1))
    assert [source.name for source in load_measurable(tmp_path)] == ["pairs"]


def test_tools_and_tasks_are_passed_on(tmp_path: Path):
    write_source(tmp_path / "one.parquet", rows("one", seed=1))
    sources = load_measurable(tmp_path, "source")
    tools = [conversation.tool_count for conversation in sources[0].conversations]
    assert sorted(set(tools)) == [0, 2]
    assert {conversation.task for conversation in sources[0].conversations} == {"one"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weak_score": 1.5}, r"row 4: weak_score is 1\.5"),
        ({"strong_score": None}, "row 4: strong_score is None"),
        ({"prompt": 7}, "row 4: prompt is 7, not a text"),
    ],
)
def test_a_bad_value_is_named_with_file_row_and_column(tmp_path: Path, change: dict[str, Any], message: str):
    content = bare_rows([f"prompt {number}" for number in range(30)])
    content[3] |= change
    with pytest.raises(DatasetInvalid, match=rf"bad\.jsonl, {message}"):
        load_measurable(write_jsonl(tmp_path / "bad.jsonl", content))


def test_a_column_or_a_file_that_is_missing_is_named(tmp_path: Path):
    file = write_jsonl(tmp_path / "bad.jsonl", [{"prompt": "x", "weak_score": 1.0}])
    with pytest.raises(DatasetInvalid, match="'strong_score'"):
        load_measurable(file)
    with pytest.raises(DatasetInvalid, match="'category'"):
        load_measurable(write_jsonl(file, bare_rows(["x", "y"])), "category")
    with pytest.raises(DatasetInvalid, match="does not exist"):
        load_measurable(tmp_path / "nowhere")
    file.write_text("[1]\n")
    with pytest.raises(DatasetInvalid, match="line 1 is not an object"):
        load_measurable(file)
    with pytest.raises(DatasetInvalid, match="no known kind"):
        load_measurable(Path(__file__))


def test_ten_bins_agree_with_the_exact_curve_on_many_prompts():
    rng = np.random.default_rng(4)
    weak, strong = (rng.random(20_000) < 0.6).astype(float), (rng.random(20_000) < 0.85).astype(float)
    scores = rng.random(20_000) + 0.4 * (strong - weak)
    exact, binned = curve_figures(scores, weak, strong), binned_figures(scores, weak, strong)
    assert binned.apgr == pytest.approx(exact.apgr, abs=0.02)
    assert binned.cpt50 == pytest.approx(exact.cpt50, abs=2)
    assert binned.cpt80 == pytest.approx(exact.cpt80, abs=3)
