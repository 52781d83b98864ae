"""One HTTP/1.1 connection to an engine: it carries one exchange at a time.

Bytes of an answer are handed on as they come; a slow reader stops the connection's reading. `httptools`
parses, asyncio carries.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import httptools

HIGH_WATER = 256 * 1024
"""Bytes of an answer that may wait for their reader before the connection stops reading."""

MAX_HEAD = 64 * 1024
"""Most bytes of a status line and headers."""


class HttpError(Exception):
    """The exchange failed; `sent_nothing` tells whether not a byte of an answer had come."""

    def __init__(self, message: str, *, sent_nothing: bool, reached: bool = True) -> None:
        super().__init__(message)
        self.sent_nothing = sent_nothing
        self.reached = reached


class Connection(asyncio.Protocol):
    """One connection, and the state of the exchange on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self.closed = False
        self.reused = False
        self.idle_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._begin_exchange()
        # One for all exchanges, as a connection whose last answer did not end well is not used again.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def _begin_exchange(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._head_bytes = 0
        self._paused = False
        self._deadline: float | None = None
        self._framed = False
        self._failure = ""
        self._failed_unheard = False
        self.headers: dict[str, str] = {}
        self.status = 0
        self.head_done = False
        self.complete = False
        self._out_of_turn = False
        self._keep_alive = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by its methods only

    def data_received(self, data: bytes) -> None:
        """Parse what came in."""
        if self._parser is None:
            return
        if not self.head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"it does not speak HTTP/1.1 ({error})")
            return
        if not self.head_done and self._head_bytes > MAX_HEAD:
            self._fail("its headers are too long")
            return
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange: well, if the answer ends with its connection; else as an error."""
        self.closed = True
        if self.head_done and not self.complete and not self._framed and exc is None:
            self.complete = True
        elif not self.complete and not self._failure:
            when = "in the middle of the answer" if self.head_done else "before it answered"
            self._failure = f"it closed the connection {when}"
            self._failed_unheard = not self._head_bytes
        self._parser = None  # it holds this connection: without it nothing waits for the garbage collector
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()

    def pause_writing(self) -> None:
        """Do nothing: a request is one bounded body, the transport may hold it."""

    def resume_writing(self) -> None:
        """Do nothing, as above."""

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Mark a connection on which the server speaks out of turn: it is not used again."""
        self._out_of_turn = self._out_of_turn or self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; repeated ones are joined as HTTP says. Trailers are not looked at."""
        if self.head_done:
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """The head is there, unless it is an interim 1xx."""
        if self.head_done or self._parser is None:
            return  # of an answer that nobody asked for
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200:
            return
        self._framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        self._keep_alive = self._parser.should_keep_alive()
        self.head_done = True

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the answer; not of one that nobody asked for."""
        if self._out_of_turn:
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer ended, unless it was an interim 1xx."""
        if self.head_done:
            self.complete = True
        else:
            self.headers = {}

    # What the pool and the response call.

    @property
    def usable(self) -> bool:
        """Tell whether the connection can carry the next exchange."""
        return (
            self.complete
            and not self.closed
            and not self._chunks
            and not self._out_of_turn
            and self._keep_alive
        )

    def begin(self, request: bytes) -> None:
        """Send a request."""
        self.reused = self.head_done
        self._begin_exchange()
        if self._transport is None or self._transport.is_closing():
            self._failure, self._failed_unheard = "it closed the connection before it answered", True
            return
        self._transport.write(request)

    async def wait_head(self, timeout: float | None) -> None:
        """Wait for status and headers, at most `timeout` seconds.

        Raises:
            HttpError: They will not come.
            TimeoutError: They did not come in time.
        """
        if not self.head_done:
            await self._wait(lambda: self.head_done, timeout)

    async def wait_body(self, timeout: float | None) -> None:
        """Wait for a piece of the body, or its end, at most `timeout` seconds.

        Raises:
            HttpError: The answer was cut.
            TimeoutError: Nothing came in time.
        """
        if not self._chunks and not self.complete:
            await self._wait(lambda: bool(self._chunks) or self.complete, timeout)

    def take(self) -> bytes:
        """Return all that has come in since the last call; b"" when nothing has."""
        if not self._chunks:
            return b""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once, which tells the server to stop its work."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, there: Callable[[], bool], timeout: float | None) -> None:
        if timeout is not None:
            self._wait_until(self._loop.time() + timeout)
        try:
            while not there():
                if self._failure:  # made here: one that is kept would hold its frames, and they this
                    raise HttpError(self._failure, sent_nothing=self._failed_unheard)
                if self._deadline is not None and self._loop.time() >= self._deadline:
                    raise TimeoutError
                self._waiter = self._loop.create_future()
                await self._waiter
        finally:
            self._waiter = self._deadline = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _wait_until(self, deadline: float) -> None:
        """Have what waits woken then. A timer that is due before that stays, and is set anew when it rings.

        So a connection sets a timer once in a while, not for every wait.
        """
        self._deadline = deadline
        if self._timer is not None and self._rings_at > deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer, self._rings_at = self._loop.call_at(deadline, self._ring), deadline

    def _ring(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() >= self._deadline:
            self._wake()
        else:
            self._wait_until(self._deadline)

    def _fail(self, message: str) -> None:
        self._failure = message
        self.abort()
        self._wake()
