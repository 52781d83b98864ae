"""What all tests share: a real Valkey, and an event loop on which nothing may block."""

import asyncio
from collections.abc import Callable, Generator, Mapping

import pytest
from anyio.from_thread import start_blocking_portal
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

from backends.engines.probes import free_port
from backends.engines.process import SupervisedProcess
from backends.engines.valkey import valkey_spec
from tests.support.loops import Loop

# Machines are slow at times; no test asserts a time.
settings.register_profile("flashlane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("flashlane")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every test on the loop that the gateway runs on."""
    return {"uvloop": Loop}


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A real Valkey, empty at first; a test that uses it empties it.

    It is watched on a loop of its own, for those of the tests come and go.
    """
    port = free_port()
    valkey = SupervisedProcess(valkey_spec(tmp_path_factory.mktemp("valkey"), port))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(valkey):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(request: pytest.FixtureRequest) -> Generator[BlockBuster]:
    """Fail a test whose gateway code makes a blocking call on the event loop."""
    with blockbuster_ctx("gateway") as blockbuster:
        yield blockbuster
