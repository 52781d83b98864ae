"""What all tests share: a real Valkey, and an event loop on which nothing may block."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping

import pytest
import pytest_asyncio
import uvloop
from blockbuster import BlockBuster, blockbuster_ctx

from backends.engines.probes import free_port
from backends.engines.process import SupervisedProcess
from backends.engines.valkey import valkey_spec


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every test on the loop that the gateway runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[str]:
    """A real Valkey, empty at first; a test that uses it empties it."""
    port = free_port()
    async with SupervisedProcess(valkey_spec(tmp_path_factory.mktemp("valkey"), port)):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(request: pytest.FixtureRequest) -> Generator[BlockBuster]:
    """Fail a test whose gateway code makes a blocking call on the event loop."""
    with blockbuster_ctx("gateway") as blockbuster:
        yield blockbuster
