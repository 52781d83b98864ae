"""A pooled HTTP/1.1 client for engines: what the hot path needs, and no more.

One connection carries one exchange at a time and is kept for the next. Bytes of an answer are handed
on as they come; a slow reader stops the connection's reading. `httptools` parses, asyncio carries.
docs/decisions/0003 has the measurements that made us write it.
"""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import urlsplit

import httptools

HIGH_WATER = 256 * 1024
"""Bytes of an answer that may wait for their reader before the connection stops reading."""

IDLE_SECONDS = 4.0
"""How long a connection is kept for the next exchange: shorter than servers keep theirs (uvicorn 5 s)."""

STALE_SECONDS = 1.0
"""Within this time a connection that the server has closed while it was idle shows it. One that breaks later
has carried the request: the work may have been done, and it is not for us to have it done again."""

MAX_HEAD = 64 * 1024
"""Most bytes of a status line and headers."""


class HttpError(Exception):
    """The exchange failed; `sent_nothing` tells whether not a byte of an answer had come."""

    def __init__(self, message: str, *, sent_nothing: bool, reached: bool = True) -> None:
        super().__init__(message)
        self.sent_nothing = sent_nothing
        self.reached = reached


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go: scheme, host, port, and the path that all requests begin with."""

    scheme: str
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Split a base URL."""
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.scheme == "https" else 80
        return host if self.port == default else f"{host}:{self.port}"


class Connection(asyncio.Protocol):
    """One connection, and the state of the exchange on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self.closed = False
        self.reused = False
        self.idle_since = 0.0
        self._begin_exchange()

    def _begin_exchange(self) -> None:
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._head_bytes = 0
        self._paused = False
        self._expired = False
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
        self._expired = False
        timer = None if timeout is None else self._loop.call_later(timeout, self._expire)
        try:
            while not there():
                if self._failure:  # made here: one that is kept would hold its frames, and they this
                    raise HttpError(self._failure, sent_nothing=self._failed_unheard)
                if self._expired:
                    raise TimeoutError
                self._waiter = self._loop.create_future()
                await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _expire(self) -> None:
        self._expired = True
        self._wake()

    def _fail(self, message: str) -> None:
        self._failure = message
        self.abort()
        self._wake()


class Response:
    """An answer whose head is there; its body comes by `read_some` or `read_all`."""

    def __init__(self, connection: Connection, pool: "HttpPool") -> None:
        self._connection: Connection | None = connection
        self._pool = pool
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers

    async def read_some(self, timeout: float | None = None) -> bytes:
        """Return the next bytes of the body, as many as there are; b"" at the end.

        Args:
            timeout: Seconds to wait for them.

        Raises:
            HttpError: The answer was cut.
            TimeoutError: Nothing came in time; the answer can still be read on.
        """
        connection = self._connection
        if connection is None:
            return b""
        ready = connection.take()
        if ready:
            return ready
        await self.wait(timeout)
        return connection.take()

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until there is more of the body, or its end, and take nothing.

        Raises:
            HttpError: The answer was cut.
            TimeoutError: Nothing came within `timeout` seconds.
        """
        if self._connection is None:
            return
        await self._connection.wait_body(timeout)

    async def read_all(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            HttpError: It was cut, or is longer than `limit` bytes.
        """
        parts: list[bytes] = []
        size = 0
        while part := await self.read_some():
            size += len(part)
            if size > limit:
                raise HttpError(f"its answer is longer than {limit} bytes", sent_nothing=False)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give the connection back; one whose answer has not ended is closed, which cancels the work."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)


class HttpPool:
    """Connections to one origin, kept while they are good."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        connect_timeout: float = 5.0,
        max_idle: int = 256,
        idle_seconds: float = IDLE_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        """Prepare a pool; nothing is connected yet.

        Args:
            url: Base URL of the server.
            headers: Sent with every request.
            connect_timeout: Seconds for TCP and TLS.
            max_idle: Most connections kept for later.
            idle_seconds: How long each is kept for.
            stale_seconds: Until when one that breaks is taken for one that was closed before.

        Raises:
            ValueError: A header holds a line break.
        """
        self.origin = Origin.of(url)
        self._idle: list[Connection] = []
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._idle_seconds = idle_seconds
        self._stale_seconds = stale_seconds
        self._tls = ssl.create_default_context() if self.origin.scheme == "https" else None
        fixed = {"host": self.origin.authority, "accept-encoding": "identity", **headers}
        self._fixed = _header_lines(fixed)

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        """Send a request and wait for the head of its answer.

        A kept connection that turns out to be closed, at once and before it brought a byte, is replaced once.

        Args:
            method: "GET" or "POST".
            path: Below the base URL, with a leading "/".
            headers: Sent after those of the pool.
            body: Whole body; JSON.
            timeout: Seconds to wait for the head.

        Raises:
            HttpError: There is no answer.
            TimeoutError: The head did not come in time; the exchange is cancelled.
            ValueError: A header holds a line break.
        """
        head = (
            f"{method} {self.origin.prefix}{path} HTTP/1.1\r\n{self._fixed}{_header_lines(dict(headers))}"
            f"content-length: {len(body)}\r\n\r\n"
        )
        data = head.encode("latin-1") + body
        stale = False
        now = asyncio.get_running_loop().time
        while True:
            connection = await self._acquire(fresh=stale)
            since = now()
            try:
                connection.begin(data)
                await connection.wait_head(timeout)
            except HttpError as error:
                connection.abort()
                late = now() - since >= self._stale_seconds
                stale = connection.reused and error.sent_nothing and not late
                if not stale:
                    raise
                continue
            except BaseException:
                connection.abort()
                raise
            return Response(connection, self)

    def release(self, connection: Connection) -> None:
        """Take a connection back."""
        if connection.usable and len(self._idle) < self._max_idle:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Close the connections that wait; those in use are closed by their responses."""
        while self._idle:
            self._idle.pop().abort()
        self._max_idle = 0

    async def _acquire(self, *, fresh: bool) -> Connection:
        loop = asyncio.get_running_loop()
        while self._idle and not fresh:
            connection = self._idle.pop()
            if connection.usable and loop.time() - connection.idle_since < self._idle_seconds:
                return connection
            connection.abort()
        origin = self.origin
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(loop), origin.host, origin.port, ssl=self._tls
                )
        except TimeoutError as error:
            raise HttpError(
                f"no connection within {self._connect_timeout:g} s", sent_nothing=True, reached=False
            ) from error
        except OSError as error:
            raise HttpError(f"cannot connect: {_reason(error)}", sent_nothing=True, reached=False) from error
        return connection


def _reason(error: OSError) -> str:
    """Say why there is no connection; a client may read it, so the address stays in the cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.reason or type(error).__name__
    if isinstance(error, socket.gaierror):
        return "the name of the host is not known"
    return os.strerror(error.errno) if error.errno else type(error).__name__


def _header_lines(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if "\r" in value or "\n" in value or "\0" in value or "\r" in name or "\n" in name:
            raise ValueError(f"the value of header {name!r} holds a line break")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())
