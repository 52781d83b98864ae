"""docs/glossary.md can be looked things up in."""

import re
from pathlib import Path

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text("utf-8")
WORDS = re.findall(r"^\*\*(.+?)\*\*", GLOSSARY, re.MULTILINE)


def test_words_are_in_order_and_stand_once():
    folded = [word.casefold().replace("_", " ") for word in WORDS]
    assert folded == sorted(set(folded))


def test_the_words_of_the_design_are_defined():
    needed = (
        "group, block, prefix hit, replica, pool, effort, TTFT, ITL, reserve, settle, score, p_flash_ok, "
        "task, pair, quality loss, escalation, shadow, peek, salt"
    )
    assert set(needed.split(", ")) - set(WORDS) == set()


def test_a_word_that_is_pointed_to_is_defined():
    pointed = re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", GLOSSARY)
    assert pointed
    assert set(pointed) - set(WORDS) == set()
