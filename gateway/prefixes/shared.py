"""How prefixes stand on replicas, kept in Redis: for other gateways, and for `flashlane prefix`.

A hash for each replica has a `Residency` for each prefix, and its counts of hits and misses. Whoever computes
prefixes on a replica holds its lock, and renews it while it does; it goes by itself with a process that dies.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

DEADLINE_SECONDS = 3.0
"""For one thing that is asked of Redis."""

LOCK_SECONDS = 15.0
"""After which the lock of a process that died is free; renewed three times in that time."""

KEPT_SECONDS = 7 * 24 * 3600
"""For which the state of a replica is kept that nobody looks at any longer."""

_REPLICAS = "flashlane:prefixes:replicas"
_ASK = "flashlane:prefixes:ask"
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"

AWAY = (RedisError, OSError)
"""What is raised when Redis is away, or too slow: a TimeoutError is an OSError."""


class Residency(msgspec.Struct, kw_only=True):
    """How a prefix stands on a replica.

    Attributes:
        identity: Of the rendered prompt; see `WarmUp`.
        tokens: Of the prompt that computes it: the prefix, and a turn of one character.
        cached: Of these, how many the engine had when it was last asked.
        expected: How many it had right after it had computed them; it keeps whole blocks.
        cold_seconds: What a first token took without it; None when that was never seen.
        warm_seconds: And with it.
        computed: How often it was computed.
        why: Why it was computed the last time: `start`, `restart`, `evicted`, `changed`, `asked` or `hot`.
        checked_at: When the engine was last asked, Unix seconds.
        asked: The last wish of `flashlane prefix warm` that was followed.
        note: What is wrong; "" when nothing is.
    """

    tenant: str
    prefix: str
    model: str
    replica: str
    identity: str = ""
    tokens: int = 0
    cached: int = 0
    expected: int = 0
    cold_seconds: float | None = None
    warm_seconds: float | None = None
    computed: int = 0
    why: str = ""
    checked_at: float = 0.0
    asked: str = ""
    note: str = ""

    @property
    def resident(self) -> bool:
        """Whether the engine has it, as far as it has said."""
        return self.has(self.cached)

    @property
    def gain_seconds(self) -> float | None:
        """How much sooner a first token comes with it; None when that is not known."""
        if self.cold_seconds is None or self.warm_seconds is None:
            return None
        return max(0.0, self.cold_seconds - self.warm_seconds)

    def has(self, cached: int) -> bool:
        """Tell whether an engine that had so many tokens of a prompt had the prefix, not just a part."""
        return self.expected > 0 and 2 * cached >= self.expected


class Ask(msgspec.Struct, frozen=True):
    """A wish to compute prefixes now.

    Attributes:
        id: Unique.
        tenant: Whose; "" for all.
        prefix: Which; "" for all.
    """

    id: str
    tenant: str = ""
    prefix: str = ""


class Row(msgspec.Struct, frozen=True):
    """A prefix on a replica, with what real requests made of it."""

    residency: Residency
    hits: int
    misses: int


def _state(replica: str) -> str:
    return f"flashlane:prefixes:state:{{{replica}}}"


def _field(tenant: str, prefix: str) -> str:
    return f"{tenant}/{prefix}"


class SharedPrefixes:
    """The part of Redis that is about prefixes. Everything raises one of `AWAY` within `DEADLINE_SECONDS`."""

    def __init__(self, redis: Redis, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self._redis: Any = redis
        self._lock_seconds = lock_seconds

    @asynccontextmanager
    async def turn(self, replica: str) -> AsyncGenerator[bool]:
        """Hold the lock of a replica. Without Redis everybody has it: better twice than never.

        Yields:
            Whether it is ours; nobody waits for it.
        """
        key, token = f"flashlane:prefixes:lock:{{{replica}}}", secrets.token_hex(8)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                ours = await self._redis.set(key, token, nx=True, px=self._lock_ms())
        except AWAY:
            yield True
            return
        if not ours:
            yield False
            return
        beat = asyncio.get_running_loop().create_task(self._renew(key, token))
        try:
            yield True
        finally:
            beat.cancel()
            await asyncio.wait([beat])
            with contextlib.suppress(*AWAY):
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await self._redis.eval(_RELEASE, 1, key, token)

    def _lock_ms(self) -> int:
        return int(self._lock_seconds * 1000)

    async def _renew(self, key: str, token: str) -> None:
        while True:
            await asyncio.sleep(self._lock_seconds / 3)
            with contextlib.suppress(*AWAY):
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await self._redis.eval(_RENEW, 1, key, token, str(self._lock_ms()))

    async def read(self, replica: str) -> dict[tuple[str, str], Row]:
        """Return what is known of a replica, by tenant and prefix."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            fields = cast("dict[bytes, bytes]", await self._redis.hgetall(_state(replica)))
        rows: dict[tuple[str, str], Row] = {}
        for name, value in fields.items():
            if name.startswith((b"hits:", b"misses:")):
                continue
            with contextlib.suppress(msgspec.DecodeError):  # of another version
                found = msgspec.json.decode(value, type=Residency)
                hits, misses = (int(fields.get(kind + name, b"0")) for kind in (b"hits:", b"misses:"))
                rows[found.tenant, found.prefix] = Row(found, hits, misses)
        return rows

    async def read_all(self) -> list[Row]:
        """Return what is known of all replicas, in order."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            replicas = cast("set[bytes]", await self._redis.smembers(_REPLICAS))
        rows = [row for name in sorted(replicas) for row in (await self.read(name.decode())).values()]
        return sorted(
            rows, key=lambda row: (row.residency.tenant, row.residency.prefix, row.residency.replica)
        )

    async def write(self, found: Residency) -> None:
        """Keep how a prefix stands."""
        key = _state(found.replica)
        async with asyncio.timeout(DEADLINE_SECONDS), self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hset(key, _field(found.tenant, found.prefix), msgspec.json.encode(found))
            pipeline.expire(key, KEPT_SECONDS)
            pipeline.sadd(_REPLICAS, found.replica)
            pipeline.expire(_REPLICAS, KEPT_SECONDS)
            await pipeline.execute()

    async def forget(self, replica: str, gone: Sequence[tuple[str, str]]) -> None:
        """Drop what is known of prefixes that are no longer registered."""
        names = [kind + _field(*each) for each in gone for kind in ("", "hits:", "misses:")]
        if names:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await self._redis.hdel(_state(replica), *names)

    async def count(self, replica: str, counts: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        """Add hits and misses, by tenant and prefix."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._redis.pipeline(transaction=False) as pipeline:
            for (tenant, prefix), (hits, misses) in counts.items():
                for kind, number in (("hits:", hits), ("misses:", misses)):
                    if number:
                        pipeline.hincrby(_state(replica), kind + _field(tenant, prefix), number)
            await pipeline.execute()

    async def now(self) -> float:
        """Return Redis's time, Unix seconds: the clocks of gateways differ."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            seconds, micros = await self._redis.time()
        return float(seconds) + float(micros) / 1e6

    async def ask(self, wish: Ask) -> None:
        """Leave a wish for the gateways; a later one takes its place."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._redis.set(_ASK, msgspec.json.encode(wish), ex=600)

    async def asked(self) -> Ask | None:
        """Return the last wish."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            value = cast("bytes | None", await self._redis.get(_ASK))
        try:
            return None if value is None else msgspec.json.decode(value, type=Ask)
        except msgspec.DecodeError:
            return None
