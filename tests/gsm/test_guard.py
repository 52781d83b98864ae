"""LRU counted beside an order: what it would have hit, and when departing from it is paused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.guard import LruGuard
from backends.gsm.simulation import chains_of, simulate
from backends.gsm.traces import TracedRequest
from bench.gsm_order import stack_distances
from tests.gsm.patterns import PATTERNS, Pattern

MARGIN = 0.01
"""Of all groups; what departing from LRU may cost before it is seen to cost."""


def request(groups: list[int]) -> TracedRequest:
    return TracedRequest(0.0, 512 * len(groups), 1, tuple(groups))


IDS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=60)


@given(IDS, st.integers(5, 20))
def test_distances_tell_what_lru_hits_with_any_room(requests: list[list[int]], room: int) -> None:
    trace = [request(groups) for groups in requests]
    near = sum(distance <= room for distance in stack_distances(chains_of(trace)))
    assert near == simulate(trace, capacity=room, policy="lru").hits


@given(IDS, st.integers(5, 20))
def test_it_counts_what_lru_would_have_hit(requests: list[list[int]], room: int) -> None:
    guard, told = LruGuard[int](room), 0
    trace = [request(groups) for groups in requests]
    for chain in chains_of(trace):
        before = guard.lead
        guard.count(list(reversed(chain)), 0)
        told += before - guard.lead
        assert len(guard) <= room
    assert told == simulate(trace, capacity=room, policy="lru").hits


def lose(guard: LruGuard[str], requests: int) -> int:
    """Have LRU hit two groups in each request, and the order none; return after how many it is paused."""
    for number in range(requests):
        guard.count(["b", "a"], 0)
        if not guard.departs:
            return number
    return requests


def test_departing_is_paused_after_about_five_requests_that_lost_and_each_time_for_longer() -> None:
    guard = LruGuard[str](100)
    assert 4 <= lose(guard, 100) <= 6
    pauses: list[int] = []
    for _ in range(7):
        asked = 0
        while not guard.departs:
            guard.count(["b", "a"], 2)
            asked += 2
        pauses.append(asked)
        assert 4 <= lose(guard, 100) <= 6
    assert pauses == [400, 800, 1600, 3200, 3200, 3200, 3200]


def test_an_attempt_that_gained_is_followed_by_a_short_pause() -> None:
    guard = LruGuard[str](100)
    lose(guard, 100)
    while not guard.departs:
        guard.count(["b", "a"], 2)
    for number in range(50):
        guard.count([str(number)], 1)  # a hit that LRU has not
    lose(guard, 100)
    asked = 0
    while not guard.departs:
        guard.count(["b", "a"], 2)
        asked += 2
    assert asked == 2 * 100


def test_a_room_of_few_requests_does_not_make_pauses_of_few_requests() -> None:
    guard = LruGuard[str](2)
    lose(guard, 100)
    requests = 0
    while not guard.departs:
        guard.count(["b", "a"], 2)
        requests += 1
    assert requests == 4 * 32


def test_gains_and_losses_that_cancel_out_do_not_pause_it() -> None:
    guard = LruGuard[str](100)
    for number in range(300):
        guard.count(["b", "a"], 0 if number % 2 else 4)
        assert guard.departs


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__)
@pytest.mark.parametrize("room", [60, 400, 1500])
def test_whatever_comes_it_is_never_below_lru_by_more_than_a_point(pattern: Pattern, room: int) -> None:
    trace = pattern(room)
    gsm = simulate(trace, capacity=room, policy="gsm")
    lru = simulate(trace, capacity=room, policy="lru")
    assert gsm.hit_rate >= lru.hit_rate - MARGIN
