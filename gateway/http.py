"""The hot path's view of ASGI: read a request, send an answer, notice a client that leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self

from gateway.errors import BodyTooLarge, BodyTooSlow, ClientLeft

BODY_SECONDS = 60
"""How long a client may take to send its body."""

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


def header(scope: Scope, name: bytes) -> str | None:
    """Return a request header; `name` in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        BodyTooLarge: It is over `limit` bytes; an announced length is believed.
        BodyTooSlow: It did not arrive in time.
        ClientLeft: The client closed its connection before the end.
    """
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdecimal() and int(announced) > limit:
        raise BodyTooLarge(
            f"The body has {announced} bytes; at most {limit} are taken (server.max_body_bytes)."
        )
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _collect(receive, limit)
    except TimeoutError as error:
        raise BodyTooSlow(f"The body did not arrive within {BODY_SECONDS} s.") from error


async def _collect(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientLeft("The client left while it sent its request.")
        part: bytes = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLarge(
                f"The body is over {limit} bytes, the most that is taken (server.max_body_bytes)."
            )
        parts.append(part)
        if not event.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


class Reply:
    """The answer to one request.

    Attributes:
        started: Whether the status has been sent; after that an error can only be told in the body.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def start(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        """Send the status and the headers."""
        await self._head(status, content_type, headers)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece of the body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def whole(self, status: int, content_type: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer in one go."""
        await self._head(status, content_type, {"content-length": str(len(body)), **headers})
        await self.end(body)

    async def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        pairs = [(b"content-type", content_type.encode("latin-1"))]
        pairs += [
            (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})


class ClientPresence:
    """Cancels the block when the client closes its connection, and says so by `ClientLeft`.

    Works as `asyncio.timeout` does: the block's task is cancelled, and the cancellation becomes an
    exception of ours at the end of the block. The client is watched from `WATCH_AFTER` seconds on, so
    that a quick answer pays nothing for it.
    """

    WATCH_AFTER = 0.2

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = False
        self._watch: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("ClientPresence must be used inside a task")
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(self.WATCH_AFTER, self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self._left and self._task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise ClientLeft("The client left before the end of the answer.") from error

    def _start(self) -> None:
        self._watch = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True
        self._task.cancel()
