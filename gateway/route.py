"""Where a request is tried, one replica after the other: pools first, then placement within them."""

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
        left: Of these, what is left: groups of pools that are as good as each other, with room.
        tried_here: Replicas tried of the first group.
        tried: Whether any replica of the model was.
    """

    model: str
    prompt: Prompt
    pooled: Pooled
    left: list[list[str]]
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
        self._models = iter((decision.model, *decision.fallbacks))
        self._leg: _Leg | None = None
        self.full: BackendOverloaded | None = None

    async def next(self) -> Step | None:
        """Return the next replica to try, with a slot of its pool in `exchange.lease`; None at the end."""
        while True:
            leg = self._leg
            if leg is None:
                model = next(self._models, None)
                if model is None:
                    return None
                leg = self._leg = await self._begin(model)
            while leg.left:
                if leg.tried_here < REPLICAS_PER_MODEL:
                    placed = await self._enter(leg)
                    if placed is not None:
                        leg.tried_here += 1
                        leg.tried = True
                        self._tried.append(placed.member)
                        return Step(leg.model, leg.pooled, placed)
                del leg.left[0]
                leg.tried_here = 0
            if not leg.tried:
                self._exchange.notes.append(str(self.full or self._services.fleet.nobody(leg.model)))
            self._leg = None

    async def _begin(self, model: str) -> _Leg:
        services, exchange, decision = self._services, self._exchange, self._decision
        if model == decision.model:
            prompt = await prompt_of(services, exchange, model)
        else:
            prompt = prompt_of_small(services, exchange, model)
        pooled = pools_of(services, exchange, model, decision)
        return _Leg(model, prompt, pooled, [list(group) for group in pooled.choice.order])

    async def _enter(self, leg: _Leg) -> Placed | None:
        """Take a slot in one of the first pools, which are as good as each other; full ones are taken out."""
        fleet, desk, model, pools = self._services.fleet, self._services.desk, leg.model, leg.left[0]
        while (placed := fleet.place(model, self._tried, leg.prompt, pools)) is not None:
            pool = placed.member.pool
            lease = self._exchange.lease = await desk.enter(model, pool, stays=leg.pooled.stays)
            if lease is FREE:
                return placed
            if lease is None:
                self.full = _full(model, pool.name)
            else:  # others were placed meanwhile, and replicas may have left
                placed = fleet.place(model, self._tried, leg.prompt, [pool.name])
                if placed is not None:
                    return placed
                await leave(self._services, self._exchange)
            pools.remove(pool.name)
        return None


def _full(model: str, pool: str) -> BackendOverloaded:
    name = f"{model}/{pool}"
    return BackendOverloaded(f"The pool {name} is full.", replica=name, status=429, retry_after=1.0)


async def leave(services: Services, exchange: Exchange) -> None:
    """Give the slot back that a request holds, if it does."""
    lease, exchange.lease = exchange.lease, None
    if lease is not None:
        await services.desk.leave(lease)
