"""A client's connection: one whose client has stopped reading is dropped, and with it the engine's work.

What a client does not read fills the buffers on the way, and then holds a place in an engine for nothing.
The transport tells when its buffer is full, so that nothing is timed while a client reads.
"""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from typing import ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

WRITE_SECONDS = 60.0
"""How long a client may take nothing of what waits for it. One that takes a little goes on."""

_INT = struct.Struct("i")


class ClientConnection(HttpToolsProtocol):
    """A connection that is dropped when nothing of a full buffer is taken for `write_seconds`."""

    write_seconds: ClassVar[float] = WRITE_SECONDS
    _timer: asyncio.TimerHandle | None = None
    _waiting = 0

    def pause_writing(self) -> None:
        """Hold the writers back: the buffer is full. From now on the client is watched."""
        super().pause_writing()
        self._waiting = self._not_taken()
        self._watch()

    def resume_writing(self) -> None:
        """Let the writers go on: the client has read."""
        self._stop_watching()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that its client has left."""
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        self._timer = self.loop.call_later(self.write_seconds, self._look)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        waiting = self._not_taken()
        if waiting >= self._waiting:
            self.transport.abort()  # closing would wait for the client to read the rest
            return
        self._waiting = waiting
        self._watch()

    def _not_taken(self) -> int:
        """Return the bytes that the client's machine has not taken.

        The kernel's share of them counts: it may hold megabytes, and asks for more only when a good part
        is gone.
        """
        inside = self.transport.get_write_buffer_size()
        peer = cast("socket.socket", self.transport.get_extra_info("socket"))
        with contextlib.suppress(OSError):  # a kernel that does not tell
            inside += _INT.unpack(fcntl.ioctl(peer.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0]
        return inside


def connection_with(write_seconds: float) -> type[ClientConnection]:
    """Return the class of connections with another bound."""
    return type("ClientConnection", (ClientConnection,), {"write_seconds": write_seconds})
