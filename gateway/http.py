"""The hot path's view of ASGI: read a request, send an answer, notice a client that leaves."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from gateway.errors import BodyTooLarge, BodyTooSlow, ClientLeft, EncodingUnknown

JSON = "application/json"
EVENT_STREAM = "text/event-stream"

CONNECTION = "flashlane.connection"
"""The ASGI extension of our server: what a `Connection` does. Without it a whole answer takes two events, and
nobody tells when a client leaves."""

BODY_SECONDS = 60
"""How long a client may take to send its body."""

SWALLOW_SECONDS = 2.0
"""How long the rest of a body is taken in that was refused."""

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class Connection(Protocol):
    """A client's connection, as our server has it."""

    def watch(self, left: Callable[[], None]) -> None:
        """Call `left` when the client closes the connection; at once when it has."""
        ...

    def unwatch(self) -> None:
        """Do not call anymore."""
        ...

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer in one write."""
        ...


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection of a request; None under a server that is not ours."""
    return scope.get("extensions", {}).get(CONNECTION)


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
        EncodingUnknown: It is compressed.
        ClientLeft: The client closed its connection before the end.
    """
    headers: dict[bytes, bytes] = dict(scope["headers"])
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
    if encoding.lower() != "identity":
        raise EncodingUnknown(f"A body in {encoding[:40]!r} is not taken; send it as it is.")
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge(
            f"The body has {int(announced)} bytes; at most {limit} are taken (server.max_body_bytes)."
        )
    return await within(BODY_SECONDS, _too_slow, _collect(receive, limit))


def _too_slow() -> BodyTooSlow:
    return BodyTooSlow(f"The body did not arrive within {BODY_SECONDS} s.")


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


async def _swallow(receive: Receive) -> None:
    """Take in the rest of a body that is not wanted, for a while.

    A connection that is closed while the client still sends is reset, and the client loses the answer.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SWALLOW_SECONDS):
            while (await receive()).get("more_body", False):
                continue


class Reply:
    """The answer to one request.

    Attributes:
        started: Whether the status has been sent; after that an error can only be told in the body.
        unread: Where the body of the request comes from, until all of it has come.
    """

    def __init__(self, send: Send, scope: Scope | None = None) -> None:
        """Answer by `send`; by what the server offers beyond ASGI where a scope is given."""
        self._send = send
        self._connection = None if scope is None else connection_of(scope)
        self.started = False
        self.unread: Receive | None = None

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
        if self._connection is not None and self.unread is None:
            self.started = True
            await self._connection.answer(status, {"content-type": content_type, **headers}, body)
            return
        await self._head(status, content_type, {"content-length": str(len(body)), **headers})
        if self.unread is not None:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            await _swallow(self.unread)
            body = b""
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        pairs = [(b"content-type", content_type.encode("latin-1"))]
        pairs += [
            (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})


class _Interruption:
    """Cancels the block it is around, and turns that cancellation into an exception of ours.

    Works as `asyncio.timeout` does, at a fifth of its cost: the block's task is cancelled, and at the
    end of the block the cancellation is taken back.
    """

    def __init__(self, error: Callable[[], Exception]) -> None:
        """Prepare; nothing happens yet. `error` makes what an interrupted block raises."""
        self._error = error
        self._interrupted = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("there is no task that could be interrupted")
        self._task = task
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._interrupted and self._task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise self._error() from error

    def _interrupt(self) -> None:
        self._interrupted = True
        self._task.cancel()


class Deadline(_Interruption):
    """Raises an error when the block takes longer than `delay` seconds."""

    def __init__(self, delay: float, error: Callable[[], Exception]) -> None:
        super().__init__(error)
        self._delay = delay

    def __enter__(self) -> Self:
        super().__enter__()
        self._timer = asyncio.get_running_loop().call_later(self._delay, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        super().__exit__(kind, error, trace)


async def within(seconds: float, error: Callable[[], Exception], work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, if that takes no longer than `seconds`.

    Work that is done at once, as most is whose data are there already, pays for no timer.

    Args:
        seconds: From the first time that the work has to wait.
        error: Makes what is raised when it is late; the work is cancelled then.
        work: Begun here.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        return done.value
    with Deadline(seconds, error):
        return await _Begun(work, waits_for)


class _Begun(Generic[T]):
    """The rest of a coroutine that has begun already, and waits for something."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: object) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[object, Any, T]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    found = yield waits_for
                except BaseException as error:  # noqa: BLE001 - a cancellation too is the work's to handle
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(found)
        except StopIteration as done:
            return done.value


def _left() -> ClientLeft:
    return ClientLeft("The client left before the end of the answer.")


class ClientPresence(_Interruption):
    """Raises `ClientLeft` when the client closes its connection during the block.

    Our server tells; with another one the block would run to its end.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(_left)
        self._connection = connection_of(scope)

    def __enter__(self) -> Self:
        super().__enter__()
        if self._connection is not None:
            self._connection.watch(self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.unwatch()
        super().__exit__(kind, error, trace)
