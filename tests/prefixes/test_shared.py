"""What gateways share about prefixes, in a real Valkey."""

from typing import Any

from gateway.prefixes.shared import Ask, Residency, SharedPrefixes
from policies.redis_client import connect
from tests.support.waiting import until

REPLICA = "flash/main/7"
KEY = f"flashlane:prefixes:lock:{{{REPLICA}}}"


async def test_a_replica_is_one_processs_at_a_time_which_renews_its_lock(redis_url: str):
    async with connect(redis_url) as redis, connect(redis_url) as other:
        shared, second = SharedPrefixes(redis, lock_seconds=0.9), SharedPrefixes(other)
        async with shared.turn(REPLICA) as ours, second.turn(REPLICA) as theirs:
            assert (ours, theirs) == (True, False)
            lowest = [1_000]

            async def renewed() -> bool:
                left = int(await redis.pttl(KEY))
                lowest[0] = min(lowest[0], left)
                return left > lowest[0] + 100

            await until(renewed, "the lock to be renewed")
        async with second.turn(REPLICA) as theirs:
            assert theirs


async def test_the_lock_of_a_process_that_died_goes_by_itself(redis_url: str):
    async with connect(redis_url) as redis:
        await redis.set(KEY, "of a process that died", px=400)
        shared = SharedPrefixes(redis)

        async def free() -> bool:
            async with shared.turn(REPLICA) as ours:
                return ours

        assert not await free()
        await until(free, "the lock to be free")


async def test_nobody_lets_go_of_anothers_lock(redis_url: str):
    async with connect(redis_url) as redis:
        async with SharedPrefixes(redis).turn(REPLICA) as ours:
            assert ours
            await redis.set(KEY, "of another, as ours was lost", px=5_000)
        assert await redis.get(KEY) == b"of another, as ours was lost"
        await redis.delete(KEY)


async def test_how_prefixes_stand_is_kept_counted_and_forgotten(redis_url: str):
    async with connect(redis_url) as redis:
        shared, raw = SharedPrefixes(redis), redis
        found = Residency(
            tenant="acme", prefix="support", model="flash", replica=REPLICA, tokens=9, expected=8
        )
        await shared.write(found)
        await shared.count(REPLICA, {("acme", "support"): (2, 1)})
        await shared.count(REPLICA, {("acme", "support"): (1, 0)})
        untyped: Any = raw
        await untyped.hset(f"flashlane:prefixes:state:{{{REPLICA}}}", "acme/odd", "no JSON")
        row = (await shared.read(REPLICA))["acme", "support"]
        assert (row.residency, row.hits, row.misses) == (found, 3, 1)
        assert [r.residency.replica for r in await shared.read_all()].count(REPLICA) == 1
        await shared.forget(REPLICA, [("acme", "support")])
        assert await shared.read(REPLICA) == {}
        await shared.ask(Ask("1", tenant="acme"))
        assert await shared.asked() == Ask("1", tenant="acme")
