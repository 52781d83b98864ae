"""Where a request is tried, one replica after the other: pools first, then placement within them."""

from collections import deque

import msgspec

from backends.errors import BackendOverloaded
from backends.fleet import Member, Placed
from backends.placement.prompts import Prompt
from backends.pools.desk import FREE
from gateway.exchange import Exchange
from gateway.placing import Pooled, pools_of, prompt_of, prompt_of_small
from gateway.services import Services
from policies.types import Decision

REPLICAS_PER_MODEL = 2
"""How many replicas of a model are tried before the next model is."""


class Step(msgspec.Struct, frozen=True):
    """A replica to try.

    Attributes:
        model: Its model.
        pooled: Why the first pools of the model are first.
        placed: The replica, and why it.
    """

    model: str
    pooled: Pooled
    placed: Placed


class _Leg(msgspec.Struct):
    """One model of a route.

    Attributes:
        model: Its name.
        prompt: What is placed.
        pooled: Its pools.
        pools: Of these, what is left: groups of pools that are as good as each other, with room.
        tried_here: Replicas tried of the first group.
        tried: Whether any replica of the model was.
    """

    model: str
    prompt: Prompt
    pooled: Pooled
    pools: deque[list[str]]
    tried_here: int = 0
    tried: bool = False


class Route:
    """Where to try, one after the other: the pools of the chosen model in order, then those of its fallbacks.

    The pools come first, then placement chooses among the replicas of those that are as good as each other.

    Attributes:
        full: The error for the last pool that had no room; None when all had.
    """

    def __init__(self, services: Services, exchange: Exchange, decision: Decision) -> None:
        """Begin with the chosen model."""
        self._services = services
        self._exchange = exchange
        self._decision = decision
        self._tried: list[Member] = []
        self._left = deque((decision.model, *decision.fallbacks))
        self._leg: _Leg | None = None
        self.full: BackendOverloaded | None = None

    async def next(self) -> Step | None:
        """Return the next replica to try, with a slot of its pool in `exchange.lease`; None at the end."""
        while True:
            if self._leg is None:
                if not self._left:
                    return None
                self._leg = await self._begin(self._left.popleft())
            step = await self._step(self._leg)
            if step is not None:
                return step
            if not self._leg.tried:
                self._exchange.notes.append(str(self.full or self._services.fleet.nobody(self._leg.model)))
            self._leg = None

    async def _begin(self, model: str) -> _Leg:
        services, exchange, decision = self._services, self._exchange, self._decision
        if model == decision.model:
            prompt = await prompt_of(services, exchange, model)
        else:
            prompt = prompt_of_small(services, exchange, model)
        pooled = pools_of(services, exchange, model, decision)
        return _Leg(model, prompt, pooled, deque(map(list, pooled.choice.order)))

    async def _step(self, leg: _Leg) -> Step | None:
        while leg.pools:
            if leg.tried_here < REPLICAS_PER_MODEL:
                placed = await self._enter(leg.model, leg.prompt, leg.pools[0], stays=leg.pooled.stays)
                if placed is not None:
                    leg.tried_here += 1
                    leg.tried = True
                    self._tried.append(placed.member)
                    return Step(leg.model, leg.pooled, placed)
            leg.pools.popleft()
            leg.tried_here = 0
        return None

    async def _enter(self, model: str, prompt: Prompt, pools: list[str], *, stays: bool) -> Placed | None:
        """Take a slot in one of some pools that are as good as each other; full ones are taken out."""
        fleet = self._services.fleet
        while (placed := fleet.place(model, self._tried, prompt, pools)) is not None:
            pool = placed.member.pool.name
            lease = self._exchange.lease = await self._services.desk.enter(model, pool, stays=stays)
            if lease is FREE:
                return placed
            if lease is None:
                self.full = _full(model, pool)
            else:  # others were placed meanwhile, and replicas may have left
                placed = fleet.place(model, self._tried, prompt, [pool])
                if placed is not None:
                    return placed
                await leave(self._services, self._exchange)
            pools.remove(pool)
        return None


def _full(model: str, pool: str) -> BackendOverloaded:
    name = f"{model}/{pool}"
    return BackendOverloaded(f"The pool {name} is full.", replica=name, status=429, retry_after=1.0)


async def leave(services: Services, exchange: Exchange) -> None:
    """Give the slot back that a request holds, if it does."""
    lease, exchange.lease = exchange.lease, None
    if lease is not None:
        await services.desk.leave(lease)
