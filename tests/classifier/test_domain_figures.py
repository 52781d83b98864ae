"""How good the domains are on prompts whose domain is known; `docs/classifier.md` has the whole table."""

import json
from pathlib import Path

import pytest

from classifier.domain_evaluation import DomainPrompt, domain_figures, load_domain_prompts
from classifier.domain_training import load_written_prompts
from classifier.domains import DOMAINS
from classifier.errors import DatasetInvalid
from tests.classifier.test_cli import run

FOLDER = Path(__file__).with_name("domains")
RISKS = ("legal", "medical", "finance", "safety")


@pytest.mark.parametrize("part", ["unseen", "held_out"])
def test_there_are_forty_prompts_of_each_domain_and_language(part: str):
    figures = domain_figures(load_domain_prompts(FOLDER / part))
    assert {(each.domain, each.lang) for each in figures} == {
        (d, lang) for d in DOMAINS for lang in ("en", "zh")
    }
    assert min(each.prompts for each in figures) >= 40


def test_the_parts_share_no_prompt():
    folders = [FOLDER / part for part in ("unseen", "held_out", "blind")]
    texts = [prompt.text for folder in folders for prompt in load_domain_prompts(folder)]
    texts += {prompt.text for prompt in load_written_prompts()}
    assert len(texts) == len(set(texts))


def test_risk_domains_are_found_and_little_else_is_taken_for_them():
    for each in domain_figures(load_domain_prompts(FOLDER / "unseen")):
        if each.domain in RISKS:
            assert each.precision >= 0.7, each
            assert each.recall >= 0.7, each


def test_figures_are_counted_as_they_should_be():
    prompts = [DomainPrompt("legal", "en", text) for text in ("law", "law", "sum")]
    prompts.append(DomainPrompt("math", "en", "law"))
    legal, math = domain_figures(prompts, lambda text: "legal" if text == "law" else "math")
    assert (legal.prompts, legal.precision, legal.recall) == (3, 2 / 3, 2 / 3)
    assert (math.prompts, math.precision, math.recall) == (1, 0.0, 0.0)


def test_the_command_prints_the_figures():
    found = json.loads(run("eval", "--domains", str(FOLDER / "blind"), "--json").stdout)
    assert {"domain", "lang", "prompts", "precision", "recall"} == set(found[0])
    assert "legal" in run("eval", "--domains", str(FOLDER / "blind")).stdout


def test_a_folder_without_prompts_is_refused(tmp_path: Path):
    with pytest.raises(DatasetInvalid, match="no prompts"):
        load_domain_prompts(tmp_path)
    (tmp_path / "legal.jsonl").write_text("{}")
    with pytest.raises(DatasetInvalid, match="legal"):
        load_domain_prompts(tmp_path)


def test_eval_wants_one_of_its_two_kinds():
    assert run("eval").exit_code == 2
