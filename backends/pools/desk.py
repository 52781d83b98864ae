"""The desk where a request is shown its pool: which, whether there is room, and what came of it."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from backends.fleet import Fleet, Member
from backends.pools.choice import PoolChoice, PoolState, Work, choose_pool
from backends.pools.engine_metrics import NAMES, read_counts
from backends.pools.homes import Homes
from backends.pools.slots import Bound, Lease, Slots
from backends.pools.speculation import MIN_TOKENS, Speculation, low_water
from backends.types import Pool

log = logging.getLogger(__name__)

READ_SECONDS: Final = 2.0
"""Between two looks at what the engines count."""

LATENCY_REPLICA: Final = 8
"""Requests at once on a replica of a latency pool without `max_concurrency`; learned from there downwards."""

FREE: Final = Lease("", "")
"""Stands for a slot of a pool without a bound."""


class PoolDesk:
    """Knows the pools of every model.

    Attributes:
        homes: Of recent conversations.
    """

    def __init__(self, fleet: Fleet, slots: Slots, *, monotonic: Callable[[], float]) -> None:
        """Work with the pools of `fleet`."""
        self._fleet = fleet
        self._slots = slots
        self._monotonic = monotonic
        self.homes = Homes()
        self._speculations: dict[str, Speculation] = {}
        self._only = {
            model: PoolChoice((tuple(pool.name for pool in pools),), "only")
            for model, pools in fleet.pools.items()
            if len(pools) == 1
        }
        for model, pools in fleet.pools.items():
            latency = next((pool for pool in pools if pool.role == "latency"), None)
            if latency is not None and len(pools) > 1:
                self._speculations[model] = Speculation(most=_most_a_replica(latency))

    @property
    def speculations(self) -> Mapping[str, Speculation]:
        """What was learned, of every model with a latency pool and another."""
        return self._speculations

    def is_rejected(self, model: str) -> bool:
        """Tell whether too few drafts of a model are accepted for chats to go to its latency pool."""
        speculation = self._speculations.get(model)
        return speculation is not None and speculation.rejected(self._monotonic())

    def only(self, model: str) -> PoolChoice | None:
        """Return the choice for a model with one pool, for which no request need be looked at."""
        return self._only.get(model)

    def choose(self, model: str, work: Work) -> PoolChoice:
        """Return the pools of a model that a request is for, in order; see `choose_pool`."""
        rejected = self.is_rejected(model)
        states = [
            PoolState(
                pool.name,
                pool.role == "latency",
                pool.speculation,
                rejected and pool.speculation,
                pool.context,
            )
            for pool in self._fleet.pools[model]
        ]
        return choose_pool(states, work)

    def bound(self, model: str, pool: Pool) -> Bound | None:
        """Return how many requests may be in a pool now; None for any number."""
        speculation = self._speculations.get(model)
        if pool.role != "latency" or speculation is None:
            return None if pool.max_concurrency is None else Bound(pool.max_concurrency, pool.max_concurrency)
        now = self._monotonic()
        there = sum(member.health.takes_requests(now) for member in self._fleet.members_of(model, pool.name))
        learned = speculation.threshold * max(1, there)
        high = learned if pool.max_concurrency is None else min(learned, pool.max_concurrency)
        return Bound(high, low_water(high))

    async def enter(self, model: str, pool: Pool, *, stays: bool) -> Lease | None:
        """Take a slot of a pool; None when it is full. What was taken is handed to `leave`, once.

        Args:
            model: The model.
            pool: One of its pools.
            stays: Whether the request's conversation is at home there.
        """
        bound = self.bound(model, pool)
        return FREE if bound is None else await self._slots.take(f"{model}/{pool.name}", bound, stays=stays)

    def held(self, pool: str) -> int:
        """Return how many slots of "model/pool" this process holds."""
        return self._slots.held(pool)

    async def leave(self, lease: Lease) -> None:
        """Give a slot back."""
        if lease is not FREE:
            await self._slots.give_back(lease)

    def answered(self, model: str, member: Member, *, load: float, tokens: int, seconds: float) -> None:
        """Take in how fast an answer came.

        Args:
            model: The model.
            member: The replica.
            load: Requests at once on it meanwhile, this one included.
            tokens: After the first.
            seconds: From the first token to the last.
        """
        speculation = self._speculations.get(model)
        if speculation is not None and tokens >= MIN_TOKENS and seconds > 0.0:
            in_latency = member.pool.role == "latency"
            speculation.saw(self._monotonic(), in_latency=in_latency, load=load, seconds=seconds / tokens)

    async def read_engines(self) -> None:
        """Read what the engines count, all at once, and judge how well their drafts do."""
        members = [member for _, member in self._fleet.members() if NAMES[member.replica.flavour]]
        await asyncio.gather(*map(self._read, members))
        for model, speculation in self._speculations.items():
            drafting = [m for m in self._fleet.members_of(model) if m.pool.speculation]
            if speculation.judge(self._monotonic(), tokens_a_step(drafting)):
                log.warning("Few drafts of %r are accepted: its latency pool rests from chats", model)
                for member in drafting:
                    member.acceptance.forget()

    async def keep_reading(self) -> None:
        """Read for ever."""
        while True:
            await self.read_engines()
            await asyncio.sleep(READ_SECONDS)

    async def _read(self, member: Member) -> None:
        in_flight = member.in_flight
        page = await member.backend.read_metrics()
        if page is not None and member.heard(read_counts(page, member.replica.flavour), in_flight):
            self._fleet.returned(member)


def tokens_a_step(members: Sequence[Member]) -> float | None:
    """Return the tokens that a step with a draft brings over some replicas; None while too few were seen."""
    known = [m.acceptance for m in members if m.acceptance.tokens_a_step is not None]
    if not known:
        return None
    return 1.0 + sum(each.accepted for each in known) / sum(each.drafts for each in known)


def _most_a_replica(pool: Pool) -> int:
    replicas = max(1, len(pool.replicas))
    return LATENCY_REPLICA if pool.max_concurrency is None else -(-pool.max_concurrency // replicas)
