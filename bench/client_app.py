"""The smallest pass-through in raw ASGI, over a named HTTP client: all but the client is the same.

`/v1/chat/completions` reads an answer whole and sends it on; any other path sends it on in pieces.
"""

import argparse
import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import aiohttp
import httpcore2
import httpx
import httpx2
import uvicorn
import uvloop

from backends.http_client import HttpPool
from gateway.http import Receive, Reply, Scope, Send, read_body

PLAIN = "/v1/chat/completions"
JSON = {"content-type": "application/json"}
LIMIT = 32 * 1024 * 1024


class Upstream(Protocol):
    """A client with its connections to one server."""

    def post(self, path: str, body: bytes) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Send a request; gives the body of its answer in pieces, as they come."""
        ...


class Aiohttp:
    def __init__(self, url: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=JSON)

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with self._session.post(self._url + path, data=body) as answer:
            yield answer.content.iter_any()


class Httpx:
    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(base_url=url, headers=JSON, limits=limits, timeout=600)

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with self._client.stream("POST", path, content=body) as answer:
            yield answer.aiter_raw()


class Httpx2:
    def __init__(self, url: str) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx2.AsyncClient(base_url=url, headers=JSON, limits=limits, timeout=600)

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with self._client.stream("POST", path, content=body) as answer:
            yield answer.aiter_raw()


class Httpcore2:
    """What httpx2 stands on, without its models, cookies, redirects and hooks."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = httpcore2.AsyncConnectionPool(max_connections=None)

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with self._pool.stream(
            "POST", self._url + path, headers=list(JSON.items()), content=body
        ) as answer:
            yield answer.aiter_stream()


class Ours:
    def __init__(self, url: str) -> None:
        self._pool = HttpPool(url, headers=JSON)

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncGenerator[AsyncIterator[bytes]]:
        response = await self._pool.request("POST", path, body=body, timeout=600)

        async def pieces() -> AsyncGenerator[bytes]:
            while piece := await response.read_some(300):
                yield piece

        try:
            yield pieces()
        finally:
            response.close()


CLIENTS: Mapping[str, Callable[[str], Upstream]] = {
    "aiohttp": Aiohttp,
    "httpx": Httpx,
    "httpx2": Httpx2,
    "httpcore2": Httpcore2,
    "HttpPool": Ours,
}


class App:
    """Passes each request on."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, reply = scope["path"], Reply(send)
        body = await read_body(scope, receive, LIMIT)
        async with self._upstream.post(path, body) as pieces:
            if path == PLAIN:
                await reply.whole(200, "application/json", {}, b"".join([piece async for piece in pieces]))
                return
            await reply.start(200, "text/event-stream", {})
            async for piece in pieces:
                await reply.write(piece)
            await reply.end()


async def serve(client: str, upstream: str, port: int) -> None:
    """Serve until a signal ends it."""
    app = App(CLIENTS[client](upstream))
    config = uvicorn.Config(app, port=port, lifespan="off", access_log=False, log_level="warning")
    await uvicorn.Server(config).serve()


class Events:
    """An upstream that streams: a fixed count of events, each written by itself, with pauses."""

    EVENT = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"bench",'
        b'"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
    )
    COUNT = 64
    PAUSE = 0.001
    """Seconds between two events."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await read_body(scope, receive, LIMIT)
        reply = Reply(send)
        await reply.start(200, "text/event-stream", {})
        for _ in range(self.COUNT):
            await reply.write(self.EVENT)
            await asyncio.sleep(self.PAUSE)
        await reply.end(b"data: [DONE]\n\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=CLIENTS)
    parser.add_argument("--upstream", help="Left out: be an upstream that streams.")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    if arguments.upstream is None:
        uvicorn.run(
            Events(),
            port=arguments.port,
            lifespan="off",
            access_log=False,
            log_level="warning",
            timeout_keep_alive=600,
        )
    else:
        uvloop.run(serve(arguments.client, arguments.upstream, arguments.port))
