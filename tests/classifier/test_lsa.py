"""The table of terms: rarity, topics, and the 64 numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.lsa import DIMENSIONS, UNKNOWN, Lsa, terms_of
from classifier.lsa_training import Corpus, fit_lsa
from classifier.model import Classifier
from classifier.reading import read

ANY_TEXT = st.text(st.characters(codec=None), max_size=200)
NUMBERS = "If a train leaves with 40 people and 7 get off, how many people are on the train?"
LAW = "根据我国法律，下列关于民事行为能力的说法正确的是哪一项？"


@pytest.fixture(scope="session")
def lsa(classifier: Classifier) -> Lsa:
    return classifier.lsa


def cosine(one: list[float], other: list[float]) -> float:
    def dot(left: list[float], right: list[float]) -> float:
        return sum(x * y for x, y in zip(left, right, strict=True))

    return dot(one, other) / (dot(one, one) * dot(other, other)) ** 0.5


def test_texts_about_one_thing_lie_closer_than_texts_about_two(lsa: Lsa):
    other = "There are 12 apples and 5 people; how many apples does each person get, and how many are left?"
    near = cosine(list(lsa.project(NUMBERS)), list(lsa.project(other)))
    far = cosine(list(lsa.project(NUMBERS)), list(lsa.project("Name the author of this famous novel.")))
    assert near > far


def test_the_terms_of_chinese_are_its_characters():
    assert terms_of(read("求和，abc")) == {"求", "和", "abc"}


@pytest.mark.parametrize("text", [NUMBERS, LAW, "", "!!!", "zzzqqq"])
def test_every_text_has_64_numbers_and_unknown_ones_zeros(lsa: Lsa, text: str):
    numbers = lsa.project(text)
    assert len(numbers) == DIMENSIONS
    assert any(numbers) == (text in {NUMBERS, LAW})


@given(ANY_TEXT)
def test_a_folded_model_says_what_the_model_says_of_the_numbers(lsa: Lsa, text: str):
    weights = [(at % 7) - 3.0 for at in range(DIMENSIONS)]
    reading = read(text + NUMBERS + LAW)
    said = sum(w * n for w, n in zip(weights, lsa.project(reading), strict=True))
    assert lsa.total(lsa.folded(weights), reading) == pytest.approx(said, abs=1e-9)


def test_unknown_words_are_rarer_than_known_ones(lsa: Lsa):
    common, _ = lsa.look_up(read("what is the time"))
    rare, _ = lsa.look_up(read("what is zzzqqq qqqzzz vvvkkk"))
    assert common < rare == UNKNOWN


def test_text_in_another_script_has_neither_a_high_nor_a_low_rarity(lsa: Lsa):
    assert lsa.look_up(read("法国的首都在哪里，ABC？"))[0] == lsa.neutral
    assert lsa.look_up(read(""))[0] == lsa.neutral


@given(ANY_TEXT, st.integers(1, 300))
def test_the_gain_of_the_topics_of_any_text_is_within_bounds(lsa: Lsa, text: str, times: int):
    rarity, topics = lsa.look_up(read(text * times))
    assert 0.0 <= rarity <= UNKNOWN + 1e-9
    assert abs(topics) < 20.0


def test_a_corpus_smaller_than_the_table_is_fitted():
    words = [frozenset({"one", "two", f"w{at % 3}"}) for at in range(12)]
    fitted = fit_lsa([Corpus(words, np.arange(12.0))])
    assert set(fitted.terms) == {"one", "two", "w0", "w1", "w2"}
    assert len(fitted.project("one two w1")) == DIMENSIONS
    assert fit_lsa([Corpus([frozenset()], np.zeros(1))]).terms == ()
