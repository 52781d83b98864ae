"""Probes against servers that answer, refuse, talk nonsense, or say nothing."""

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from backends.engines.probes import free_port, http_ok, is_free, redis_pong


@asynccontextmanager
async def serving(answer: bytes) -> AsyncGenerator[int]:
    """Answer the first line of every connection with fixed bytes; yields the port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "healthy"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 2", False),
        (b"", False),
        (b"x" * 10_000, False),
    ],
)
async def test_http_health_is_status_200_and_nothing_else(answer: bytes, *, healthy: bool):
    async with serving(answer) as port:
        assert await http_ok(port, "/health") is healthy


@pytest.mark.parametrize(
    ("answer", "healthy"),
    [(b"+PONG\r\n", True), (b"-LOADING Valkey is loading the dataset in memory\r\n", False), (b"", False)],
)
async def test_valkey_is_healthy_when_it_answers_pong_and_not_while_it_loads(answer: bytes, *, healthy: bool):
    async with serving(answer) as port:
        assert await redis_pong(port) is healthy


@pytest.mark.parametrize("probe", [functools.partial(http_ok, path="/health"), redis_pong])
async def test_a_server_that_is_not_there_is_not_healthy(probe: Callable[[int], Awaitable[bool]]):
    assert not await probe(free_port())


async def test_a_port_is_free_until_somebody_listens_on_it():
    async with serving(b"") as port:
        assert not is_free(port)
    assert is_free(port)
