"""Slots of a pool over several processes."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from backends.pools.slots import Bound, Lease, Slots
from policies.redis_client import connect

POOL = "flash/latency"


@pytest_asyncio.fixture
async def redis(redis_url: str) -> AsyncGenerator[Redis]:
    async with connect(redis_url) as client:
        await client.flushall()  # pyright: ignore[reportUnknownMemberType]
        yield client


def process(redis: Redis | None, name: str) -> Slots:
    return Slots(redis, process=name, monotonic=asyncio.get_running_loop().time)


async def test_all_processes_together_take_no_more_than_there_are(redis: Redis):
    many = [process(redis, f"p{number}") for number in range(4)]
    taken = await asyncio.gather(*(slots.take(POOL, Bound(5, 3)) for slots in many for _ in range(10)))
    assert sum(lease is not None for lease in taken) == 5


async def test_a_full_pool_is_full_for_all_until_it_has_emptied(redis: Redis):
    one, two = process(redis, "one"), process(redis, "two")
    bound = Bound(4, 2)
    leases = [lease for _ in range(4) if (lease := await one.take(POOL, bound)) is not None]
    assert await two.take(POOL, bound) is None
    await one.give_back(leases.pop())
    assert await two.take(POOL, bound) is None
    back = await two.take(POOL, bound, stays=True)
    assert back is not None
    await two.give_back(back)
    await one.give_back(leases.pop())
    assert await two.take(POOL, bound) is not None


async def test_what_a_dead_process_held_is_free_when_its_time_is_over(redis: Redis):
    dead, alive = process(redis, "dead"), process(redis, "alive")
    assert await dead.take(POOL, Bound(1, 1)) is not None
    assert await alive.take(POOL, Bound(1, 1)) is None
    key = "flashlane:slots:{flash/latency}"
    await redis.zadd(key, {"dead:0": 1.0})  # as if its lease had ended long ago
    assert await alive.take(POOL, Bound(1, 1)) is not None


async def test_redis_that_forgot_is_told_again(redis: Redis):
    slots = process(redis, "one")
    assert await slots.take(POOL, Bound(1, 1)) is not None
    await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
    await slots.renew()
    assert await process(redis, "two").take(POOL, Bound(1, 1)) is None


async def test_without_redis_a_process_counts_itself():
    slots = process(None, "one")
    leases = [await slots.take(POOL, Bound(2, 1)) for _ in range(3)]
    assert [lease is not None for lease in leases] == [True, True, False]
    assert slots.held(POOL) == 2
    for lease in leases:
        if lease is not None:
            await slots.give_back(lease)
    assert slots.held(POOL) == 0


async def test_while_redis_is_away_each_process_takes_its_part(redis: Redis):
    one, two = process(redis, "one"), process(redis, "two")
    await one.renew()
    await two.renew()
    await one.renew()
    await redis.aclose()
    async with connect("redis://127.0.0.1:1/0") as nobody:
        one._redis = nobody  # pyright: ignore[reportPrivateUsage] - as if the server had gone
        taken = [await one.take(POOL, Bound(8, 6)) for _ in range(8)]
    assert sum(lease is not None for lease in taken) == 4


async def test_a_slot_that_was_never_taken_can_be_given_back(redis: Redis):
    slots = process(redis, "one")
    await slots.give_back(Lease(POOL, "nobody:1"))
    assert slots.held(POOL) == 0
    assert await slots.take(POOL, Bound(1, 1)) is not None
    assert await slots.take(POOL, Bound(1, 1)) is None  # nor did it make room


async def test_a_request_that_leaves_while_it_asks_holds_nothing(redis: Redis):
    slots = process(redis, "one")
    asking = asyncio.ensure_future(slots.take(POOL, Bound(1, 1)))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert slots.held(POOL) == 0
    assert await process(redis, "two").take(POOL, Bound(1, 1)) is not None
