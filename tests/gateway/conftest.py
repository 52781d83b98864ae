"""A gateway over two scripted engines."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio

from tests.fakes.upstream import ScriptedUpstream, well_behaved
from tests.support.gateway import GatewayUnderTest, running_gateway


class StartGateway(Protocol):
    """Starts a gateway over the test's two engines."""

    def __call__(
        self, *, tenant: Mapping[str, Any] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[GatewayUnderTest]: ...


@pytest_asyncio.fixture
async def flash() -> AsyncGenerator[ScriptedUpstream]:
    """The flash engine; healthy unless its script is changed."""
    async with ScriptedUpstream(well_behaved) as upstream:
        yield upstream


@pytest_asyncio.fixture
async def standard() -> AsyncGenerator[ScriptedUpstream]:
    """The standard engine; healthy unless its script is changed."""
    async with ScriptedUpstream(well_behaved) as upstream:
        yield upstream


@pytest.fixture
def start_gateway(
    tmp_path: Path, redis_url: str, flash: ScriptedUpstream, standard: ScriptedUpstream
) -> StartGateway:
    """Return what starts a gateway with settings of the test's own."""

    def start(**options: Any) -> AbstractAsyncContextManager[GatewayUnderTest]:
        settings: dict[str, Any] = {"flash": flash.url, "standard": standard.url, **options}
        return running_gateway(tmp_path, redis_url, **settings)

    return start


@pytest_asyncio.fixture
async def gateway(start_gateway: StartGateway) -> AsyncGenerator[GatewayUnderTest]:
    """A gateway with the defaults."""
    async with start_gateway() as running:
        yield running
