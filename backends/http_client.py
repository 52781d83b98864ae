"""A pooled HTTP/1.1 client for engines: what the hot path needs, and no more.

A connection (`backends/http_connection.py`) is kept for the next exchange when the last one ended well.
docs/decisions/0003 has the measurements that made us write it.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from backends.http_connection import Connection, HttpError

IDLE_SECONDS = 4.0
"""How long a connection is kept for the next exchange: shorter than servers keep theirs (uvicorn 5 s)."""

STALE_SECONDS = 1.0
"""Within this time a connection that the server has closed while it was idle shows it. One that breaks later
has carried the request: the work may have been done, and it is not for us to have it done again."""


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
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare a pool; nothing is connected yet.

        Args:
            url: Base URL of the server.
            headers: Sent with every request.
            connect_timeout: Seconds for TCP and TLS.
            max_idle: Most connections kept for later.
            idle_seconds: How long each is kept for.
            stale_seconds: Until when one that breaks is taken for one that was closed before.
            tls: Whom https trusts; None for whom the system does.

        Raises:
            ValueError: A header holds a line break.
        """
        self.origin = Origin.of(url)
        self._idle: list[Connection] = []
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._idle_seconds = idle_seconds
        self._stale_seconds = stale_seconds
        self._tls = (tls or ssl.create_default_context()) if self.origin.scheme == "https" else None
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
