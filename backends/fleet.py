"""Every replica of every model, which of them is asked next, and what is in flight on each."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from backends.errors import BackendError, BackendOverloaded, BackendUnavailable
from backends.health import Health
from backends.openai_server import OpenAIServer
from backends.pools.engine_metrics import Acceptance, EngineWord
from backends.protocol import Answer, Backend
from backends.provider import Provider
from backends.types import InferenceRequest, Pool, Replica, ReplicaKind, Timeouts

PROBE_SECONDS = 3.0
"""Between two looks at the health of all replicas."""


@dataclass(slots=True, eq=False)
class Member:
    """A replica at work.

    Attributes:
        pool: Its pool.
        in_flight: Requests on it now; changed by `open` and `close` alone.
        health: Whether it should get requests.
        word: What its engine said last of its load; changed by whoever reads it.
        acceptance: How its drafts do; as `word`.
    """

    replica: Replica
    pool: Pool
    backend: Backend
    in_flight: int = 0
    health: Health = field(default_factory=Health)
    word: EngineWord | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)

    def load(self, now: float) -> float:
        """Return the requests on it: ours now, and those of others as its engine said last."""
        return self.in_flight + (0.0 if self.word is None else self.word.others(now))

    async def open(self, request: InferenceRequest) -> Answer:
        """Start `request` and count it until its answer is handed to `close`; see `Backend.open`."""
        self.in_flight += 1
        try:
            return await self.backend.open(request)
        except BaseException:
            self.in_flight -= 1
            raise

    async def close(self, answer: Answer) -> None:
        """Let go of an answer; see `Answer.aclose`."""
        try:
            await answer.aclose()
        finally:
            self.in_flight -= 1


def make_backend(replica: Replica, timeouts: Timeouts) -> Backend:
    """Return the adapter for a replica."""
    match replica.kind:
        case ReplicaKind.OPENAI:
            return OpenAIServer(replica, timeouts.connect)
        case ReplicaKind.LITELLM:
            return Provider(replica)


class Fleet:
    """The members of all pools, by model."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[Pool]],
        *,
        monotonic: Callable[[], float],
        make: Callable[[Replica, Timeouts], Backend] = make_backend,
    ) -> None:
        """Make a backend for every replica; nothing is connected yet."""
        self.pools = pools
        self._monotonic = monotonic
        self._make = make
        self._members: dict[str, list[Member]] = {
            model: [
                Member(replica, pool, make(replica, pool.timeouts))
                for pool in its_pools
                for replica in pool.replicas
            ]
            for model, its_pools in pools.items()
        }

    def pool(self, model: str, name: str) -> Pool:
        """Return a pool by its name."""
        return next(pool for pool in self.pools[model] if pool.name == name)

    def members_of(self, model: str, pool: str | None = None) -> list[Member]:
        """Return the members of a model; those of one of its pools when that is given."""
        return [member for member in self._members[model] if pool in {None, member.pool.name}]

    def join(self, model: str, pool: Pool, replica: Replica) -> Member:
        """Take in a replica that was found; it gets a growing share of requests."""
        member = Member(replica, pool, self._make(replica, pool.timeouts))
        member.health.joined = self._monotonic()
        self._members[model].append(member)
        return member

    async def remove(self, model: str, member: Member) -> None:
        """Forget a replica on which nothing is in flight."""
        self._members[model].remove(member)
        await member.backend.aclose()

    def place(
        self, model: str, tried: Sequence[Member] = (), pools: Sequence[str] | None = None
    ) -> Member | None:
        """Choose the replica of `model` with the fewest requests for its share; of equals one that is well.

        One that has just come gets a growing share; one that is out, busy, or in `tried`, is not chosen.

        Args:
            model: The model.
            tried: Not to be chosen again.
            pools: Of whose replicas; None for those of all pools.

        Returns:
            None when there is none to choose.
        """
        now = self._monotonic()
        chosen: Member | None = None
        least = float("inf"), 0
        for member in self._members[model]:
            if member in tried or not member.health.takes_requests(now):
                continue
            if pools is not None and member.pool.name not in pools:
                continue
            load = (member.load(now) + 1.0) / member.health.share(now), member.health.failures
            if load < least:
                chosen, least = member, load
        return chosen

    def nobody(self, model: str) -> BackendError:
        """Return the error for a model none of whose replicas takes requests now.

        Where some have asked to be left alone, it says as they did when the first of them may be asked.
        """
        now = self._monotonic()
        waits = [(wait, m) for m in self._members[model] if (wait := m.health.busy_for(now)) > 0.0]
        if waits:
            wait, first = min(waits, key=itemgetter(0))
            return BackendOverloaded(
                f"Every replica of {model!r} that answers has asked to be left alone for a while.",
                replica=first.replica.name,
                status=first.health.busy_status,
                retry_after=wait,
            )
        names = ", ".join(member.replica.name for member in self._members[model])
        return BackendUnavailable(
            f"No replica of {model!r} answers now ({names}).",
            replica=names,
            reached=False,
            retry_after=PROBE_SECONDS,
        )

    def members(self) -> Iterator[tuple[str, Member]]:
        """Return every model and member."""
        for model, members in self._members.items():
            for member in tuple(members):
                yield model, member

    async def probe(self) -> dict[str, dict[str, bool]]:
        """Ask every replica whether it can serve, all at once, and note what it says.

        Returns:
            Model -> replica name -> ready.
        """
        return await self._ask_all(count_silence=True)

    async def readiness(self) -> dict[str, dict[str, bool]]:
        """Ask every replica whether it can serve, all at once, on behalf of whoever looks at our health.

        What is said is noted, so that requests go where we say that they can. Silence is not: how often
        somebody looks must not decide when a busy replica counts as gone.

        Returns:
            Model -> replica name -> ready.
        """
        return await self._ask_all(count_silence=False)

    async def _ask_all(self, *, count_silence: bool) -> dict[str, dict[str, bool]]:
        pairs, since = list(self.members()), self._monotonic()
        states = await asyncio.gather(*(member.backend.is_ready() for _, member in pairs))
        found: dict[str, dict[str, bool]] = {model: {} for model in self._members}
        for (model, member), ready in zip(pairs, states, strict=True):
            if member.health.draining:
                continue
            if ready is not None or count_silence:
                member.health.was_probed(self._monotonic(), ready=ready, since=since)
            found[model][member.replica.name] = bool(ready)
        return found

    async def keep_probing(self) -> None:
        """Look at the health of all replicas for ever."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await self.probe()

    async def aclose(self) -> None:
        """Close every backend."""
        for _, member in self.members():
            await member.backend.aclose()
