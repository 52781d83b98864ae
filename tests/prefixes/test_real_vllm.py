"""Prefixes on a real vLLM with SmolLM2 and GSM: what they bring, over a restart, and who has them.

Times are compared with each other within one run, never with a number of seconds.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncGenerator, Generator

import pytest
import pytest_asyncio

from bench.gsm_server import BLOCK, MODEL, ROOT, VllmServer, what_is_missing
from gateway.exchange import HEADER
from gateway.prefixes.entry import Entry
from tests.cases.playing import PATH
from tests.fakes.upstream import ScriptedUpstream, well_behaved
from tests.support.gateway import KEY, OTHER_KEY, GatewayUnderTest, running_gateway
from tests.support.waiting import until

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

TEXT = " ".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
CHARACTERS = 3900
"""Some 1.2K tokens of SmolLM2."""

ROUNDS = 5
PAGE_BYTES = 5_898_240  # 128 tokens of SmolLM2 in float32


def system(number: int) -> str:
    """Return a system prompt of 1.2K tokens; each number has another one."""
    return f"Rules {number}. " + TEXT[number * 700 : number * 700 + CHARACTERS]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[VllmServer]:
    """A vLLM that can be stopped and started."""
    if (missing := what_is_missing()) is not None:
        if os.environ.get("FLASHLANE_REQUIRE_VLLM"):  # noqa: TID251 tells CI from a user's machine
            pytest.fail(missing)
        pytest.skip(missing)
    options = (
        *("--max-num-seqs", "4", "--max-num-batched-tokens", "2048", "--max-model-len", "2560"),
        *("--num-gpu-blocks-override", "40", "--scheduling-policy", "priority"),
    )
    gsm = {"gsm_host_bytes": 40 * PAGE_BYTES, "gsm_min_ttl": 0}
    with VllmServer(tmp_path_factory.mktemp("vllm") / "vllm.log", gsm=gsm, options=options) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    server: VllmServer, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[GatewayUnderTest]:
    """A gateway over it, with a prefix of acme's."""
    prefix = {"name": "rules", "models": ["flash"], "messages": [{"role": "system", "content": system(0)}]}
    async with (
        ScriptedUpstream(well_behaved) as standard,
        running_gateway(
            tmp_path_factory.mktemp("gateway"),
            redis_url,
            flash=server.url,
            standard=standard.url,
            engine="vllm",
            tenant={"prefixes": [prefix]},
            models={"flash": {"served_name": MODEL, "gsm": {}}},
        ) as running,
    ):
        yield running


def entry(gateway: GatewayUnderTest) -> Entry:
    """Return the prefix on the replica."""
    (found,) = gateway.services.prefixes.entries()
    return found


async def first_token(gateway: GatewayUnderTest, number: int, question: str) -> float:
    """Begin a conversation; return the seconds to its first token."""
    messages = [{"role": "system", "content": system(number)}, {"role": "user", "content": question}]
    body = {"model": "flash", "messages": messages, "stream": True, "max_tokens": 2, "temperature": 0}
    async with gateway.http() as client:
        client.timeout = 120
        since, first = time.monotonic(), 0.0
        async with client.stream("POST", PATH, json=body) as reply:
            assert reply.status_code == 200, await reply.aread()
            async for line in reply.aiter_lines():
                if not first and '"content":"' in line and '"content":""' not in line:
                    first = time.monotonic() - since
    assert first, "there was no token"
    return first


async def test_a_new_conversation_begins_in_a_third_of_the_time_and_so_after_a_restart(
    gateway: GatewayUnderTest, server: VllmServer, capsys: pytest.CaptureFixture[str]
):
    await until(lambda: entry(gateway).residency.resident, "the prefix to be computed", patience=120)
    found = entry(gateway)
    assert 1100 < found.residency.tokens < 1400
    cold = [await first_token(gateway, number, "Where are they written?") for number in range(1, ROUNDS + 1)]
    hits = found.all_hits
    warm = [await first_token(gateway, 0, f"What does rule {number} say?") for number in range(ROUNDS)]
    assert found.all_hits - hits == ROUNDS

    await asyncio.to_thread(server.stop)
    await until(lambda: not takes_requests(gateway), "the gateway to see that it is gone", patience=60)
    await asyncio.to_thread(server.__enter__)
    await until(lambda: takes_requests(gateway), "the gateway to see that it is back", patience=60)
    await until(lambda: entry(gateway).residency.why == "restart", "the prefix to be computed", patience=120)
    after = [await first_token(gateway, 0, f"And after {number} starts?") for number in range(ROUNDS)]
    cold_after = [await first_token(gateway, number, "Where are they?") for number in range(1, ROUNDS + 1)]

    before_ratio = statistics.median(warm) / statistics.median(cold)
    first_ratio = after[0] / statistics.median(cold_after)
    after_ratio = statistics.median(after) / statistics.median(cold_after)
    with capsys.disabled():
        print(  # noqa: T201 - the figures of this machine
            f"\n{found.residency.tokens} tokens, {found.residency.cached} computed beforehand; medians "
            f"of {ROUNDS}: first token in {before_ratio:.3f} of the time without; after a restart "
            f"{after_ratio:.3f}, the very first {first_ratio:.3f}"
        )
    assert before_ratio <= 1 / 3
    assert after_ratio <= 1 / 3
    assert first_ratio <= 1 / 3


def takes_requests(gateway: GatewayUnderTest) -> bool:
    """Tell whether the replica does."""
    return entry(gateway).member.health.takes_requests(gateway.services.clock.monotonic())


async def cached(gateway: GatewayUnderTest, key: str, number: int, question: str) -> int:
    """Ask a question; return how much of its prompt the engine had."""
    messages = [{"role": "system", "content": system(number)}, {"role": "user", "content": question}]
    async with gateway.http(key) as client:
        client.timeout = 120
        reply = await client.post(PATH, json={"model": "flash", "messages": messages, "max_tokens": 1})
    assert reply.status_code == 200, reply.text
    return int(reply.headers[f"{HEADER}cached-tokens"])


async def test_a_prefix_is_its_own_tenants_alone(gateway: GatewayUnderTest):
    """OPEN-32, on a real engine: computed beforehand or by a request, another tenant computes it anew."""
    expected = entry(gateway).residency.expected
    assert await cached(gateway, OTHER_KEY, 0, "What do you know?") == 0
    assert await cached(gateway, KEY, 0, "What do you know?") >= expected - BLOCK
    assert await cached(gateway, KEY, 9, "One?") == 0
    assert await cached(gateway, OTHER_KEY, 9, "Two?") == 0
    assert await cached(gateway, KEY, 9, "Three?") > 0


async def test_gsm_keeps_a_prefix_that_the_engine_has_lost(gateway: GatewayUnderTest, server: VllmServer):
    expected = entry(gateway).residency.expected
    for number in range(10, 14):
        await cached(gateway, KEY, number, "Who asks?")
    await asyncio.to_thread(server.forget_engine_cache)
    assert (await asyncio.to_thread(server.metrics))["vllm:gsm_pinned_pages"] >= expected // BLOCK
    assert await cached(gateway, KEY, 0, "Who asks?") >= expected / 2
