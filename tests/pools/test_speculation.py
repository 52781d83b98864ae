"""Up to how many requests speculation pays."""

import random
from itertools import pairwise

import pytest

from backends.pools.slots import Bound, admits
from backends.pools.speculation import (
    FIRST_REST,
    MIN_TOKENS_A_STEP,
    STEP_SECONDS,
    Pace,
    Speculation,
    low_water,
    next_threshold,
)


def pace(at_one: float, more: float, loads: list[float]) -> Pace:
    """Return the pace of a pool whose seconds a token grow by `more` with each request beside."""
    found = Pace()
    for _ in range(20):
        for load in loads:
            found.saw(load, at_one + more * (load - 1))
    return found


def test_a_pace_is_a_line_through_what_was_seen():
    assert pace(0.010, 0.002, [1, 2, 4]).at(8) == pytest.approx(0.024)


def test_a_pace_that_falls_with_load_is_taken_for_noise():
    assert pace(0.010, -0.001, [1, 2, 4]).at(8) == pytest.approx(0.010 - 0.001 * (7 / 3 - 1), rel=0.05)


def test_the_threshold_ends_where_both_pools_are_as_fast():
    latency, throughput = pace(0.010, 0.005, [1, 2, 4, 8]), pace(0.030, 0.0, [6])
    threshold = 8
    for _ in range(8):
        threshold = next_threshold(threshold, 8, latency, throughput)
    assert threshold in {5, 6}  # 10 ms + 5 ms a request beside reaches 30 ms at five
    assert next_threshold(threshold, 8, latency, throughput) == threshold


def test_the_threshold_grows_again_when_the_other_pool_gets_slow():
    latency, throughput = pace(0.010, 0.005, [1, 2, 4, 8]), pace(0.060, 0.0, [20])
    assert next_threshold(3, 8, latency, throughput) == 4
    assert next_threshold(8, 8, latency, throughput) == 8


def test_nothing_is_learned_from_one_pool_alone():
    assert next_threshold(8, 8, pace(0.5, 0.1, [1, 8]), Pace()) == 8


def test_one_chat_at_least_keeps_measuring():
    threshold = 8
    for _ in range(20):
        threshold = next_threshold(threshold, 8, pace(0.5, 0.1, [1, 8]), pace(0.01, 0.0, [1]))
    assert threshold == 1


def test_the_threshold_rests_under_noise():
    """Measured paces that differ by a tenth from one answer to the next do not make it walk."""
    chance, now = random.Random(7), 0.0
    speculation = Speculation(most=16)
    seen: list[int] = []
    for _ in range(4000):
        load = chance.randint(1, speculation.threshold)
        now += STEP_SECONDS / 4
        noise = chance.uniform(0.9, 1.1)
        speculation.saw(now, in_latency=True, load=load, seconds=(0.010 + 0.002 * (load - 1)) * noise)
        speculation.saw(now, in_latency=False, load=20, seconds=0.026 * chance.uniform(0.9, 1.1))
        seen.append(speculation.threshold)
    settled = seen[1000:]
    assert max(settled) - min(settled) <= 3
    assert sum(a != b for a, b in pairwise(settled)) < len(settled) / 100


@pytest.mark.parametrize(("high", "low"), [(1, 1), (2, 1), (4, 2), (8, 6), (16, 12)])
def test_a_full_pool_empties_before_it_takes_newcomers(high: int, low: int):
    assert low_water(high) == low


def flips(low: int, high: int) -> int:
    """Count how often a pool fills or opens again while single requests come and go around its bound."""
    bound, held, full, count = Bound(high, low), 0, False, 0
    for step in range(600):
        if step % 2:
            held -= held > 0
        else:
            for _ in range(2):
                before = full
                admitted, full = admits(bound, held, full=full, stays=False)
                held += admitted
                count += before != full
    return count


def test_a_load_that_swings_around_the_bound_does_not_make_the_pool_flap():
    assert flips(low_water(8), 8) < flips(7, 8) / 2


@pytest.mark.parametrize(
    ("held", "full", "stays", "expected"),
    [
        (3, False, False, (True, False)),
        (4, False, False, (False, True)),
        (3, True, False, (False, True)),
        (3, True, True, (True, True)),
        (4, True, True, (False, True)),
        (2, True, False, (True, False)),
    ],
)
def test_who_is_let_in(held: int, full: bool, stays: bool, expected: tuple[bool, bool]):
    assert admits(Bound(4, 2), held, full=full, stays=stays) == expected


def test_a_pool_whose_drafts_are_rejected_rests_ever_longer():
    speculation, bad = Speculation(most=8), MIN_TOKENS_A_STEP - 0.1
    assert speculation.judge(0.0, bad)
    assert speculation.rejected(FIRST_REST - 1.0)
    assert not speculation.judge(FIRST_REST - 1.0, bad)
    assert not speculation.rejected(FIRST_REST)
    assert speculation.judge(FIRST_REST, bad)
    assert speculation.rejected(2.9 * FIRST_REST)


def test_drafts_that_do_well_end_the_long_rests():
    speculation = Speculation(most=8)
    assert speculation.judge(0.0, 1.0)
    assert not speculation.judge(FIRST_REST, 3.5)
    assert speculation.judge(FIRST_REST + 1.0, 1.0)
    assert not speculation.rejected(2 * FIRST_REST + 1.0)


def test_nothing_is_judged_without_drafts():
    assert not Speculation(most=8).judge(0.0, None)
