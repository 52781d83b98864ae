"""How long an engine is waited for, and what happens then."""

import asyncio
import json

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from backends.health import FAILURES
from gateway import pipeline
from gateway.exchange import HEADER
from tests.cases.playing import EASY, NO_FALLBACK, PATH, ask, chat, silent
from tests.fakes.upstream import ScriptedUpstream, Talk, events, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest
from tests.support.waiting import until

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": EASY}]


async def hang_in_stream(talk: Talk) -> None:
    """Begin a stream, bring one token, and say no more."""
    await talk.head()
    await talk.send(events()[1])
    await talk.until_closed()


@pytest.mark.parametrize(
    ("stream", "timeouts", "words"),
    [
        (False, {"total": 0.2}, "no answer within 0.2 s"),
        (True, {"first_token": 0.2}, "within 0.2 s"),
        (True, {"total": 0.2}, "within"),
    ],
)
async def test_an_engine_that_hangs_is_given_up_and_no_other_does_the_work_again(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    stream: bool,
    timeouts: dict[str, float],
    words: str,
):
    flash.script = silent
    if "total" in timeouts:
        timeouts = {**timeouts, "first_token": 0.2}
    async with start_gateway(timeouts=timeouts) as gateway:
        answer = await ask(gateway, stream=stream)
        await until(lambda: flash.open_connections <= 1, "the engine to be told to stop", patience=2)
        assert gateway.in_flight() == 0
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (504, "timeout")
    assert words in error["message"]
    assert answer.headers["x-should-retry"] == "false"
    assert len(flash.requests) == 1
    assert not standard.requests


async def test_the_official_client_does_not_retry_work_that_timed_out(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = silent
    async with (
        start_gateway(timeouts={"total": 0.1}) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY) as client,
    ):
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model="flash", messages=MESSAGES)
    assert len(flash.requests) == 1


async def test_a_stream_that_falls_silent_ends_in_an_error(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = hang_in_stream
    async with start_gateway(timeouts={"idle": 0.2}) as gateway:
        answer = await ask(gateway, stream=True)
        record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    last = json.loads(answer.text.strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["error"]["code"] == "timeout"
    assert "[DONE]" not in answer.text
    assert (record.status, record.completion_tokens) == ("incomplete", 1)


async def test_comments_keep_a_stream_alive_and_do_not_count_as_a_token(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        for _ in range(8):
            await talk.send(": ping\n\n")
            await asyncio.sleep(0.1)
        for event in events():
            await talk.send(event)
        await talk.end()

    flash.script = script
    async with start_gateway(timeouts={"idle": 0.4, "peek": 0.2}) as gateway:
        answer = await ask(gateway, stream=True)
        record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert answer.text.endswith("data: [DONE]\n\n")
    assert record.ttft_ms is not None
    assert record.ttft_ms > 0.6 * record.total_ms


async def test_a_slow_start_sends_the_status_and_keeps_the_client_alive(
    start_gateway: StartGateway, flash: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
):
    go_on = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.head()
        await go_on.wait()
        for event in events():
            await talk.send(event)
        await talk.end()

    flash.script = script
    monkeypatch.setattr(pipeline, "KEEP_ALIVE_SECONDS", 0.05)
    async with (
        start_gateway(timeouts={"peek": 0.05}) as gateway,
        gateway.http() as client,
        client.stream("POST", PATH, json=chat(stream=True)) as answer,
    ):
        lines = answer.aiter_lines()
        assert answer.status_code == 200
        assert await anext(lines) == ": keep-alive"
        go_on.set()
        rest = [line async for line in lines]
    assert rest[-2:] == ["data: [DONE]", ""] or rest[-1] == "data: [DONE]"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [(400, 400, None), (500, 502, "upstream_error"), (None, 502, "upstream_error")],
)
async def test_an_error_inside_a_200_becomes_a_status(
    start_gateway: StartGateway, flash: ScriptedUpstream, code: int | None, status: int, kind: str | None
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(events()[0])
        await talk.send(f"data: {json.dumps({'error': {'message': 'no', 'code': code}})}\n\n")
        await talk.send("data: [DONE]\n\n")
        await talk.end()

    flash.script = script
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        answer = await ask(gateway, stream=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, kind)


async def test_an_empty_stream_is_tried_once_elsewhere(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send("data: [DONE]\n\n")
        await talk.end()

    flash.script = script
    answer = await ask(gateway, stream=True)
    assert answer.headers[f"{HEADER}model"] == "standard"
    assert len(standard.requests) == 1


async def test_a_hung_engine_whose_health_page_smiles_is_taken_out(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    standard.script = silent  # plays flash's first replica here
    urls = [standard.url, flash.url]
    async with start_gateway(flash=urls, tenant=NO_FALLBACK, timeouts={"first_token": 0.1}) as gateway:
        answers = [await ask(gateway, stream=True) for _ in range(20)]
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(504) <= FAILURES
    assert set(statuses[-10:]) == {200}
    assert len(standard.requests) <= FAILURES


async def test_an_engine_that_comes_back_is_found_again(start_gateway: StartGateway, flash: ScriptedUpstream):
    async def die(talk: Talk) -> None:
        talk.abort()

    flash.script = die
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        for _ in range(FAILURES):
            assert (await ask(gateway)).status_code == 502
        answer = await ask(gateway)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")
        flash.script = well_behaved

        async def back() -> bool:
            return (await ask(gateway)).status_code == 200

        await until(back, "the engine to be tried again")
