"""A gateway over three scripted engines: flash, a second replica of it for those that ask, and standard."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from tests.fakes.upstream import ScriptedUpstream, well_behaved
from tests.gateway.conftest import flash, gateway, standard, start_gateway

__all__ = ["flash", "gateway", "second", "standard", "start_gateway"]


@pytest_asyncio.fixture
async def second() -> AsyncGenerator[ScriptedUpstream]:
    """Another replica of flash; healthy unless its script is changed."""
    async with ScriptedUpstream(well_behaved) as upstream:
        yield upstream
