"""Every replica of every model, which of them is asked next, and what is in flight on each."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from backends.errors import BackendError, BackendOverloaded, BackendUnavailable
from backends.health import FAILURES, Health
from backends.openai_server import OpenAIServer
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
        cold_until: Monotonic seconds until when others get requests first: it has come back, and what its
            requests begin with is being computed.
    """

    replica: Replica
    pool: Pool
    backend: Backend
    in_flight: int = 0
    health: Health = field(default_factory=Health)
    cold_until: float = float("-inf")

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


def _nobody_listens(_member: Member) -> None:
    pass


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
        self._monotonic = monotonic
        self.returned: Callable[[Member], None] = _nobody_listens
        """Told of a replica that takes requests again, before it gets the first."""
        self._members = {
            model: [
                Member(replica, pool, make(replica, pool.timeouts))
                for pool in its_pools
                for replica in pool.replicas
            ]
            for model, its_pools in pools.items()
        }

    def place(self, model: str, tried: Sequence[Member] = ()) -> Member | None:
        """Choose the replica of `model` with the fewest requests for its share; of equals one that is well.

        One that has just come gets a growing share, and, while its prefixes are computed, only what no other
        can take; one that is out, busy, or in `tried`, is not chosen.

        Returns:
            None when there is none to choose.
        """
        now = self._monotonic()
        chosen: Member | None = None
        least = True, float("inf"), 0
        for member in self._members[model]:
            if member in tried or not member.health.takes_requests(now):
                continue
            load = (member.in_flight + 1) / member.health.share(now), member.health.failures
            rank = now < member.cold_until, *load
            if rank < least:
                chosen, least = member, rank
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
            for member in members:
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
            was_out = member.health.probes_missed >= FAILURES
            if ready is not None or count_silence:
                member.health.was_probed(self._monotonic(), ready=ready, since=since)
            if was_out and ready:
                self.returned(member)
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
