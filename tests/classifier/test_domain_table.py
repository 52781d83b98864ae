"""The table that tells domains apart, and its files."""

import json
import shutil
from pathlib import Path

import pytest

from classifier.domain_file import ARRAYS_NAME, CARD_NAME, load_domains
from classifier.domain_sources import WrittenPrompt
from classifier.domain_table import DOMAINS
from classifier.domain_training import LearnedDomains, fit_domains, load_written_prompts
from classifier.errors import ModelFileInvalid
from classifier.model import SHIPPED
from classifier.reading import read

PROMPTS = [
    WrittenPrompt(domain, lang, f"{text} {at}")
    for at in range(3)
    for domain, lang, text in (
        ("legal", "en", "my lawyer wrote to the landlord"),
        ("legal", "zh", "律师说房东违约"),
        ("chat", "en", "a nice day for a walk in the park"),
        ("chat", "zh", "今天去公园散步"),
    )
]


@pytest.fixture(scope="module")
def learned() -> LearnedDomains:
    return LearnedDomains(fit_domains(PROMPTS), {"legal en": 3})


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (ARRAYS_NAME, CARD_NAME):
        shutil.copy(SHIPPED / name, tmp_path)
    return tmp_path


def test_a_table_tells_what_it_was_taught(learned: LearnedDomains):
    assert [learned.table.domain_of(read(prompt.text)) for prompt in PROMPTS] == [
        prompt.domain for prompt in PROMPTS
    ]


def test_words_that_no_prompt_holds_are_known_by_words_like_them(learned: LearnedDomains):
    assert learned.table.domain_of(read("the attorney sued the tenant")) == "legal"


def test_a_text_without_known_terms_is_chat(learned: LearnedDomains):
    assert learned.table.domain_of(read("ЩЩЩ")) == "chat"


def test_saved_and_loaded_it_is_the_same_table(learned: LearnedDomains, tmp_path: Path):
    card = learned.save(tmp_path)
    loaded = load_domains(tmp_path)
    assert (loaded, list(loaded.terms)) == (learned.table, list(learned.table.terms))
    assert (card.terms, card.prompts) == (len(loaded.terms), {"legal en": 3})


def test_learning_twice_gives_the_same_bytes(learned: LearnedDomains):
    again = fit_domains(PROMPTS)
    assert (again.columns, again.biases) == (learned.table.columns, learned.table.biases)


def test_the_prompts_that_ship_are_of_known_domains():
    assert {prompt.domain for prompt in load_written_prompts()} == set(DOMAINS)


def test_damaged_arrays_are_refused(copy: Path):
    path = copy / ARRAYS_NAME
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileInvalid, match="damaged"):
        load_domains(copy)


def test_a_newer_format_is_refused(copy: Path):
    card = json.loads((copy / CARD_NAME).read_text())
    (copy / CARD_NAME).write_text(json.dumps(card | {"format": 9}))
    with pytest.raises(ModelFileInvalid, match="format 9"):
        load_domains(copy)


def test_a_missing_file_is_refused_by_name(copy: Path):
    (copy / ARRAYS_NAME).unlink()
    with pytest.raises(ModelFileInvalid, match=ARRAYS_NAME):
        load_domains(copy)
