"""Asks an engine for one token of a prefix: that computes it, and tells whether it was there."""

import asyncio
from collections.abc import Callable

from backends.errors import BackendError, BackendRejected, BackendTimeout
from backends.fleet import Member
from backends.types import EngineFlavour, InferenceRequest, Usage
from gateway.answers import read_plain
from gateway.prefixes.entry import Entry

ASK_SECONDS = 120.0
"""For one answer of one token."""

MAX_ANSWER = 1024 * 1024
"""Most bytes of an answer of one token."""


class Asker:
    """Asks engines, and learns which of them take a priority."""

    def __init__(self, monotonic: Callable[[], float], pinned: frozenset[str]) -> None:
        """Know no engine yet.

        Args:
            monotonic: Seconds.
            pinned: Models whose engines have GSM.
        """
        self._monotonic = monotonic
        self._pinned = pinned
        self._without_priority: set[str] = set()

    def pins(self, entry: Entry) -> bool:
        """Tell whether the engine of an entry can keep it from eviction."""
        return entry.residency.model in self._pinned

    async def one_token(self, entry: Entry, *, pin: bool = True) -> tuple[Usage, float]:
        """Return what the engine counted, and the seconds that it took.

        Args:
            entry: What is asked for, and of whom.
            pin: Whether GSM, where there is one, shall keep it, or no longer.

        Raises:
            BackendError: It did not answer; it may be asked again.
        """
        member, name = entry.member, entry.member.replica.name
        pins = pin if self.pins(entry) else None
        patience = min(ASK_SECONDS, member.pool.timeouts.for_plain())
        last = name not in self._without_priority
        since = self._monotonic()
        try:
            body = await _ask(member, entry.warm_up.request(pin=pins, last=last, patience=patience))
        except BackendRejected:
            if entry.warm_up.flavour is not EngineFlavour.VLLM or not last:
                raise
            # An engine without --scheduling-policy priority may refuse one.
            since = self._monotonic()
            body = await _ask(member, entry.warm_up.request(pin=pins, last=False, patience=patience))
            self._without_priority.add(name)
        seconds = self._monotonic() - since
        return read_plain(body, name) or Usage(estimated=True), seconds


async def _ask(member: Member, request: InferenceRequest) -> bytes:
    """Return a whole answer.

    Raises:
        BackendError: There is none.
    """
    name = member.replica.name
    try:
        async with asyncio.timeout(request.patience):
            answer = await member.open(request)
            try:
                parts = bytearray()
                while part := await answer.read():
                    parts += part
                    if len(parts) > MAX_ANSWER:
                        raise BackendError(f"Replica {name} sent over {MAX_ANSWER} bytes.", replica=name)
                return bytes(parts)
            finally:
                await member.close(answer)
    except TimeoutError as error:
        raise BackendTimeout(
            f"Replica {name} did not finish within {request.patience:g} s.", replica=name
        ) from error
