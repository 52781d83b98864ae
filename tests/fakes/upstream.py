"""A scripted OpenAI-compatible server on a real socket: says what it is told to, byte for byte."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Talk:
    """One exchange, as a script sees it."""

    request: SeenRequest
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    chunked: bool = False

    async def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a status and the headers of a stream."""
        self.chunked = True
        lines = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **(headers or {})}
        await self.raw(_head(status, lines))

    async def send(self, data: bytes | str) -> None:
        """Send one piece of a stream."""
        piece = data.encode() if isinstance(data, str) else data
        await self.raw(b"%x\r\n%s\r\n" % (len(piece), piece))

    async def end(self) -> None:
        """End a stream well."""
        await self.raw(b"0\r\n\r\n")

    async def json(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole JSON answer."""
        data = json.dumps(body).encode()
        lines = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        await self.raw(_head(status, lines) + data)

    async def raw(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Wait until the peer closes the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def abort(self) -> None:
        """Drop the connection."""
        self.writer.transport.abort()


Script = Callable[[Talk], Awaitable[None]]


@dataclass(slots=True)
class ScriptedUpstream:
    """Plays one script for every request but those for its health page, which is well unless told otherwise,
    and its page of metrics, which is not there unless told otherwise.

    Attributes:
        script: What to do with a request.
        health: What to do with a request for the health page; None says that all is well.
        metrics: The page of metrics; None for none.
        requests: All that the script was played for, oldest first.
        open_connections: Connections that are open now.
        connections: Connections ever opened.
    """

    script: Script
    requests: list[SeenRequest] = field(default_factory=list[SeenRequest])
    open_connections: int = 0
    connections: int = 0
    url: str = ""
    health: Script | None = None
    metrics: str | None = None
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open_connections += 1
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                if request.path.endswith("/health"):
                    talk = Talk(request, reader, writer)
                    await (talk.json({"status": "ok"}) if self.health is None else self.health(talk))
                    continue
                if request.path.endswith("/metrics"):
                    page, status = (self.metrics or "").encode(), 404 if self.metrics is None else 200
                    lines = {"content-type": "text/plain", "content-length": str(len(page))}
                    await Talk(request, reader, writer).raw(_head(status, lines) + page)
                    continue
                self.requests.append(request)
                await self.script(Talk(request, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_connections -= 1
            self._tasks.discard(task)
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> SeenRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return SeenRequest(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode()


def answer(text: str = "Paris.", *, prompt: int = 12, cached: int = 4, completion: int = 3) -> dict[str, Any]:
    """Return a plain chat answer with usage."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "engine-model",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": _usage(prompt, cached, completion),
    }


def events(words: Sequence[str] = ("Pa", "ris", "."), *, usage: bool = True) -> list[str]:
    """Return the events of a stream, `[DONE]` among them."""
    chunks = [_chunk({"role": "assistant", "content": ""})]
    chunks += [_chunk({"content": word}) for word in words]
    chunks.append(_chunk({}, finish="stop"))
    if usage:
        chunks.append({**_chunk({}), "choices": [], "usage": _usage(12, 4, len(words))})
    return [f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n" for chunk in chunks] + [
        "data: [DONE]\n\n"
    ]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "engine-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _usage(prompt: int, cached: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


async def well_behaved(talk: Talk) -> None:
    """Answer as a healthy engine does, streamed where a stream is asked for."""
    if not talk.request.json().get("stream"):
        await talk.json(answer())
        return
    await talk.head()
    for event in events():
        await talk.send(event)
    await talk.end()
