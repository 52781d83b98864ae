"""The cut by a tenant's own scores."""

import random
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import RedisError

from policies.recent_scores import SEED, WINDOW, RecentScores, ScoreWindow
from policies.redis_client import connect

REFERENCE = [index / 1000 for index in range(1000)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.floats(0.01, 1))
def test_at_most_the_share_lies_above_the_cut(scores: list[float], share: float):
    window = ScoreWindow(scores)
    above = sum(score > window.cut(share) for score in scores)
    assert above <= share * len(scores)


@given(st.lists(st.floats(0, 1), max_size=2 * WINDOW + 10))
def test_the_window_holds_the_last_scores_in_order(scores: list[float]):
    window = ScoreWindow([0.5])
    for score in scores:
        window.add(score)
    last = sorted([0.5, *scores][-WINDOW:])
    assert window.cut(0.0001) == last[-1]
    assert [window.cut(0.0), window.cut(1.0)] == [1.0, -1.0]


def test_a_new_tenant_is_cut_by_the_reference():
    scores = RecentScores(REFERENCE, process="a")
    assert scores.cut("acme", 0.35) == pytest.approx(0.65, abs=0.01)


@pytest.mark.parametrize("share", [0.1, 0.35, 0.8])
def test_the_share_is_kept_when_traffic_is_nothing_like_the_reference(share: float):
    scores, chance = RecentScores(REFERENCE, process="a"), random.Random(1)
    sent = 0
    for step in range(10_000):
        score = chance.betavariate(2, 5 if step < 5000 else 9)
        sent += score > scores.cut("acme", share)
        scores.add("acme", score)
    assert sent / 10_000 == pytest.approx(share, abs=0.03)


def test_tenants_do_not_share_a_window():
    scores = RecentScores(REFERENCE, process="a")
    for _ in range(WINDOW):
        scores.add("acme", 0.0)
    assert scores.cut("acme", 0.35) == 0.0
    assert scores.cut("umbrella", 0.35) > 0.5


@pytest_asyncio.fixture
async def redis(redis_url: str) -> AsyncGenerator[Redis]:
    """An empty Redis."""
    async with connect(redis_url) as client:
        await client.flushall()  # pyright: ignore[reportUnknownMemberType]
        yield client


async def test_processes_see_each_others_scores_once_and_a_restart_remembers(redis: Redis):
    first, second = RecentScores(REFERENCE, process="a"), RecentScores(REFERENCE, process="b")
    for _ in range(WINDOW):
        first.add("acme", 0.9)
    for _ in range(3):
        await first.exchange(redis, ["acme"])
        await second.exchange(redis, ["acme"])
    assert second.cut("acme", 0.35) == pytest.approx(0.9)
    restarted = RecentScores(REFERENCE, process="c")
    await restarted.exchange(redis, ["acme"])
    assert restarted.cut("acme", 0.99) == pytest.approx(0.9)
    second.add("acme", 0.1)
    for _ in range(3):
        await second.exchange(redis, ["acme"])
        await first.exchange(redis, ["acme"])
    assert first.cut("acme", 1 - 1 / WINDOW) == pytest.approx(0.1)


async def test_scores_that_redis_did_not_take_are_sent_when_it_is_back(redis: Redis):
    first, second = RecentScores(REFERENCE, process="a"), RecentScores(REFERENCE, process="b")
    for _ in range(WINDOW):
        first.add("acme", 0.9)
    async with connect("redis://127.0.0.1:9/0") as away:
        with pytest.raises(RedisError):
            await first.exchange(away, ["acme"])
    await first.exchange(redis, ["acme"])
    await second.exchange(redis, ["acme"])
    assert second.cut("acme", 0.99) == pytest.approx(0.9)


def test_the_seed_is_a_fair_sample_at_any_point_of_its_leaving():
    scores = RecentScores(REFERENCE, process="a")
    for _ in range(WINDOW - SEED // 2):
        scores.add("acme", 0.0)
    # Half of the seed is left, a quarter of the window; its median is the reference's.
    assert scores.cut("acme", SEED / 4 / WINDOW) == pytest.approx(0.5, abs=0.08)
