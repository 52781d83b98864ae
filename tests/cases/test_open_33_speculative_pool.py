"""The latency pool, which speculates: never overrun, never flapping, no single point of failure."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from gateway.exchange import HEADER
from policies.redis_client import connect
from tests.cases.playing import DONE, NO_FALLBACK, PATH, STOP, ask, chat, error_of, word
from tests.cases.routes import turns
from tests.fakes.upstream import ScriptedUpstream, Talk, answer
from tests.support.gateway import GatewayUnderTest, running_gateway
from tests.support.waiting import until

SLOTS = 4


@dataclass(slots=True)
class Engine:
    """An engine that holds what it gets until it is let go.

    Attributes:
        running: Requests on it now.
        most: Most that ever were.
        going: Set while requests may end.
    """

    running: int = 0
    most: int = 0
    going: asyncio.Event = field(default_factory=asyncio.Event)

    async def script(self, talk: Talk) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if not talk.request.json().get("stream"):
                await self.going.wait()
                await talk.json(answer())
                return
            await talk.head()
            await talk.send(word("on "))
            await self.going.wait()
            for piece in (word("and on"), STOP, DONE):
                await talk.send(piece)
            await talk.end()
        finally:
            self.running -= 1


@dataclass(slots=True)
class Scene:
    """Two engines, one a pool, and two gateway processes over them."""

    speculating: Engine
    plain: Engine
    upstreams: tuple[ScriptedUpstream, ScriptedUpstream]
    gateways: list[GatewayUnderTest]


@asynccontextmanager
async def scene(folder: Path, redis_url: str, throughput: int | None = None) -> AsyncGenerator[Scene]:
    """Run all of it; `throughput` bounds the other pool."""
    engines = Engine(), Engine()
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(ScriptedUpstream(engine.script)) for engine in engines]
        fast, other = upstreams
        latency = {"name": "latency", "role": "latency", "speculation": True, "max_concurrency": SLOTS}
        rest: dict[str, Any] = {"name": "throughput", "role": "throughput"}
        if throughput is not None:
            rest["max_concurrency"] = throughput
        pools = [{**latency, "replicas": [{"url": fast.url}]}, {**rest, "replicas": [{"url": other.url}]}]
        gateways = [
            await stack.enter_async_context(
                running_gateway(
                    folder / name,
                    redis_url,
                    flash=fast.url,
                    standard=other.url,
                    tenant=NO_FALLBACK,
                    models={"flash": {"pools": pools}},
                )
            )
            for name in ("one", "two")
        ]
        stack.callback(engines[0].going.set)
        stack.callback(engines[1].going.set)
        yield Scene(*engines, (fast, other), gateways)


@pytest_asyncio.fixture
async def two_pools(tmp_path: Path, redis_url: str) -> AsyncGenerator[Scene]:
    """The scene with a throughput pool without a bound."""
    async with scene(tmp_path, redis_url) as found:
        yield found


def pool_of(reply: httpx.Response) -> str:
    assert reply.status_code == 200, reply.text
    return reply.headers[f"{HEADER}pool"]


async def test_a_burst_over_two_processes_fills_the_pool_and_no_more(two_pools: Scene):
    """OPEN-33 a: twelve at once; four speculate, and the rest is at work elsewhere at the same time."""
    asking = [
        asyncio.ensure_future(ask(gateway, f"Say {number}", stream=True))
        for number in range(6)
        for gateway in two_pools.gateways
    ]
    speculating, plain = two_pools.speculating, two_pools.plain
    await until(lambda: speculating.running + plain.running == 12, "all twelve to be at work")
    assert (speculating.running, plain.running) == (SLOTS, 8)
    for engine in (speculating, plain):
        engine.going.set()
    pools = [pool_of(reply) for reply in await asyncio.gather(*asking)]
    assert pools.count("latency") == SLOTS == speculating.most
    assert all(gateway.services.desk.held("flash/latency") == 0 for gateway in two_pools.gateways)


@dataclass(slots=True)
class Talking:
    """A conversation whose turns stream, one after the other."""

    gateway: GatewayUnderTest
    name: str
    pools: list[str] = field(default_factory=list[str])

    async def turn(self, client: httpx.AsyncClient) -> None:
        said = [f"{self.name}: turn {number}" for number in range(2 * len(self.pools) + 1)]
        body = {**chat(stream=True), "messages": turns(*said)}
        async with client.stream("POST", PATH, json=body) as reply:
            self.pools.append(reply.headers[f"{HEADER}pool"])
            await reply.aread()


async def test_alternating_load_moves_no_conversation(two_pools: Scene, redis_url: str):
    """OPEN-33 b: three and five chats by turns around a threshold of four; each stays where it began."""
    first, second = two_pools.gateways
    lasting = [Talking(gateway, f"lasting {n}") for n, gateway in enumerate((first, second, first))]
    passing = [Talking(second, f"passing {n}") for n in range(2)]
    engines = two_pools.speculating, two_pools.plain
    async with first.http() as client, second.http() as other, connect(redis_url) as redis:

        async def all_given_back() -> bool:
            return await redis.zcard("flashlane:slots:{flash/latency}") == 0

        async def running(talks: list[Talking]) -> list[asyncio.Task[None]]:
            wanted = [len(talk.pools) + 1 for talk in talks]
            begun = [
                asyncio.get_running_loop().create_task(talk.turn(client if talk.gateway is first else other))
                for talk in talks
            ]
            await until(lambda: [len(talk.pools) for talk in talks] == wanted, "all of them to stream")
            return begun

        for number in range(20):
            for engine in engines:
                engine.going.clear()
            begun = await running(lasting)
            begun += await running(passing) if number % 2 else []
            for engine in engines:
                engine.going.set()
            await asyncio.gather(*begun)
            await until(all_given_back, "every slot to be free again")
    assert {len(set(talk.pools)) for talk in (*lasting, *passing)} == {1}
    assert [talk.pools[0] for talk in (*lasting, *passing)] == ["latency"] * SLOTS + ["throughput"]
    assert two_pools.speculating.most <= SLOTS


async def test_chats_go_on_in_the_other_pool_while_the_first_is_down(two_pools: Scene):
    """OPEN-33 c: its engine says that it cannot serve; then it is gone."""
    two_pools.plain.going.set()
    fast, _ = two_pools.upstreams
    gateway = two_pools.gateways[0]

    async def loading(talk: Talk) -> None:
        await talk.json({"error": "loading"}, 503)

    fast.health = loading
    await gateway.services.fleet.probe()
    assert pool_of(await ask(gateway)) == "throughput"
    fast.health = None
    await gateway.services.fleet.probe()
    await fast.__aexit__(None, None, None)
    assert pool_of(await ask(gateway)) == "throughput"


async def test_a_full_pool_does_not_push_its_load_on_the_speculating_one(tmp_path: Path, redis_url: str):
    """OPEN-33 d: both are full, so the next is told when to come again."""
    async with scene(tmp_path, redis_url, throughput=2) as found:
        asking = [asyncio.ensure_future(ask(found.gateways[n % 2], f"Say {n}")) for n in range(SLOTS + 2)]
        await until(lambda: found.speculating.running + found.plain.running == SLOTS + 2, "both to be full")
        refused = await ask(found.gateways[0], "One more")
        assert refused.status_code == 429
        assert error_of(refused)["code"] == "rate_limit_exceeded"
        assert int(refused.headers["retry-after"]) >= 1
        assert (found.speculating.most, found.plain.most) == (SLOTS, 2)
        for engine in (found.speculating, found.plain):
            engine.going.set()
        assert {pool_of(reply) for reply in await asyncio.gather(*asking)} == {"latency", "throughput"}
