"""Clients that stop reading."""

import asyncio
import json
import socket
from typing import Any

from gateway.exchange import HEADER
from tests.fakes.upstream import ScriptedUpstream, Talk, answer, events
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest
from tests.support.waiting import until

PIECE = events(["长江 and the Danube " * 400])[1]


async def endless(talk: Talk) -> None:
    """Stream for as long as anybody reads."""
    await talk.head()
    while True:
        await talk.send(PIECE)


async def connect(gateway: GatewayUnderTest, **fields: Any) -> socket.socket:
    """Ask for an answer on a socket with little room."""
    body = json.dumps({"model": "flash", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: flashlane\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    host, port = gateway.url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (host, int(port)))
    await loop.sock_sendall(client, head.encode() + body)
    return client


async def read(client: socket.socket, least: int) -> bytes:
    """Read so many bytes at least; fewer when the connection ends."""
    loop, found = asyncio.get_running_loop(), b""
    while len(found) < least:
        try:
            piece = await loop.sock_recv(client, 65536)
        except ConnectionError:
            return found
        if not piece:
            return found
        found += piece
    return found


def request_id(head: bytes) -> str:
    """Return the id that an answer names."""
    lines = head.decode("utf-8", "replace").split("\r\n")
    return next(line.partition(": ")[2] for line in lines if line.startswith(f"{HEADER}request-id"))


async def test_a_client_that_stops_reading_a_stream_is_dropped_and_the_engine_is_let_go(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = endless
    async with start_gateway(write_seconds=0.3) as gateway:
        with await connect(gateway, stream=True) as client:
            head = await read(client, 4096)
            await until(lambda: gateway.in_flight() == 0, "the client to be dropped")
            record = await gateway.record(request_id(head))
            await until(lambda: flash.open_connections <= 1, "the engine to be let go", patience=2)
            await read(client, 2**40)  # what was on its way, and then the end
    assert (record.status, record.http_status, record.error) == ("cancelled", 499, "client_left")
    assert record.completion_tokens > 1
    (member,) = (m for _, m in gateway.services.fleet.members() if m.replica.name == "flash/main/0")
    assert member.health.failures == 0


async def test_a_client_that_reads_slowly_goes_on(start_gateway: StartGateway, flash: ScriptedUpstream):
    flash.script = endless
    async with start_gateway(write_seconds=1.0) as gateway:
        with await connect(gateway, stream=True) as client:
            for _ in range(30):  # three times the bound
                assert await read(client, 65536)
                await asyncio.sleep(0.1)
            assert gateway.in_flight() == 1
        await until(lambda: gateway.in_flight() == 0, "the engine to be let go")


async def test_a_plain_answer_that_nobody_reads_is_not_kept(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    size = 32 * 1024 * 1024  # more than kernels hold

    async def script(talk: Talk) -> None:
        await talk.json(answer("x" * size))

    flash.script = script
    async with start_gateway(write_seconds=0.2) as gateway:
        with await connect(gateway) as client:
            head = await read(client, 2048)
            record = await gateway.record(request_id(head))
            await asyncio.sleep(1.0)  # on the loop of the gateway, whose timers are due before
            assert len(await read(client, 2 * size)) < size
    assert record.status == "ok"  # it was there, and is paid for
