"""The tenant's own recent scores, and the cut that sends a stated share of them to standard.

Each process keeps a window a tenant and decides from it without asking anybody. Behind its back the
windows are shared through a Redis stream, so that many processes see one traffic and a restart
does not forget it.

A quantile of the past is wrong about a future that drifts, and about scores with many ties. So the level
of the quantile follows what is owed: by how many requests fewer than the share went to standard, once
that is more than chance and a burst of hard requests explain. It is adaptive conformal inference (Gibbs
and Candes 2021, "Adaptive Conformal Inference Under Distribution Shift", arXiv:2106.00170) with a dead
band, and holds for any sequence of scores as its proposition 4.1 does:

    level = share + GAIN (owed - SLACK) for owed > SLACK, share + GAIN (owed + SLACK) for owed < -SLACK,
    else share;  after T requests |owed| <= SLACK + max(share, 1 - share) / GAIN + 1

Proof: with more owed the level is above 1 and all are sent, with less it is below 0 and none are, so that
owed falls or rises; and one request changes it by less than 1. At T = 10,000 that is under one point.
"""

import asyncio
import logging
import random
import struct
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

WINDOW = 1000
"""Scores kept a tenant: the cut of a 35% share then has a standard error of 1.5 points."""

SEED = WINDOW
"""How many scores of the shipped reference distribution stand in until real ones push them out."""

SLACK = 20.0
"""Requests that may be owed, either way, before the cut moves: some thirty hard ones in a row at a third."""

GAIN = 0.015
"""How much a request that is owed beyond that moves the level of the cut."""

ENTRIES_A_READ = 100
"""Most entries of the stream that are read at once; an entry holds a second's scores of one process."""


class ScoreWindow:
    """The last `WINDOW` scores of a tenant, seeded with a reference distribution."""

    def __init__(self, seed: Sequence[float]) -> None:
        self._order = deque(seed, maxlen=WINDOW)
        self._sorted = sorted(self._order)

    def add(self, score: float) -> None:
        """Take in a score; the oldest one leaves when the window is full."""
        if len(self._order) == WINDOW:
            del self._sorted[bisect_left(self._sorted, self._order[0])]
        self._order.append(score)
        insort(self._sorted, score)

    def cut(self, share: float) -> float:
        """Return the score that `share` of the window lies above.

        Returns:
            A score; 1.0 for a share of 0 (nothing is above it), -1.0 for a share of 1 (all is).
        """
        if share <= 0.0:
            return 1.0
        count = len(self._sorted)
        index = count - int(share * count) - 1
        return self._sorted[index] if index >= 0 else -1.0


class TenantNames(Protocol):
    """Who the tenants are at this moment."""

    def names(self) -> Sequence[str]:
        """Return the names of all tenants."""
        ...


class _Tenant:
    """What is known of one tenant.

    Attributes:
        window: Its scores.
        share: As it was asked for last.
        owed: Requests short of it since then.
        unsent: Scores that the other processes do not know yet.
        seen: Of the stream, the entry that was taken in last.
    """

    __slots__ = ("owed", "seen", "share", "unsent", "window")

    def __init__(self, seed: Sequence[float]) -> None:
        self.window = ScoreWindow(seed)
        self.share = 0.0
        self.owed = 0.0
        self.unsent: deque[float] = deque(maxlen=WINDOW)
        self.seen: bytes | None = None

    def owes(self, share: float) -> float:
        """Return the requests that are owed of a share: none of one that is new."""
        return self.owed if self.share == share else 0.0


class RecentScores:
    """The windows of all tenants, and their exchange with other processes."""

    def __init__(self, reference: Sequence[float], *, process: str) -> None:
        """Start with empty windows.

        Args:
            reference: Scores of the shipped reference distribution, any number, any order.
            process: Unique name of this process, so that it can tell its own scores in the stream.
        """
        ordered = sorted(reference)
        step = max(1.0, len(ordered) / SEED)
        seed = [ordered[int(i * step)] for i in range(min(SEED, len(ordered)))]
        # Shuffled, else the low scores would all leave the window first; always the same way.
        random.Random(0).shuffle(seed)  # noqa: S311 - no secret
        self._seed = seed
        self._process = process.encode()
        self._kinds: dict[str, str] = {}
        self._tenants: dict[str, _Tenant] = {}

    def begin(self, tenant: str, kind: str) -> None:
        """Tell what the scores of `tenant` mean from now on; those of another kind are not mixed in.

        Args:
            tenant: Its name.
            kind: Such as the weights that make them, and the pair of models that they rank for.
        """
        if self._kinds.get(tenant) == kind:
            return
        self._kinds[tenant] = kind
        self._tenants.pop(tenant, None)

    def cut(self, tenant: str, share: float) -> float:
        """Return the score above which the hardest `share` of the tenant's traffic lies.

        Returns:
            As `ScoreWindow.cut`: for a share of 0 or 1 the same whatever came before.
        """
        known = self._of(tenant)
        owed = known.owes(share)
        beyond = owed - min(max(owed, -SLACK), SLACK)
        return known.window.cut(share + GAIN * beyond)

    def add(self, tenant: str, score: float, *, share: float, sent: bool) -> None:
        """Take in a request of `tenant` that its score decided.

        Args:
            tenant: Its name.
            score: Of the request.
            share: Asked for when it was decided.
            sent: Whether it went to standard.
        """
        known = self._of(tenant)
        known.owed = known.owes(share) + share - sent
        known.share = share
        known.window.add(score)
        known.unsent.append(score)

    def see(self, tenant: str, score: float) -> None:
        """Take in a score of `tenant` that another cut than the share's decided."""
        known = self._of(tenant)
        known.window.add(score)
        known.unsent.append(score)

    async def exchange(self, redis: Redis, tenants: Sequence[str]) -> None:
        """Send what is new here, take in what is new elsewhere.

        Raises:
            RedisError: Redis is away; nothing is lost but what falls out of the window meanwhile.
        """
        for tenant in tenants:
            await self._receive(redis, tenant)
            await self._send(redis, tenant)

    async def keep_exchanging(self, redis: Redis, tenants: TenantNames, *, every: float = 1.0) -> None:
        """Exchange for ever, every `every` seconds; a Redis that is away is waited for."""
        away = False
        while True:
            try:
                await self.exchange(redis, tenants.names())
                if away:
                    log.warning("Redis is back; score windows are shared again")
                away = False
            except (RedisError, OSError) as error:
                if not away:
                    log.warning("Redis is away (%s); each process decides from its own scores", error)
                away = True
            await asyncio.sleep(every)

    def _of(self, tenant: str) -> _Tenant:
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant(self._seed)
        return known

    def _stream(self, tenant: str) -> str:
        return f"flashlane:scores:{{{tenant}}}:{self._kinds.get(tenant, '')}"

    async def _receive(self, redis: Redis, tenant: str) -> None:
        known = self._of(tenant)
        entries = await _read_after(redis, self._stream(tenant), known.seen)
        if known is not self._of(tenant):  # `begin` came between: these are of another kind
            return
        for entry, fields in entries:
            known.seen = entry
            if fields.get(b"from") != self._process:
                for (score,) in struct.iter_unpack("<f", fields.get(b"scores", b"")[-4 * WINDOW :]):
                    known.window.add(score)

    async def _send(self, redis: Redis, tenant: str) -> None:
        unsent = self._of(tenant).unsent
        if not unsent:
            return
        scores = tuple(unsent)
        unsent.clear()
        try:
            await _append(
                redis, self._stream(tenant), self._process, struct.pack(f"<{len(scores)}f", *scores)
            )
        except BaseException:
            unsent.extendleft(reversed(scores))
            raise


async def _read_after(
    redis: Redis, stream: str, after: bytes | None
) -> list[tuple[bytes, Mapping[bytes, bytes]]]:
    """Return the entries after one, oldest first; the newest ones when there is none. Bounded in number."""
    if after is None:
        newest = await redis.xrevrange(stream, count=ENTRIES_A_READ)
        return list(reversed(cast("list[tuple[bytes, Mapping[bytes, bytes]]]", newest)))
    entries = await redis.xrange(stream, min=b"(" + after, max="+", count=ENTRIES_A_READ)
    return cast("list[tuple[bytes, Mapping[bytes, bytes]]]", entries)


async def _append(redis: Redis, stream: str, process: bytes, scores: bytes) -> None:
    await redis.xadd(stream, {b"from": process, b"scores": scores}, maxlen=WINDOW, approximate=True)
