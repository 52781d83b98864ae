"""Gains by task: what is expected of a task, and what can be added up elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import task_gains
from classifier.task_gains import Tally, TaskGains

Pairs = list[tuple[str, float]]
PAIRS = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.floats(-1, 1)), max_size=30)


def test_a_gain_is_drawn_towards_the_mean_by_six_pairs():
    gains = TaskGains().added([("a", 1.0)] * 6 + [("b", 0.0)] * 6)
    assert gains.mean == pytest.approx(0.5)
    assert gains.gain("a") == pytest.approx((6 * 1.0 + 6 * 0.5) / 12)
    assert gains.effect("a") == pytest.approx(0.25)


def test_an_unknown_task_gets_the_mean_and_no_effect():
    gains = TaskGains().added([("a", 1.0), ("", 0.0)])
    assert gains.gain("new") == pytest.approx(0.5)
    assert gains.effect("new") == 0.0
    assert TaskGains().gain("new") == 0.0


@given(PAIRS, PAIRS)
def test_counters_add_up_in_whatever_parts_they_are_kept(one: Pairs, other: Pairs):
    together = TaskGains().added(one + other)
    merged = TaskGains().added(one).merged(TaskGains().added(other))
    assert set(merged.tasks) == set(together.tasks)
    for task in together.tasks:
        assert merged.gain(task) == pytest.approx(together.gain(task))


@given(PAIRS)
def test_an_expected_gain_lies_between_the_task_and_the_mean(pairs: Pairs):
    gains = TaskGains().added(pairs)
    for task, tally in gains.tasks.items():
        low, high = sorted((tally.total / tally.pairs, gains.mean))
        assert low - 1e-9 <= gains.gain(task) <= high + 1e-9


def test_the_tasks_with_the_fewest_pairs_are_dropped_and_still_count_to_the_mean(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(task_gains, "MAX_TASKS", 2)
    gains = TaskGains().added([("a", 1.0), ("a", 1.0), ("b", 0.0), ("b", 0.0), ("c", 1.0)])
    assert set(gains.tasks) == {"a", "b"}
    assert gains.everything == Tally(5.0, 3.0)
    assert gains.gain("c") == pytest.approx(gains.mean)
