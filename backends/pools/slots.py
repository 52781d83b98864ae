"""How many requests are in a pool, counted over all gateway processes, and whether one more may come in.

Looking first and sending then would let a burst through: whoever looks together sees the same free slot. So
taking a slot is one step, in Redis (Lua) for all processes, or in this process alone where Redis is away.

A slot is held by a lease that its process renews. A process that dies renews nothing, and what it held is
free again after `LEASE_SECONDS`; Redis that forgets gets the leases again with the next renewal.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Final, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0
REST_SECONDS: Final = 5.0
"""For how long Redis is not asked again after it failed: a request must not wait for it each time."""

ASK_SECONDS: Final = 1.0
"""For how long Redis is waited for; a frozen one counts as away."""

_KEY: Final = "flashlane:slots:{%s}"
_PROCESSES: Final = "flashlane:slots:processes"

# KEYS: leases (sorted set: lease -> end), full (a flag). ARGV: lease, high, low, seconds, whether it stays.
_TAKE: Final = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local held = redis.call('ZCARD', KEYS[1])
local high, low, seconds = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local life = math.ceil(seconds * 2)
if held >= high then
  if low < high then redis.call('SET', KEYS[2], 1, 'EX', life) end
  return {0, held}
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  if held > low then
    redis.call('EXPIRE', KEYS[2], life)
    if ARGV[5] == '0' then return {0, held} end
  else
    redis.call('DEL', KEYS[2])
  end
end
redis.call('ZADD', KEYS[1], now + seconds, ARGV[1])
redis.call('EXPIRE', KEYS[1], life)
return {1, held + 1}
"""

# KEYS: leases. ARGV: seconds, leases.
_RENEW: Final = """
local now = redis.call('TIME')
local ends = now[1] + now[2] / 1000000 + tonumber(ARGV[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
redis.call('EXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1]) * 2))
return #ARGV - 1
"""

# KEYS: processes (sorted set: process -> end). ARGV: process, seconds. Returns how many there are.
_HERE: Final = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return redis.call('ZCARD', KEYS[1])
"""


class Bound(msgspec.Struct, frozen=True):
    """How many may be in a pool.

    Attributes:
        high: At most so many.
        low: Once it was full, newcomers wait until no more than so many are left; `high` for no such rest.
    """

    high: int
    low: int


def admits(bound: Bound, held: int, *, full: bool, stays: bool) -> tuple[bool, bool]:
    """Tell whether one more may come into a pool, and whether the pool counts as full from now on.

    The same as `_TAKE` does in Redis.

    Args:
        bound: Of the pool.
        held: Slots taken now.
        full: Whether it was full, and has not emptied to `low` since.
        stays: Whether it is one that was there before: it takes a free slot even then.
    """
    if held >= bound.high:
        return False, full or bound.low < bound.high
    full = full and held > bound.low
    return (stays or not full), full


class Lease(msgspec.Struct, frozen=True):
    """A slot that is taken, to be handed to `Slots.give_back` once."""

    pool: str
    name: str


class Slots:
    """The slots of all pools.

    Attributes:
        held: Slots taken by this process, by pool.
    """

    def __init__(self, redis: Redis | None, *, process: str, monotonic: Callable[[], float]) -> None:
        """Count with others in `redis`; None for a process that is alone.

        Args:
            redis: Whose calls have deadlines.
            process: A name that no other process has.
            monotonic: Seconds.
        """
        self._redis = redis
        self._process = process
        self._monotonic = monotonic
        self._numbers = itertools.count()
        self._leases: dict[str, set[str]] = {}
        self._full: dict[str, bool] = {}
        self._processes = 1
        self._rests_until = float("-inf")

    def held(self, pool: str) -> int:
        """Return how many slots of a pool this process has taken."""
        return len(self._leases.get(pool, ()))

    async def take(self, pool: str, bound: Bound, *, stays: bool = False) -> Lease | None:
        """Take a slot of a pool at once; None when there is none.

        While Redis is away each process takes its part of `bound`, by how many there were when it was seen.

        Args:
            pool: "model/pool".
            bound: As this process sees it.
            stays: Whether it is one that was there before; see `admits`.
        """
        name = f"{self._process}:{next(self._numbers)}"
        leases = self._leases.setdefault(pool, set())
        leases.add(name)  # first: whoever else asks meanwhile must count it
        try:
            taken = await self._take(pool, name, bound, stays=stays)
        except BaseException:
            leases.discard(name)
            await self._drop(pool, name)
            raise
        if not taken:
            leases.discard(name)
            return None
        return Lease(pool, name)

    async def give_back(self, lease: Lease) -> None:
        """Free a slot; one whose end does not reach Redis is free there when its time is over."""
        self._leases.get(lease.pool, set[str]()).discard(lease.name)
        await self._drop(lease.pool, lease.name)

    async def renew(self) -> None:
        """Hold what is held for another `LEASE_SECONDS`, and look how many processes there are."""
        there = await self._ask(_HERE, [_PROCESSES], [self._process, LEASE_SECONDS])
        if there is None:
            return
        self._processes = max(1, cast("int", there))
        for pool, leases in self._leases.items():
            if leases:
                await self._ask(_RENEW, [_KEY % pool], [LEASE_SECONDS, *leases])

    async def keep_renewing(self) -> None:
        """Renew for ever."""
        while True:
            await self.renew()
            await asyncio.sleep(RENEW_SECONDS)

    async def _take(self, pool: str, name: str, bound: Bound, *, stays: bool) -> bool:
        keys = [_KEY % pool, f"{_KEY % pool}:full"]
        answer = await self._ask(_TAKE, keys, [name, bound.high, bound.low, LEASE_SECONDS, int(stays)])
        if answer is not None:
            return cast("list[int]", answer)[0] == 1
        others = self.held(pool) - 1
        part = Bound(max(1, bound.high // self._processes), max(1, bound.low // self._processes))
        admitted, self._full[pool] = admits(part, others, full=self._full.get(pool, False), stays=stays)
        return admitted

    async def _drop(self, pool: str, name: str) -> None:
        if self._redis is None or not self._reachable:
            return
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await self._redis.zrem(_KEY % pool, name)
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)

    async def _ask(self, script: str, keys: list[str], values: list[str | int | float]) -> object | None:
        """Return what a script says; None where Redis is away."""
        redis, task = self._redis, asyncio.current_task()
        if redis is None or not self._reachable:
            return None
        try:
            async with asyncio.timeout(ASK_SECONDS):
                answer = cast("object", await redis.eval(script, len(keys), *keys, *values))  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return None
        if task is not None and task.cancelling():
            raise asyncio.CancelledError  # redis-py swallows one that comes while it connects
        return answer

    @property
    def _reachable(self) -> bool:
        return self._monotonic() >= self._rests_until

    def _failed(self, error: Exception) -> None:
        self._rests_until = self._monotonic() + REST_SECONDS
        reason = str(error) or type(error).__name__
        log.warning("Slots of pools are counted in this process alone for %g s: %s", REST_SECONDS, reason)
