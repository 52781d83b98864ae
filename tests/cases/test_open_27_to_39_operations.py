"""Running: a loop that never blocks, engines that hang, load, come back, and drop kept connections."""

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any

import httpx

from backends.types import CHAT_PATH
from classifier.types import ComplexityEstimate, Conversation
from gateway.exchange import HEADER
from gateway.pipeline import Endpoint
from gateway.wire import parse_chat
from tests.cases.playing import (
    DONE,
    NO_FALLBACK,
    PATH,
    STOP,
    ask,
    asked,
    chat,
    error_of,
    member,
    silent,
    text_of,
    word,
)
from tests.fakes.raw_server import Peer, raw_server
from tests.fakes.upstream import ScriptedUpstream, Talk, answer, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest, serving
from tests.support.waiting import until


async def test_long_prompts_stop_neither_probes_nor_streams(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-27 a: probes and the tokens of another stream come on while fifty long prompts are judged."""
    running = True

    async def script(talk: Talk) -> None:
        if not talk.request.json().get("stream"):
            await talk.json(answer())
            return
        await talk.head()
        while running:
            await talk.send(word("on "))
            await asyncio.sleep(0.05)
        for piece in (STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = script
    now = asyncio.get_running_loop().time
    gaps: list[float] = []
    probes: list[float] = []

    async def listen() -> None:
        async with gateway.http() as client, client.stream("POST", PATH, json=chat(stream=True)) as reply:
            last = now()
            async for _ in reply.aiter_bytes():
                gaps.append(now() - last)
                last = now()

    async def probe() -> None:
        async with gateway.http(None) as client:
            while running:
                since = now()
                assert (await client.get("/health/liveliness")).status_code == 200
                probes.append(now() - since)
                await asyncio.sleep(0.02)

    body = json.dumps(chat("a river and its bridges " * 5000, model="auto")).encode()
    async with asyncio.TaskGroup() as group, gateway.http() as client:
        group.create_task(listen())
        group.create_task(probe())
        await until(lambda: len(gaps) > 2, "the stream to run")
        replies = await asyncio.gather(*(client.post(PATH, content=body) for _ in range(50)))
        running = False
    assert {reply.status_code for reply in replies} == {200}
    assert sorted(probes)[int(len(probes) * 0.99)] < 0.5
    assert max(gaps[1:]) < 0.6


class Broken:
    """A classifier that fails."""

    def estimate(self, conversation: Conversation) -> ComplexityEstimate:
        raise ArithmeticError("maybe?")


async def test_a_classifier_that_fails_costs_no_request(gateway: GatewayUnderTest):
    """OPEN-27 c: the default tier answers, and a metric counts it."""
    broken: Any = Broken()
    services = replace(gateway.services, classifier=broken)
    async with (
        serving(Endpoint(services, CHAT_PATH, parse_chat)) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        headers = {"authorization": f"Bearer {KEY}"}
        reply = await client.post(PATH, json=chat(model="auto"), headers=headers)
    assert reply.status_code == 200
    assert "classifier" in reply.headers[f"{HEADER}reason"]
    assert b"classifier" in services.telemetry.render()


async def test_an_engine_that_hangs_behind_a_healthy_page_is_taken_out(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream
):
    """OPEN-36 a: after about three requests without a token, and later ones see no delay."""
    flash.script = silent
    replicas = [flash.url, second.url]
    async with start_gateway(flash=replicas, timeouts={"first_token": 0.3}) as gateway:
        statuses = [(await ask(gateway, stream=True)).status_code for _ in range(12)]
        async with gateway.http(None) as client:
            assert (await client.get("/health/liveliness")).status_code == 200
    assert asked(flash) <= 5
    assert statuses[-6:] == [200] * 6


async def test_an_engine_that_brings_tokens_stays_in_though_its_probe_is_slow(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream
):
    """OPEN-36 b: the progress of one long stream outweighs missed probes."""
    stop = False

    async def long_stream(talk: Talk) -> None:
        await talk.head()
        while not stop:
            await talk.send(word("on "))
            await asyncio.sleep(0.02)
        for piece in (STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = long_stream
    async with (
        start_gateway(flash=[flash.url, second.url], timeouts={"connect": 0.2}) as gateway,
        asyncio.TaskGroup() as group,
    ):
        reply = group.create_task(ask(gateway, stream=True))
        await until(lambda: asked(flash) == 1, "the stream to begin")
        flash.health = silent
        for _ in range(4):
            await gateway.services.fleet.probe()
        taken = member(gateway).health.takes_requests(asyncio.get_running_loop().time())
        stop = True
        assert (await reply).status_code == 200
    assert taken


async def test_an_engine_that_recovers_gets_one_request_on_trial_and_comes_back(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-36 c, d: while all hang, a quick 503 that says when to come again; then half open; then in."""
    flash.script = silent
    async with start_gateway(timeouts={"first_token": 0.2}, tenant=NO_FALLBACK) as gateway:
        member(gateway).health.rest = 0.5
        for _ in range(3):
            assert (await ask(gateway, stream=True)).status_code == 504
        reply = await ask(gateway, stream=True)
        assert (reply.status_code, error_of(reply)["code"]) == (503, "model_unavailable")
        assert int(reply.headers["retry-after"]) >= 1
        assert asked(flash) == 3
        flash.script = well_behaved

        async def back() -> bool:
            return (await ask(gateway, stream=True)).status_code == 200

        await until(back, "the replica to come back")
        assert asked(flash) == 4


async def test_a_client_that_leaves_a_trial_does_not_keep_the_replica_out(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-36 c: also when it leaves after the headers and before the first token."""
    flash.script = silent
    timeouts = {"first_token": 0.4, "peek": 0.1}
    async with start_gateway(timeouts=timeouts, tenant=NO_FALLBACK) as gateway:
        health = member(gateway).health
        health.rest = 0.1
        for _ in range(3):
            await ask(gateway, stream=True)

        async def heads_only(talk: Talk) -> None:
            await talk.head()
            await talk.until_closed()

        flash.script = heads_only
        async with gateway.http() as client:

            async def on_trial() -> bool:
                async with client.stream("POST", PATH, json=chat(stream=True)) as reply:
                    return reply.status_code == 200

            await until(on_trial, "the trial to begin")
        await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
        flash.script = well_behaved
        health.rests_until = 0.0
        assert (await ask(gateway, stream=True)).status_code == 200


async def test_a_replica_gets_nothing_while_it_loads_and_little_when_it_is_new(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream
):
    """OPEN-37 a: no request before it is ready; then a ramp, not a flood."""
    go_on = asyncio.Event()

    async def loading(talk: Talk) -> None:
        await talk.json({"status": "loading"}, 503)

    async def held(talk: Talk) -> None:
        await go_on.wait()
        await talk.json(answer())

    second.health = loading
    flash.script = second.script = held
    async with start_gateway(flash=[flash.url, second.url]) as gateway, asyncio.TaskGroup() as group:
        early = [group.create_task(ask(gateway)) for _ in range(4)]
        await until(lambda: asked(flash) == 4, "the first requests")
        assert asked(second) == 0
        second.health = None
        await gateway.services.fleet.probe()
        late = [group.create_task(ask(gateway)) for _ in range(20)]
        await until(lambda: asked(flash, second) == 24, "all requests")
        assert 0 < asked(second) < 10
        go_on.set()
        assert {(await task).status_code for task in (*early, *late)} == {200}


async def test_a_model_without_a_ready_replica_is_a_503_and_an_unknown_one_a_404(start_gateway: StartGateway):
    """OPEN-37 b, c: the one is worth waiting for."""
    async with start_gateway(flash="http://127.0.0.1:9", tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway)
        assert reply.status_code == 503
        assert int(reply.headers["retry-after"]) >= 1
        unknown = await ask(gateway, model="no-such-model")
        assert (unknown.status_code, error_of(unknown)["code"]) == (404, "model_not_found")


async def test_a_replica_that_drains_ends_its_streams_and_gets_no_new_ones(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream
):
    """OPEN-37 d: though its streams go on bringing tokens."""
    beat, go_on = asyncio.Event(), asyncio.Event()

    async def streaming_on(talk: Talk) -> None:
        await talk.head()
        await talk.send(word("Danube"))
        await beat.wait()
        await talk.send(word(" and Inn"))
        await go_on.wait()
        for piece in (STOP, DONE):
            await talk.send(piece)
        await talk.end()

    async def draining(talk: Talk) -> None:
        beat.set()  # a token comes while the health page is asked
        await until(lambda: member(gateway).health.last_token > asked_at, "a token")
        await talk.json({"error": {"message": "draining"}}, 503)

    flash.script = streaming_on
    async with start_gateway(flash=[flash.url, second.url]) as gateway, asyncio.TaskGroup() as group:
        member(gateway, "flash/main/1").in_flight += 9  # so that the first one gets them
        running = [group.create_task(ask(gateway, stream=True)) for _ in range(3)]
        await until(lambda: asked(flash) == 3, "the streams to run")
        member(gateway, "flash/main/1").in_flight -= 9
        asked_at = gateway.services.clock.monotonic()
        flash.health = draining
        await gateway.services.fleet.probe()
        for _ in range(6):
            assert (await ask(gateway)).headers[f"{HEADER}replica"] == "flash/main/1"
        assert not any(task.done() for task in running)
        go_on.set()
        assert {(await task).text.endswith(DONE) for task in running} == {True}
        assert {text_of(await task) for task in running} == {"Danube and Inn"}
        flash.health, flash.script = None, second.script
        await gateway.services.fleet.probe()
        assert member(gateway).health.takes_requests(gateway.services.clock.monotonic())
    assert asked(flash) == 3


def http(body: bytes) -> bytes:
    """Return an answer with a length."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


PLAIN = http(json.dumps(answer()).encode())


async def test_a_kept_connection_that_closes_as_it_is_used_again_costs_nothing(start_gateway: StartGateway):
    """OPEN-39 a: no error, and each request once, around the engine's idle limit."""
    served = 0

    async def impatient(peer: Peer) -> None:
        nonlocal served
        with contextlib.suppress(TimeoutError):
            while request := await asyncio.wait_for(peer.request(), 0.1):
                served += request.startswith(b"POST")
                await peer.say(PLAIN)

    async with (
        raw_server(impatient) as engine,
        start_gateway(flash=engine.url, tenant=NO_FALLBACK) as gateway,
    ):

        async def one_client(number: int) -> list[int]:
            statuses: list[int] = []
            async with gateway.http() as client:
                for turn in range(10):
                    statuses.append((await client.post(PATH, json=chat())).status_code)
                    await asyncio.sleep(0.09 + 0.002 * ((number + turn) % 10))
            return statuses

        found = await asyncio.gather(*map(one_client, range(10)))
    assert found == [[200] * 10] * 10
    assert served == 100


async def test_an_engine_that_closes_after_each_answer_without_saying_so_costs_nothing(
    start_gateway: StartGateway,
):
    """OPEN-39 b: fifty requests, no error, each once."""
    served = 0

    async def curt(peer: Peer) -> None:
        nonlocal served
        request = await peer.request()
        served += request.startswith(b"POST")
        await peer.say(PLAIN)

    async with raw_server(curt) as engine, start_gateway(flash=engine.url, tenant=NO_FALLBACK) as gateway:
        statuses = {(await ask(gateway)).status_code for _ in range(50)}
    assert statuses == {200}
    assert served == 50


async def test_a_request_that_got_to_work_on_a_kept_connection_is_tried_again_once_at_most(
    start_gateway: StartGateway,
):
    """OPEN-39 c: however many connections are kept."""
    begun = 0
    dying = False
    together = asyncio.Barrier(5)

    async def play(peer: Peer) -> None:
        nonlocal begun
        while request := await peer.request():
            if not request.startswith(b"POST"):
                await peer.say(PLAIN)
                continue
            begun += 1
            if dying:
                return
            await together.wait()
            await peer.say(PLAIN)

    async with raw_server(play) as engine, start_gateway(flash=engine.url, tenant=NO_FALLBACK) as gateway:
        await asyncio.gather(*(ask(gateway) for _ in range(5)))
        begun, dying = 0, True
        reply = await ask(gateway)
    assert reply.status_code in {502, 503}
    assert begun <= 2
