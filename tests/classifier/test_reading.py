"""What is read of a conversation, and how much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.features import FEATURE_NAMES, extract
from classifier.model import Classifier
from classifier.reading import MAX_CHARS, bounded, read, read_task
from classifier.types import Conversation, Turn

ANY_TEXT = st.text(st.characters(codec=None), max_size=300)  # lone surrogates included


@given(st.integers(0, 40 * MAX_CHARS))
def test_no_text_is_looked_at_beyond_the_bound(length: int):
    assert len(bounded("x" * length)) == min(length, len(bounded("x" * length)), MAX_CHARS)


def test_head_samples_of_the_middle_and_tail_of_a_long_text_are_read():
    text = "a" * 50_000 + "m" * 100_000 + "z" * 50_000
    view = bounded(text)
    assert view.startswith("a" * 100)
    assert "m" * 100 in view
    assert view.endswith("z" * 100)


def test_ten_megabytes_are_read_as_little_as_ten_kilobytes():
    huge = read("Prove that it is so. " * 500_000)
    large = read("Prove that it is so. " * 500)
    assert len(huge.text) <= MAX_CHARS
    assert len(huge.words) <= 1.1 * len(large.words)


def test_a_long_history_costs_no_more_than_its_last_turns():
    turns = [Turn("user", "x" * 1_000_000), Turn("assistant", "y"), Turn("user", "and now?")]
    assert len(read_task(turns).text) <= MAX_CHARS


@given(ANY_TEXT, st.integers(1, 400))
def test_every_text_has_finite_features(text: str, times: int):
    features = extract(read(text * times))
    assert tuple(features) == FEATURE_NAMES
    assert all(abs(value) < 1e6 for value in features.values())


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool", ""]), ANY_TEXT), max_size=5))
def test_every_conversation_can_be_read(turns: list[tuple[str, str]]):
    reading = read_task([Turn(role, text) for role, text in turns])
    assert len(reading.text) <= MAX_CHARS


def test_options_are_not_part_of_the_stem():
    reading = read("Which gas do plants take in?\nA. Oxygen\nB. Carbon dioxide\nC. Helium")
    assert reading.options
    assert reading.stem == "Which gas do plants take in?"


def test_chinese_options_on_one_line_are_not_part_of_the_stem():
    reading = read("下列哪一项是正确的?A:甲有权起诉;B:甲无权起诉;C:以上都不对。")
    assert reading.options
    assert "起诉" not in reading.stem


def test_chinese_is_measured_by_characters_and_english_by_words():
    assert read("one two three four").units == 4
    assert 3 <= read("法国的首都").units <= 4


def test_the_last_user_turn_is_read_even_when_a_tool_answered_after_it():
    reading = read_task([Turn("user", "Prove the lemma about trees in full."), Turn("tool", "42")])
    assert reading.text == "Prove the lemma about trees in full."


def test_stuffing_a_prompt_with_a_cue_gains_no_more_than_a_few_of_it():
    few, many = (extract(read("prove " * times)) for times in (4, 400))
    assert few["prove"] == many["prove"]


@pytest.mark.parametrize("filler", ["word ", "hello, ", "x ", "ok ok go ", "Guten Tag "])
def test_filler_counts_as_little_as_it_says(filler: str):
    score = Classifier.load().estimate(Conversation(turns=[Turn("user", filler * 300)])).score
    assert score < Classifier.load().reference_cut(0.35)


def test_prose_that_repeats_itself_as_prose_does_is_read_whole():
    pairs = [(kind, part) for kind in ("size", "age", "price", "weight") for part in ("roof", "wall", "door")]
    text = " ".join(f"The {kind} of the {part} is larger than that of the rest." for kind, part in pairs)
    assert read(text).stem == text
