"""RouteLLM's evaluation files, in made-up files of their layout."""

import csv
import json
from pathlib import Path

import pytest

from classifier.errors import DatasetInvalid
from classifier.model import Classifier
from classifier.routellm_figures import suite_figures
from classifier.routellm_suite import PUBLISHED, STRONG, WEAK, load_suite


def write_csv(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def answered(subject: str, count: int = 40) -> list[dict[str, object]]:
    return [
        {
            "prompt": f"Which {subject} is it, {number}?\nA. one\nB. two\nC. three\nD. four\nAnswer:",
            WEAK: number % 3 != 0,
            STRONG: number % 7 != 0,
        }
        for number in range(count)
    ]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    evals = tmp_path / "RouteLLM" / "routellm" / "evals"
    for subject in ("anatomy", "astronomy"):
        write_csv(evals / "mmlu" / "responses" / f"mmlu_{subject}.csv", answered(subject))
    write_jsonl(
        evals / "mmlu" / "contaminated_prompts.jsonl",
        [{"eval_prompt": answered("anatomy")[0]["prompt"], "train_prompt": "x"}],
    )
    responses = {f"{WEAK}_response": "a", f"{STRONG}_response": "b, c\nd"}
    write_csv(evals / "gsm8k" / "gsm8k_responses.csv", [row | responses for row in answered("sum", 60)])
    write_jsonl(
        evals / "mt_bench" / "question.jsonl",
        [
            {
                "question_id": number,
                "category": "writing",
                "turns": [f"First {number}" * (1 + number % 5), "Then"],
            }
            for number in range(81, 111)
        ],
    )
    write_jsonl(
        evals / "mt_bench" / "judgements.jsonl",
        [
            {"question_id": number, "model": model, "score": 9 - turn if model == STRONG else number % 8 + 1}
            for number in range(81, 111)
            for model in (WEAK, STRONG)
            for turn in (0, 1)
        ],
    )
    return tmp_path / "RouteLLM"


def test_prompts_and_outcomes_are_read_without_the_contaminated_ones(checkout: Path):
    mmlu, gsm8k, mt_bench = load_suite(checkout)
    assert (mmlu.name, len(mmlu.prompts), mmlu.contaminated) == ("mmlu", 79, 1)
    assert (gsm8k.name, len(gsm8k.prompts), gsm8k.contaminated) == ("gsm8k", 60, 0)
    assert (gsm8k.weak[0], gsm8k.weak[1], gsm8k.strong[1]) == (0.0, 1.0, 1.0)
    assert mt_bench.prompts[0].startswith("First 81")
    assert mt_bench.strong[0] == pytest.approx(0.85)
    assert mt_bench.weak[0] == pytest.approx(0.2)


def test_the_evals_folder_alone_will_do(checkout: Path):
    assert len(load_suite(checkout / "routellm" / "evals")) == 3


def test_figures_stand_beside_the_published_ones(checkout: Path, classifier: Classifier):
    found = suite_figures(classifier, load_suite(checkout))
    assert set(found) == set(PUBLISHED)
    for name, figures in found.items():
        assert figures.published == PUBLISHED[name]
        assert figures.score.cpt50 <= figures.score.cpt80
        assert 0.0 < figures.length.apgr < 1.0


def test_a_folder_without_any_of_the_files_is_named(tmp_path: Path):
    with pytest.raises(DatasetInvalid, match=r"mmlu_\*\.csv"):
        load_suite(tmp_path)


def test_a_missing_model_is_named_with_its_file(checkout: Path):
    rows = answered("anatomy")
    for row in rows:
        del row[STRONG]
    write_csv(checkout / "routellm/evals/mmlu/responses/mmlu_anatomy.csv", rows)
    with pytest.raises(DatasetInvalid, match=r"mmlu_anatomy\.csv.*gpt-4-1106-preview"):
        load_suite(checkout)


def test_missing_questions_are_named_with_where_to_get_them(checkout: Path):
    (checkout / "routellm/evals/mt_bench/question.jsonl").unlink()
    with pytest.raises(DatasetInvalid, match="FastChat"):
        load_suite(checkout)


def test_a_question_without_a_judgement_is_named(checkout: Path):
    file = checkout / "routellm/evals/mt_bench/judgements.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[4:]), encoding="utf-8")
    with pytest.raises(DatasetInvalid, match="question 81"):
        load_suite(checkout)
