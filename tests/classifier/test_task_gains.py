"""Gains by task: what is expected of a task, and what can be added up elsewhere."""

import math

import numpy as np
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
    assert merged.squares == pytest.approx(together.squares)


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


def drawn(deviation: float, pairs: int, seed: int) -> TaskGains:
    """Pairs of twelve tasks whose true gains differ by `deviation`."""
    rng = np.random.default_rng(seed)
    true = 0.3 + deviation * rng.standard_normal(12)
    tasks = rng.integers(0, 12, pairs)
    gains = true[tasks] + 0.45 * rng.standard_normal(pairs)
    return TaskGains().added((f"task {task}", gain) for task, gain in zip(tasks, gains.tolist(), strict=True))


def test_tasks_that_differ_are_shrunk_by_the_variance_within_over_that_between():
    found = [drawn(0.2, 2000, seed).with_own_shrinkage().shrinkage for seed in range(30)]
    assert np.median(found) == pytest.approx(0.45**2 / 0.2**2, rel=0.35)


def test_tasks_that_differ_by_chance_only_hardly_move_anything():
    chance, own = (
        [drawn(0.0, 200, seed) for seed in range(100)],
        [drawn(0.0, 200, seed).with_own_shrinkage() for seed in range(100)],
    )

    def moved(all_gains: list[TaskGains]) -> float:
        return float(np.mean([abs(gains.effect(task)) for gains in all_gains for task in gains.tasks]))

    assert moved(own) < 0.2 * moved(chance)
    assert sum(gains.shrinkage == math.inf for gains in own) > 50


@given(PAIRS)
def test_whatever_the_pairs_there_is_a_shrinkage_and_effects_stay_in_bounds(pairs: Pairs):
    gains = TaskGains().added(pairs).with_own_shrinkage()
    assert gains.shrinkage >= task_gains.LEAST_SHRINKAGE
    assert all(-2.0 <= gains.effect(task) <= 2.0 for task in ["a", "new"])


def test_one_task_alone_says_nothing_of_how_far_tasks_differ():
    assert TaskGains().added([("a", 1.0)] * 50).with_own_shrinkage().effect("a") == 0.0
