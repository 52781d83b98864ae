"""Prefixes: a hot one spreads, a wrong index is put right, a prompt is what its engine reads."""

import asyncio
import random
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import zmq.asyncio

from backends.placement.block_events import TrackedGroups
from backends.placement.naming import PromptNamer
from backends.pools.engine_metrics import EngineCounts
from gateway.exchange import HEADER
from gateway.placing import make_namer
from tests.cases.playing import EASY, WEATHER, answering, ask, member, record_of
from tests.fakes.caching import BLOCK, CachingEngine
from tests.fakes.kv_events import CLEARED, KvPublisher, stored
from tests.fakes.tokenizer import TEMPLATE, tokens_of, trained, write_model
from tests.fakes.upstream import ScriptedUpstream
from tests.support.gateway import GatewayUnderTest, running_gateway
from tests.support.waiting import until

SYSTEM = "You are the helper of a shop and answer in one sentence. " * 60
"""Some thousand tokens of the tokenizer of these tests."""


@dataclass(slots=True)
class Group:
    """Replicas of flash behind a gateway."""

    gateway: GatewayUnderTest
    engines: list[CachingEngine]
    upstreams: list[ScriptedUpstream]

    async def ask(self, user: str = EASY, *, system: str = SYSTEM, **fields: Any) -> str:
        """Ask with a system prompt; return the replica that answered."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        reply = await ask(self.gateway, messages=messages, **fields)
        assert reply.status_code == 200, reply.text
        return reply.headers[f"{HEADER}replica"]

    async def predicted(self, user: str = EASY, *, system: str = SYSTEM, **fields: Any) -> tuple[int, int]:
        """Ask, and return the tokens that the replica was taken to hold, and those that it did hold."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        reply = await ask(self.gateway, messages=messages, **fields)
        record = await record_of(self.gateway, reply)
        said = next(line for line in record.trace if line.startswith("placement:holds "))
        return int(said.split()[1]), record.cached_tokens

    async def metrics(self) -> str:
        async with self.gateway.http() as client:
            return (await client.get("/metrics")).text


@asynccontextmanager
async def group(
    tmp_path: Path, redis_url: str, standard: ScriptedUpstream, count: int, **more: Any
) -> AsyncGenerator[Group]:
    """Run a gateway over so many replicas of flash, each with a cache."""
    replica: Mapping[str, Any] = more.pop("replica", {})
    pool: Mapping[str, Any] = more.pop("pool", {})
    engines = [CachingEngine(**more) for _ in range(count)]
    files = await asyncio.to_thread(write_model, tmp_path / "tokenizer")
    async with AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(ScriptedUpstream(engine.script)) for engine in engines]
        replicas = [{"url": upstream.url, "engine": "vllm", **replica} for upstream in upstreams]
        section = {
            "pools": [{"name": "main", "replicas": replicas, **pool}],
            "gsm": {"group_size": BLOCK},
            "tokenizer_files": str(files),
        }
        gateway = await stack.enter_async_context(
            running_gateway(
                tmp_path,
                redis_url,
                flash=[upstream.url for upstream in upstreams],
                standard=standard.url,
                models={"flash": section},
            )
        )
        yield Group(gateway, engines, upstreams)


class Start(Protocol):
    """Starts a group of so many replicas."""

    def __call__(self, count: int, **more: Any) -> AbstractAsyncContextManager[Group]: ...


@pytest.fixture
def start(tmp_path: Path, redis_url: str, standard: ScriptedUpstream) -> Start:
    """Return what starts a group."""

    def begin(count: int, **more: Any) -> AbstractAsyncContextManager[Group]:
        return group(tmp_path, redis_url, standard, count, **more)

    return begin


# OPEN-29: a hot prefix, and loads that are polled


async def test_29a_a_hot_prefix_spreads_and_nobody_waits_while_a_replica_is_idle(start: Start):
    """A quarter of the case's service time, and as many requests in flight."""
    draw, pace = random.Random(29), 1 / 64
    async with start(4, seconds=0.25, pool={"max_concurrency": 32}) as flash:
        asking: list[asyncio.Task[str]] = []
        samples: list[list[int]] = []
        loop = asyncio.get_running_loop()
        for number in range(192):
            shared = draw.random() < 0.9
            system = SYSTEM if shared else f"{number} {draw.random()} " * 40
            asking.append(loop.create_task(flash.ask(f"Question {number}?", system=system)))
            await asyncio.sleep(pace)
            samples.append([engine.running for engine in flash.engines])
        await asyncio.gather(*asking)
        means = [sum(each) / len(samples) for each in zip(*samples, strict=True)]
        assert max(means) <= 2 * sum(means) / 4
        assert max(engine.most_running for engine in flash.engines) <= 8
        warm = [engine for engine in flash.engines if sum(engine.cached) > 0]
        assert len(warm) > 1
        hits, prompts = (sum(sum(getattr(e, name)) for e in flash.engines) for name in ("cached", "prompts"))
        assert hits / prompts > 0.6


async def test_29b_our_own_requests_count_between_two_polls(start: Start):
    async with start(2, seconds=0.3) as flash:
        for index, running in enumerate((0, 1)):
            member(flash.gateway, f"flash/main/{index}").heard(EngineCounts(running=running), 0)
        told = await asyncio.gather(*(flash.ask("Say hello", system="Hello.") for _ in range(8)))
        assert max(Counter(told).values()) <= 5


async def test_29c_an_idle_group_sends_a_prefix_to_the_replica_that_holds_it(start: Start):
    async with start(4) as flash:
        told = Counter([await flash.ask(f"Question {number}?") for number in range(20)])
        assert max(told.values()) >= 18


# OPEN-30: the index is wrong


async def test_30a_an_engine_that_was_restarted_gets_no_credit(start: Start):
    async with start(2) as flash:
        first = await flash.ask()
        index = int(first[-1])
        metrics = "vllm:num_requests_running 0\nprocess_start_time_seconds {}\n"
        for started in (1, 2):
            flash.upstreams[index].metrics = metrics.format(started)
            await flash.gateway.services.desk.read_engines()
        flash.engines[index].clear()
        predicted, cached = await flash.predicted()
        assert (predicted, cached) == (0, 0)


async def test_30b_an_engine_that_tells_that_its_cache_was_cleared_gets_no_credit(start: Start):
    context = zmq.asyncio.Context()
    publisher = KvPublisher(context)
    try:
        async with start(1, replica={"kv_events": publisher.address}) as flash:
            await publisher.subscribed()
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": EASY}]
            tokens = tokens_of(trained(), {"messages": messages})
            blocks = [b"%d" % number for number in range(len(tokens) // 4)]
            salts = [[flash.gateway.services.salts.of_name("acme")], *[None] * (len(blocks) - 1)]
            await publisher.publish(stored(blocks, tokens[: 4 * len(blocks)], extra_keys=salts))
            held = member(flash.gateway).standing.held
            assert isinstance(held, TrackedGroups)
            await until(lambda: bool(len(held)), "the event")
            assert (await flash.predicted())[0] == len(tokens) // BLOCK * BLOCK
            await publisher.publish(CLEARED)
            await until(lambda: not len(held), "the cache to be cleared")
            assert (await flash.predicted())[0] == 0
    finally:
        context.destroy(linger=0)


async def test_30c_an_engine_whose_answers_say_that_nothing_was_held_is_not_preferred_for_long(start: Start):
    async with start(1) as flash:
        for _ in range(3):
            await flash.ask()
        assert (await flash.predicted())[0] > 1000
        flash.engines[0].clear()
        flash.engines[0].caches = False
        credit = [(await flash.predicted())[0] for _ in range(10)]
        assert credit[0] > 1000
        assert max(credit[4:]) < credit[0] / 2
        page = await flash.metrics()
        for kind in ("predicted", "cached"):
            assert f'flashlane_prefix_tokens_total{{kind="{kind}",replica="flash/main/0"}}' in page


async def test_30d_a_replica_that_left_and_came_back_gets_no_credit(start: Start):
    async with start(1) as flash:
        await flash.ask()
        flash.upstreams[0].health = answering({"detail": "gone"}, 503)
        await flash.gateway.services.fleet.probe()
        flash.upstreams[0].health = None
        await flash.gateway.services.fleet.probe()
        flash.engines[0].clear()
        assert await flash.predicted() == (0, 0)


# OPEN-31: what makes a prefix


async def test_31a_what_is_predicted_is_what_the_engine_finds(start: Start):
    async with start(2) as flash:
        await flash.ask("Where is my parcel, and when will it be here?")
        predicted, cached = await flash.predicted("May I return a shirt that I have worn once?")
        assert predicted > 500
        assert abs(predicted - cached) <= BLOCK


async def test_31b_other_tools_are_another_prefix_from_where_they_stand(start: Start):
    other = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
    async with start(1) as flash:
        await flash.ask(tools=[WEATHER])
        assert (await flash.predicted(tools=[WEATHER]))[0] > 500
        predicted, cached = await flash.predicted(tools=[WEATHER, other])
        assert predicted < 200
        assert abs(predicted - cached) <= BLOCK


async def test_31c_a_clock_at_the_head_is_reported_and_left_as_it_is(start: Start):
    async with start(1) as flash:
        for minute in (31, 32):
            system = f"Current time: 10:{minute}. {SYSTEM}"
            predicted, cached = await flash.predicted(system=system)
            assert predicted <= BLOCK
            assert cached <= BLOCK
            assert flash.engines[0].bodies[-1]["messages"][0]["content"] == system
        assert 'flashlane_volatile_prefixes_total{tenant="acme"} 2.0' in await flash.metrics()


async def test_31d_a_clock_at_the_end_spoils_nothing(start: Start):
    async with start(1) as flash:
        await flash.ask("Is the shop open? Current time: 10:31")
        predicted, cached = await flash.predicted("Is the shop open? Current time: 10:32")
        assert predicted > 500
        assert abs(predicted - cached) <= BLOCK
        assert "flashlane_volatile_prefixes_total{" not in await flash.metrics()


async def test_31e_only_the_exact_text_is_taken_for_a_prefix(start: Start):
    accents = unicodedata.normalize("NFC", "Du är hjälpsam på svenska. ") + SYSTEM
    async with start(1) as flash:
        await flash.ask(system=accents)
        whole = (await flash.predicted(system=accents))[0]
        for other in (unicodedata.normalize("NFD", accents), accents + "\n"):
            predicted, cached = await flash.predicted(system=other)
            assert predicted < whole
            assert abs(predicted - cached) <= BLOCK


def with_another_template(folder: Path) -> PromptNamer:
    return make_namer("flash-upstream", write_model(folder, "<|im_start|>" + TEMPLATE), BLOCK)


async def test_31e_another_template_is_another_prefix(tmp_path: Path, start: Start):
    async with start(1) as flash:
        await flash.ask()
        namers = flash.gateway.services.namers
        assert isinstance(namers, dict)
        namers["flash"] = await asyncio.to_thread(with_another_template, tmp_path / "changed")
        assert (await flash.predicted())[0] == 0


async def test_31f_a_store_of_events_that_is_not_there_fails_no_request(start: Start):
    async with start(
        1, replica={"kv_events": "tcp://127.0.0.1:9", "kv_replay": "tcp://127.0.0.1:9"}
    ) as flash:
        assert await flash.ask() == "flash/main/0"
