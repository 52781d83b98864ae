"""Which turns belong to the task before them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.follow_ups import ends_the_task, points_back
from classifier.reading import LOOK_BACK, read, read_task
from classifier.types import Turn

TASK = (
    "Derive the recurrence, prove the bound and implement the algorithm in C for inputs of any size at all."
)


def talk(*texts: str) -> list[Turn]:
    roles = ("user", "assistant") * len(texts)
    return [Turn(role, text) for role, text in zip(roles, texts, strict=False)]


@pytest.mark.parametrize(
    "text", ["thanks!", "Thank you so much", "great, thanks", "谢谢你", "ありがとうございます", "gracias"]
)
def test_thanks_end_a_task(text: str):
    reading = read(text)
    assert ends_the_task(reading.words, reading.text)


@pytest.mark.parametrize(
    "text", ["ok", "yes", "great, go on", "ok and the proof?", "好的，继续", "thanks, now in Rust"]
)
def test_a_nod_or_an_order_ends_none(text: str):
    reading = read(text)
    assert not ends_the_task(reading.words, reading.text)


@pytest.mark.parametrize(
    "text", ["and the proof?", "fix it", "now for n", "继续", "换成归纳法", "続けて", "продолжай"]
)
def test_a_turn_that_leans_on_the_one_before_points_back(text: str):
    reading = read(text)
    assert points_back(reading.words, reading.text, reading.units)


@pytest.mark.parametrize(
    "text", ["What is the capital of France?", "unrelated: is it raining in Rome today?"]
)
def test_a_question_that_stands_for_itself_does_not(text: str):
    reading = read(text)
    assert not points_back(reading.words, reading.text, reading.units)


def test_a_task_is_found_behind_as_many_follow_ups_as_are_looked_at():
    follow_ups = [text for _ in range(LOOK_BACK - 1) for text in ("Done.", "and now the next one")]
    assert TASK in read_task(talk(TASK, *follow_ups)).text


def test_a_task_is_found_behind_thanks():
    assert TASK in read_task(talk(TASK, "Done.", "thanks!", "Welcome.", "and the other case?")).text


def test_easy_turns_between_do_not_add_up():
    many = [text for n in range(9) for text in ("It is.", f"and what is {n} then?")]
    assert len(read_task(talk(TASK, *many)).words) < len(TASK.split()) + 12


def test_the_output_of_a_tool_sent_as_a_turn_of_the_user_is_no_task():
    assert read_task(talk(TASK, "I run it.", "[run for 'ls'] Result:\na.py")).text == TASK


@given(st.lists(st.text(max_size=40), max_size=8))
def test_any_talk_can_be_read(texts: list[str]):
    assert read_task(talk(*texts)).units >= 0
