"""What a connection does beyond ASGI: whole answers in one write, and word of a client that leaves."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from urllib.parse import unquote

import pytest

from gateway.errors import ClientLeft
from gateway.http import JSON, ClientPresence, Receive, Reply, Scope, Send, connection_of, read_body
from tests.support.gateway import serving
from tests.support.waiting import until

LEFT_OUT = {"date", "server"}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body that came, as the hot routes answer."""
    body = await read_body(scope, receive, 1_000_000)
    header = unquote(scope["query_string"].decode())
    await Reply(send, scope).whole(200, JSON, {"x-said": header} if header else {}, body)


def request(body: bytes, *, query: str = "", version: str = "1.1", connection: str = "") -> bytes:
    lines = [f"POST /{query} HTTP/{version}", "host: flashlane", f"content-length: {len(body)}"]
    lines += [f"connection: {connection}"] if connection else []
    return "\r\n".join([*lines, "", ""]).encode() + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """Return status line, headers and body; each header stands once."""
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    pairs = [line.split(": ", 1) for line in lines]
    headers = {name: value for name, value in pairs if name not in LEFT_OUT}
    assert len({name for name, _ in pairs}) == len(pairs)
    assert "date" in dict(pairs)
    return status, headers, await reader.readexactly(int(headers["content-length"]))


@contextlib.asynccontextmanager
async def connected() -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server of `echo`."""
    async with serving(echo) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield reader, writer
        finally:
            writer.close()
            await writer.wait_closed()


async def test_a_connection_carries_one_answer_after_the_other():
    async with connected() as (reader, writer):
        for body in (b"Hi", "你好".encode(), b"", b"x" * 300_000):
            writer.write(request(body, query="?route-7"))
            status, headers, answered = await read_answer(reader)
            assert status == "HTTP/1.1 200 OK"
            assert headers == {"content-type": JSON, "x-said": "route-7", "content-length": str(len(body))}
            assert answered == body


async def test_requests_that_come_at_once_are_answered_in_their_order():
    async with connected() as (reader, writer):
        writer.write(b"".join(request(b"%d" % number) for number in range(20)))
        answers = [await read_answer(reader) for _ in range(20)]
        assert [body for _, _, body in answers] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize(("version", "connection"), [("1.1", "close"), ("1.0", "")])
async def test_a_client_that_wants_no_more_is_told_that_the_connection_ends(version: str, connection: str):
    async with connected() as (reader, writer):
        writer.write(request(b"Hi", version=version, connection=connection))
        _, headers, body = await read_answer(reader)
        assert headers["connection"] == "close"
        assert body == b"Hi"
        assert await reader.read() == b""


@pytest.mark.parametrize("value", ["a%0D%0Ax-forged:yes", "a%0Ax-forged:yes", "a%0Dx-forged:yes"])
async def test_a_header_with_a_line_break_is_not_sent(value: str, caplog: pytest.LogCaptureFixture):
    async with connected() as (reader, writer):
        writer.write(request(b"Hi", query=f"?{value}"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 500")
        assert b"forged" not in head
    assert "line break" in caplog.text


async def test_what_a_header_cannot_hold_is_replaced():
    async with connected() as (reader, writer):
        writer.write(request(b"Hi", query="?%E6%B3%95-flash"))
        _, headers, _ = await read_answer(reader)
        assert headers["x-said"] == "?-flash"


@pytest.mark.parametrize("early", [False, True])
async def test_a_client_that_leaves_is_told_of_whenever_that_was(*, early: bool):
    asked, told = asyncio.Event(), asyncio.Event()

    async def wait(scope: Scope, receive: Receive, _send: Send) -> None:
        await read_body(scope, receive, 1000)
        first = connection_of(scope)
        asked.set()
        if early:
            await until(lambda: connection_of(scope) is not first, "the connection to be lost")
        with pytest.raises(ClientLeft), ClientPresence(scope):
            await asyncio.get_running_loop().create_future()
        told.set()

    async with serving(wait) as url:
        host, port = url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(request(b"Hi"))
        await asked.wait()
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(5):
            await told.wait()
