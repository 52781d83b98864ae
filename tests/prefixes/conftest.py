"""A gateway over engines with prefix caches."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio

from tests.fakes.caching_engine import CachingEngine
from tests.fakes.upstream import ScriptedUpstream
from tests.support.gateway import GatewayUnderTest, running_gateway

SYSTEM = "You answer questions about the river Saone and its bridges. " * 20
PREFIX: Mapping[str, Any] = {"name": "support", "messages": [{"role": "system", "content": SYSTEM}]}


class StartGateway(Protocol):
    """Starts a gateway over the test's engines."""

    def __call__(self, **options: Any) -> AbstractAsyncContextManager[GatewayUnderTest]: ...


@pytest.fixture
def engine() -> CachingEngine:
    """What runs behind the one replica of flash."""
    return CachingEngine()


@pytest_asyncio.fixture
async def flash(engine: CachingEngine) -> AsyncGenerator[ScriptedUpstream]:
    """The replica of flash."""
    async with ScriptedUpstream(engine) as upstream:
        yield upstream


@pytest_asyncio.fixture
async def standard() -> AsyncGenerator[ScriptedUpstream]:
    """The replica of standard."""
    async with ScriptedUpstream(CachingEngine()) as upstream:
        yield upstream


@pytest.fixture
def start_gateway(
    tmp_path: Path, redis_url: str, flash: ScriptedUpstream, standard: ScriptedUpstream
) -> StartGateway:
    """Return what starts a gateway whose tenant has one prefix, unless a test says otherwise."""

    def start(**options: Any) -> AbstractAsyncContextManager[GatewayUnderTest]:
        settings: dict[str, Any] = {
            "flash": flash.url,
            "standard": standard.url,
            "engine": "vllm",
            "tenant": {"prefixes": [PREFIX]},
            **options,
        }
        return running_gateway(tmp_path, redis_url, **settings)

    return start
