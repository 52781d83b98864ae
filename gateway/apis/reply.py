"""An answer that the pipeline gives as chat completions, sent in the words of another API."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from backends.errors import BackendError
from gateway.apis.chat import ChatAnswer, read_answer
from gateway.apis.chat_stream import ChatStream, StreamEvent
from gateway.apis.errors import ChatError, read_error
from gateway.exchange import HEADER
from gateway.http import Reply, Send


class TranslatedReply(Reply):
    """Takes what the pipeline says, and sends it translated; one API is a subclass.

    Attributes:
        request_id: Of the exchange; known once an answer begins.
    """

    def __init__(self, send: Send) -> None:
        super().__init__(send)
        self.request_id = ""
        self._stream: ChatStream | None = None

    def answer_of(self, answer: ChatAnswer) -> object:
        """Return a plain answer, to be written as JSON."""
        raise NotImplementedError

    def error_of(self, status: int, error: ChatError) -> tuple[int, object]:
        """Return the status and the body of an error."""
        raise NotImplementedError

    def events_of(self, event: StreamEvent) -> Iterable[bytes]:
        """Return what a stream says of an event."""
        raise NotImplementedError

    def headers_of(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that go out."""
        return dict(headers)

    async def start(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        """Send the status and the headers of a stream."""
        self.request_id = headers.get(HEADER + "request-id", "")
        self._stream = ChatStream(headers.get(HEADER + "replica", ""))
        await super().start(status, content_type, self.headers_of(headers))

    async def write(self, data: bytes) -> None:
        """Send what a piece of the stream says.

        Raises:
            BackendError: It cannot be told; what came before it has been sent.
        """
        if self._stream is None:
            await super().write(data)
            return
        ready: list[bytes] = []
        try:
            for event in self._stream.feed(data):
                ready.extend(self.events_of(event))
        except BackendError:
            await self._send_events(ready)
            raise
        await self._send_events(ready)

    async def end(self, data: bytes = b"") -> None:
        """Send the end of the stream, as the pipeline knows it."""
        if self._stream is None:
            await super().end(data)
            return
        ready = [piece for event in self._stream.end(data) for piece in self.events_of(event)]
        await super().end(b"".join(ready))

    async def whole(self, status: int, content_type: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send an answer in one go; one that cannot be told is an error of the engine."""
        self.request_id = headers.get(HEADER + "request-id", "")
        status, value = self._whole(status, body)
        await super().whole(status, content_type, self.headers_of(headers), msgspec.json.encode(value))

    def _whole(self, status: int, body: bytes) -> tuple[int, object]:
        if status >= 400:
            return self.error_of(status, read_error(body))
        answer = _read(body)
        if answer is None or answer.choice() is None:
            error = ChatError("The engine sent an answer that is not one.", "server_error", "upstream_error")
            return self.error_of(502, error)
        return status, self.answer_of(answer)

    async def _send_events(self, events: list[bytes]) -> None:
        if events:
            await super().write(b"".join(events))


def sse(name: str, data: Mapping[str, Any]) -> bytes:
    """Return a server-sent event with a name, which its data repeats as `type`."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode({"type": name, **data}))


def _read(body: bytes) -> ChatAnswer | None:
    try:
        return read_answer(body)
    except (msgspec.DecodeError, RecursionError):
        return None
