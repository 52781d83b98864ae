"""Follows the KV events that a vLLM server publishes over ZeroMQ (`--kv-events-config`).

Batches are numbered. One that is missing is asked for again at the replay address; where there is none, or it
has gone, what the engine holds is not known any more, and all is forgotten. So it is when the numbers begin
anew, for then the engine did.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from backends.placement.block_events import TrackedGroups, read_events

if TYPE_CHECKING:
    from zmq.asyncio import Context, Socket

log = logging.getLogger(__name__)

REPLAY_SECONDS = 5.0
"""How long the next batch of a replay is waited for."""


class KvEventReader:
    """Keeps the groups of one engine true."""

    def __init__(self, address: str, replay: str | None, groups: TrackedGroups) -> None:
        """Prepare; nothing is connected yet.

        Args:
            address: Of the publisher, `tcp://host:5557`.
            replay: Of its replay socket; None when it has none.
            groups: That are kept.
        """
        self._address = address
        self._replay_address = replay
        self._groups = groups
        self._next = 0

    async def follow(self) -> None:
        """Take in events until cancelled; what was published before is asked for first."""
        # Heavy, and optional: the extra `kv-events`.
        from zmq import IPV6, SUB
        from zmq.asyncio import Context

        context = Context()
        context.setsockopt(IPV6, "[" in self._address)
        try:
            with context.socket(SUB) as socket:
                socket.connect(self._address)
                socket.subscribe(b"")
                await self._replay(context)
                while True:
                    await self._take(await _parts(socket), context)
        finally:
            context.destroy(linger=0)

    async def _take(self, parts: list[bytes], context: "Context") -> None:
        if len(parts) != 3:
            return
        number = int.from_bytes(parts[1], "big")
        if number < self._next:
            log.info("%s: events begin anew, so did the engine", self._address)
            self._groups.clear()
            self._next = 0
        if number > self._next:
            await self._replay(context)
        if number > self._next:
            log.warning("%s: %d batches of events are lost", self._address, number - self._next)
            self._groups.clear()
        if number >= self._next:
            self._apply(number, parts[2])

    def _apply(self, number: int, payload: bytes) -> None:
        self._next = number + 1
        try:
            events = read_events(payload)
        except msgspec.DecodeError as error:
            log.warning("%s: batch %d cannot be read (%s)", self._address, number, error)
            self._groups.clear()
            return
        for event in events:
            self._groups.apply(event)

    async def _replay(self, context: "Context") -> None:
        """Ask for all from the next batch on; what has gone by then is lost."""
        if self._replay_address is None:
            return
        from zmq import DEALER  # a REQ takes but one answer

        with context.socket(DEALER) as socket:
            socket.linger = 0
            socket.connect(self._replay_address)
            asked = [b"", self._next.to_bytes(8, "big")]
            await cast("Any", socket).send_multipart(asked)
            try:
                await self._take_replay(socket)
            except TimeoutError:
                log.warning("%s: no replay within %g s", self._replay_address, REPLAY_SECONDS)

    async def _take_replay(self, socket: "Socket") -> None:
        while True:
            async with asyncio.timeout(REPLAY_SECONDS):
                parts = await _parts(socket)
            number = int.from_bytes(parts[-2], "big", signed=True)
            if number < 0:
                return
            if number > self._next:
                self._groups.clear()
            self._apply(number, parts[-1])


async def _parts(socket: "Socket") -> list[bytes]:
    return cast("list[bytes]", await cast("Awaitable[Any]", socket.recv_multipart()))
