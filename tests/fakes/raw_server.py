"""A server of bytes: says on a raw socket what a test tells it to."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from backends.http_client import HttpPool


@dataclass(slots=True)
class Peer:
    """One accepted connection.

    Attributes:
        number: 1 for the first connection of the server.
    """

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """Return the next request, head and body; b"" when the client is gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        return head + await self.reader.readexactly(length)

    async def say(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Play = Callable[[Peer], Awaitable[None]]


@dataclass(slots=True)
class RawServer:
    """Plays one script for every connection, and closes the connection at its end.

    Attributes:
        peers: All that ever connected.
        open: Connections that are open now.
    """

    play: Play
    url: str = ""
    peers: list[Peer] = field(default_factory=list[Peer])
    open: int = 0
    tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        peer = Peer(len(self.peers) + 1, reader, writer)
        self.peers.append(peer)
        self.open += 1
        try:
            await self.play(peer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self.tasks.discard(task)
            writer.close()


@asynccontextmanager
async def raw_server(
    play: Play, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncGenerator[RawServer]:
    """Serve on a free port."""
    server = RawServer(play)
    listener = await asyncio.start_server(server.serve, host, 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    server.url = f"{'https' if tls else 'http'}://{shown}:{port}"
    try:
        yield server
    finally:
        listener.close()
        for task in list(server.tasks):
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
        await listener.wait_closed()


@asynccontextmanager
async def pool_to(
    play: Play, *, path: str = "", connect_timeout: float = 5.0, **options: Any
) -> AsyncGenerator[tuple[HttpPool, RawServer]]:
    """Yield a pool of connections to a server of bytes."""
    async with raw_server(play, **options) as server:
        pool = HttpPool(server.url + path, headers={"x-fixed": "1"}, connect_timeout=connect_timeout)
        try:
            yield pool, server
        finally:
            pool.close()


def always(answer: bytes) -> Play:
    """Return a script that answers every request with the same bytes."""

    async def play(peer: Peer) -> None:
        while await peer.request():
            await peer.say(answer)

    return play


def once(answer: bytes) -> Play:
    """Return a script that answers one request and closes."""

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)

    return play
