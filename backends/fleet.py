"""Every replica of every model, which of them is asked next, and what is in flight on each."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backends.errors import BackendUnavailable
from backends.openai_server import OpenAIServer, Timeouts
from backends.protocol import Answer, Backend
from backends.provider import Provider
from backends.types import InferenceRequest, Pool, Replica, ReplicaKind

SIT_OUT = 5.0
"""Seconds for which a replica that failed is asked only after the others."""


@dataclass(slots=True, eq=False)
class Member:
    """A replica at work.

    Attributes:
        pool: Name of its pool.
        in_flight: Requests on it now; changed by `open` and `close` alone.
        failed_at: When it last failed to start an answer, monotonic seconds.
    """

    replica: Replica
    pool: str
    backend: Backend
    in_flight: int = 0
    failed_at: float = field(default=float("-inf"))

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
            return OpenAIServer(replica, timeouts)
        case ReplicaKind.LITELLM:
            return Provider(replica, timeout=timeouts.head)


class Fleet:
    """The members of all pools, by model."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[Pool]],
        *,
        monotonic: Callable[[], float],
        make: Callable[[Replica], Backend],
    ) -> None:
        """Make a backend for every replica; nothing is connected yet."""
        self._monotonic = monotonic
        self._members = {
            model: [Member(replica, pool.name, make(replica)) for pool in pools_ for replica in pool.replicas]
            for model, pools_ in pools.items()
        }

    def place(self, model: str, tried: Sequence[Member] = ()) -> Member | None:
        """Choose the replica of `model` with the fewest requests in flight.

        One that failed a moment ago comes after the others; one of `tried` is not chosen.

        Returns:
            None when every replica was tried.
        """
        since = self._monotonic() - SIT_OUT
        members = [member for member in self._members[model] if member not in tried]
        return min(members, key=lambda member: (member.failed_at > since, member.in_flight), default=None)

    def failed(self, member: Member) -> None:
        """Note that `member` could not start an answer."""
        member.failed_at = self._monotonic()

    def members(self) -> Iterator[tuple[str, Member]]:
        """Return every model and member."""
        for model, members in self._members.items():
            for member in members:
                yield model, member

    async def readiness(self) -> dict[str, dict[str, bool]]:
        """Ask every replica whether it can serve; all at once, bounded by the connect timeout.

        Returns:
            Model -> replica name -> ready.
        """
        pairs = list(self.members())
        states = await asyncio.gather(*(member.backend.is_ready() for _, member in pairs))
        found: dict[str, dict[str, bool]] = {model: {} for model in self._members}
        for (model, member), state in zip(pairs, states, strict=True):
            found[model][member.replica.name] = state
        return found

    async def aclose(self) -> None:
        """Close every backend."""
        for _, member in self.members():
            await member.backend.aclose()


def all_tried(model: str) -> BackendUnavailable:
    """Return the error for a model whose every replica failed."""
    return BackendUnavailable(f"No replica of {model!r} can answer now.", replica="")
