"""Prefixes on a real llama.cpp with SmolLM2."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from backends.engines.llama import LlamaOptions, llama_spec
from backends.engines.probes import free_port
from backends.engines.process import SupervisedProcess
from backends.models.catalogue import SMOLLM2
from backends.models.store import ModelStore
from gateway.prefixes.entry import Entry
from gateway.settings import Settings
from tests.cases.playing import ask
from tests.fakes.upstream import ScriptedUpstream, well_behaved
from tests.support.gateway import GatewayUnderTest, running_gateway
from tests.support.waiting import until

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(300)]

SYSTEM = "You answer questions about the city of Lyon, its two rivers and the bridges over them. " * 30
PREFIX = {"name": "lyon", "models": ["flash"], "messages": [{"role": "system", "content": SYSTEM}]}


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncGenerator[SupervisedProcess]:
    """The engine, watched, on one port."""
    path = ModelStore(Settings.from_env().models_dir).path(SMOLLM2.name)
    spec = llama_spec("smollm2", path, free_port(), tmp_path / "llama.log", LlamaOptions(context=2048))
    async with SupervisedProcess(spec) as running:
        yield running


def entry(gateway: GatewayUnderTest) -> Entry:
    (found,) = gateway.services.prefixes.entries()
    return found


async def cached(gateway: GatewayUnderTest, question: str) -> int:
    """Ask a question; return how much of its prompt the engine had."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    reply = await ask(gateway, messages=messages, max_tokens=1)
    assert reply.status_code == 200, reply.text
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


async def test_a_prefix_is_there_before_the_first_request_and_again_when_the_engine_has_lost_it(
    engine: SupervisedProcess, redis_url: str, tmp_path: Path
):
    async with (
        ScriptedUpstream(well_behaved) as standard,
        running_gateway(
            tmp_path,
            redis_url,
            flash=f"http://127.0.0.1:{engine.spec.port}",
            standard=standard.url,
            engine="llama.cpp",
            tenant={"prefixes": [PREFIX]},
        ) as gateway,
    ):
        found = entry(gateway)
        assert found.residency.resident, found.residency
        assert await cached(gateway, "How many rivers?") > 0.9 * found.residency.tokens

        await engine.stop()
        await engine.start()
        found.due = found.since  # as when a minute has passed
        await until(lambda: found.residency.computed == 2, "another look", patience=60)
        assert await cached(gateway, "How many bridges?") > 0.9 * found.residency.tokens
        assert (found.all_hits, found.all_misses) == (2, 0)
