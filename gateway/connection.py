"""A client's connection: what uvicorn's lacks.

One whose client has stopped reading is dropped, and with it the engine's work: what a client does not read
fills the buffers on the way, and then holds a place in an engine for nothing. The transport tells when its
buffer is full, so that nothing is timed while a client reads.

An answer that is there as a whole goes out in one write: two take two system calls and two packets.
"""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gateway.http import CONNECTION, Scope

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

WRITE_SECONDS = 60.0
"""How long a client may take nothing of what waits for it. One that takes a little goes on."""

_INT = struct.Struct("i")


class ClientConnection(HttpToolsProtocol):
    """A connection that is dropped when nothing of a full buffer is taken for `write_seconds`."""

    write_seconds: ClassVar[float] = WRITE_SECONDS
    _timer: asyncio.TimerHandle | None = None
    _waiting = 0
    _left: Callable[[], None] | None = None
    _answered: RequestResponseCycle | None = None
    _extensions: dict[str, object] | None = None

    def on_message_begin(self) -> None:
        """Begin a request, and offer it what this connection can do beyond ASGI."""
        super().on_message_begin()
        if self._extensions is None:
            self._extensions = {CONNECTION: self}
        cast("Scope", self.scope)["extensions"] = self._extensions

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        """Note whose turn it is: requests may come before the answer to the last one is out."""
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def watch(self, left: Callable[[], None]) -> None:
        """Call `left` when the client closes the connection."""
        self.flow.resume_reading()  # a long body may have stopped it; the end comes by reading
        self._left = left

    def unwatch(self) -> None:
        """Do not call anymore."""
        self._left = None

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer; what uvicorn does for a start and a body, less what is known of ours.

        Args:
            status: Of HTTP.
            headers: All but the length and those of the connection.
            body: Whole.

        Raises:
            RuntimeError: A header holds a line break.
        """
        cycle = self._answered
        if cycle is None or cycle.response_started:
            raise RuntimeError("there is no request that waits for an answer")
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        lines.append(f"content-length: {len(body)}\r\n")
        if not cycle.keep_alive:
            lines.append("connection: close\r\n")
        head = "".join(lines).encode("latin-1", "replace")
        if not head.count(b"\n") == head.count(b"\r") == len(lines):
            raise RuntimeError("a header of an answer holds a line break")
        defaults = b"".join([b"%b: %b\r\n" % pair for pair in cycle.default_headers])
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"%b%b%b\r\n%b" % (STATUS_LINE[status], defaults, head, body))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

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
        if self._left is not None:
            self._left()
        if self._extensions is not None:
            self._extensions[CONNECTION] = _Gone()  # else this and its last request would hold each other

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


class _Gone:
    """Stands for a connection that is lost."""

    def watch(self, left: Callable[[], None]) -> None:
        left()

    def unwatch(self) -> None:
        pass

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        pass


def connection_with(write_seconds: float) -> type[ClientConnection]:
    """Return the class of connections with another bound."""
    return type("ClientConnection", (ClientConnection,), {"write_seconds": write_seconds})
