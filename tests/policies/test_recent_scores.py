"""The cut by a tenant's own scores."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import RedisError

from policies.recent_scores import GAIN, SEED, SLACK, WINDOW, RecentScores, ScoreWindow
from policies.redis_client import connect

REFERENCE = [index / 1000 for index in range(1000)]


def feed(scores: RecentScores, score: float) -> None:
    """Take in a score, without a word on where its request went."""
    scores.add("acme", score, share=1.0, sent=True)


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


def send(scores: RecentScores, share: float, traffic: Iterable[float]) -> int:
    """Cut traffic as the gateway does; return how much of it went to standard."""
    count = 0
    for score in traffic:
        sent = score > scores.cut("acme", share)
        scores.add("acme", score, share=share, sent=sent)
        count += sent
    return count


def drifting(chance: random.Random, step: int) -> float:
    return chance.betavariate(2 + step / 1000, 9 - step / 1500)


TRAFFIC: dict[str, Callable[[random.Random, int], float]] = {
    "steady": lambda chance, _: chance.betavariate(2, 5),
    "a sudden change": lambda chance, step: chance.betavariate(2, 5 if step < 5000 else 9),
    "a slow drift": drifting,
    "a day and a night": lambda chance, step: chance.random() * (0.2 if step // 700 % 2 else 1.0),
    "ever harder": lambda _, step: step / 10_000,
    "ever easier": lambda _, step: 1 - step / 10_000,
    "one prompt for ever": lambda _, __: 0.5,
    "two prompts": lambda chance, _: chance.choice((0.2, 0.9)),
}


@pytest.mark.parametrize("share", [0.02, 0.1, 0.35, 0.8])
@pytest.mark.parametrize("kind", TRAFFIC)
def test_the_share_sent_is_within_a_point_over_ten_thousand_requests(kind: str, share: float):
    chance = random.Random(1)
    traffic = (TRAFFIC[kind](chance, step) for step in range(10_000))
    sent = send(RecentScores(REFERENCE, process="a"), share, traffic)
    assert sent / 10_000 == pytest.approx(share, abs=0.01)


@given(st.lists(st.floats(0, 1), max_size=400), st.floats(0, 1))
def test_whatever_comes_the_share_owed_is_bounded(traffic: list[float], share: float):
    sent = send(RecentScores(REFERENCE, process="a"), share, traffic)
    assert abs(sent - share * len(traffic)) <= SLACK + max(share, 1 - share) / GAIN + 1 + 1e-6


@pytest.mark.parametrize(("share", "all_sent"), [(0.0, 0), (1.0, 500)])
def test_none_and_all_are_what_they_say(share: float, all_sent: int):
    chance = random.Random(2)
    assert (
        send(RecentScores(REFERENCE, process="a"), share, (chance.random() for _ in range(500))) == all_sent
    )


def test_a_share_that_was_changed_holds_from_then_on():
    scores, chance = RecentScores(REFERENCE, process="a"), random.Random(3)
    send(scores, 0.9, [0.5] * 3000)
    sent = send(scores, 0.1, (chance.random() for _ in range(1000)))
    assert sent / 1000 == pytest.approx(0.1, abs=0.05)


def test_a_burst_of_hard_requests_hardly_moves_the_cut():
    scores, chance = RecentScores(REFERENCE, process="a"), random.Random(5)
    before = scores.cut("acme", 0.35)
    assert send(scores, 0.35, (chance.uniform(before + 0.03, 1.0) for _ in range(30))) == 30
    assert scores.cut("acme", 0.35) - before < 0.03


def test_within_the_share_the_hardest_go_to_standard():
    scores, chance = RecentScores(REFERENCE, process="a"), random.Random(4)
    send(scores, 0.35, (chance.random() for _ in range(3000)))
    above = send(scores, 0.35, (chance.uniform(0.85, 1.0) for _ in range(12)))
    below = send(scores, 0.35, (chance.uniform(0.0, 0.4) for _ in range(12)))
    assert (above, below) == (12, 0)


async def test_scores_of_another_kind_are_not_mixed_in(redis: Redis):
    old, new = (RecentScores(REFERENCE, process=name) for name in "ab")
    old.begin("acme", "prior-0:f+s")
    new.begin("acme", "prior-1:f+s")
    for _ in range(WINDOW):
        feed(old, 0.9)
    await old.exchange(redis, ["acme"])
    await new.exchange(redis, ["acme"])
    assert new.cut("acme", 0.35) == RecentScores(REFERENCE, process="c").cut("acme", 0.35)


def test_tenants_do_not_share_a_window():
    scores = RecentScores(REFERENCE, process="a")
    for _ in range(WINDOW):
        feed(scores, 0.0)
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
        feed(first, 0.9)
    for _ in range(3):
        await first.exchange(redis, ["acme"])
        await second.exchange(redis, ["acme"])
    assert second.cut("acme", 0.35) == pytest.approx(0.9)
    restarted = RecentScores(REFERENCE, process="c")
    await restarted.exchange(redis, ["acme"])
    assert restarted.cut("acme", 0.99) == pytest.approx(0.9)
    feed(second, 0.1)
    for _ in range(3):
        await second.exchange(redis, ["acme"])
        await first.exchange(redis, ["acme"])
    assert first.cut("acme", 1 - 1 / WINDOW) == pytest.approx(0.1)


async def test_scores_that_redis_did_not_take_are_sent_when_it_is_back(redis: Redis):
    first, second = RecentScores(REFERENCE, process="a"), RecentScores(REFERENCE, process="b")
    for _ in range(WINDOW):
        feed(first, 0.9)
    async with connect("redis://127.0.0.1:9/0") as away:
        with pytest.raises(RedisError):
            await first.exchange(away, ["acme"])
    await first.exchange(redis, ["acme"])
    await second.exchange(redis, ["acme"])
    assert second.cut("acme", 0.99) == pytest.approx(0.9)


def test_the_seed_is_a_fair_sample_at_any_point_of_its_leaving():
    scores = RecentScores(REFERENCE, process="a")
    for _ in range(WINDOW - SEED // 2):
        feed(scores, 0.0)
    # Half of the seed is left, a quarter of the window; its median is the reference's.
    assert scores.cut("acme", SEED / 4 / WINDOW) == pytest.approx(0.5, abs=0.08)


async def test_scores_that_were_asked_for_before_their_kind_changed_are_not_taken_in(redis: Redis):
    first, second = RecentScores(REFERENCE, process="a"), RecentScores(REFERENCE, process="b")
    for scores in (first, second):
        scores.begin("acme", "old")
    for _ in range(WINDOW):
        feed(first, 0.9)
    await first.exchange(redis, ["acme"])

    async def change() -> None:
        second.begin("acme", "new")

    await asyncio.gather(second.exchange(redis, ["acme"]), change())
    assert second.cut("acme", 0.35) == RecentScores(REFERENCE, process="c").cut("acme", 0.35)


def test_a_kind_that_is_told_again_forgets_nothing():
    scores = RecentScores(REFERENCE, process="a")
    scores.begin("acme", "old")
    for _ in range(WINDOW):
        feed(scores, 0.9)
    scores.begin("acme", "old")
    assert scores.cut("acme", 0.35) == 0.9


def test_scores_that_another_cut_decided_owe_the_share_nothing():
    scores = RecentScores([0.5] * 1000, process="a")
    for _ in range(WINDOW):
        scores.see("acme", 0.5)
    assert scores.cut("acme", 0.35) == 0.5
