"""What failed requests leave behind: nothing that only the garbage collector could clear away.

The collector of a gateway runs seldom (`gateway.server.GC_THRESHOLD`), so that cycles would keep the
connection, the parser and the body of every failed request for thousands of requests.
"""

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

import httpx
import pytest

from backends.errors import BackendError
from backends.http_connection import Connection, HttpError
from gateway.errors import GatewayError
from gateway.exchange import Exchange
from tests.cases.playing import PATH, chat, silent
from tests.fakes.upstream import Script, ScriptedUpstream, Talk
from tests.gateway.conftest import StartGateway
from tests.support.waiting import until

OURS = (BackendError, HttpError, GatewayError, Connection, Exchange)


@contextmanager
def garbage() -> Generator[Counter[str]]:
    """Count, by class, what of ours the block leaves in cycles; complete at the end of the block."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(type(left).__name__ for left in gc.garbage if isinstance(left, OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


async def dies(talk: Talk) -> None:
    talk.abort()


async def dies_half_way(talk: Talk) -> None:
    await talk.head()
    await talk.send('data: {"choices":[{"index":0,"delta":{"content":"Da"},"finish_reason":null}]}\n\n')
    talk.abort()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("script", [silent, dies, dies_half_way])
async def test_a_request_whose_engine_failed_leaves_no_cycle(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    script: Script,
    stream: bool,
):
    flash.script = standard.script = script
    body = chat(stream=stream)
    async with (
        start_gateway(timeouts={"first_token": 0.2, "total": 0.2}) as gateway,
        gateway.http() as client,
    ):
        with garbage() as found:
            for _ in range(3):
                await client.post(PATH, json=body)
            await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
            await until(lambda: flash.open_connections == 0, "the engine to be let go")
    assert not found


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_whose_client_left_leaves_no_cycle(
    start_gateway: StartGateway, flash: ScriptedUpstream, stream: bool
):
    flash.script = silent
    body = chat(stream=stream)
    async with start_gateway() as gateway, gateway.http() as client:
        with garbage() as found:
            with pytest.raises(httpx.ReadTimeout):
                await client.post(PATH, json=body, timeout=0.5)
            await until(lambda: flash.open_connections == 0, "the engine to be let go")
            await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
    assert not found
