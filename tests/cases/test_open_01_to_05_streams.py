"""Streams: clients that leave, engines that die, bytes cut anywhere, comments, usage."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from gateway.exchange import HEADER
from tests.cases.playing import (
    DONE,
    EASY,
    NO_FALLBACK,
    PATH,
    ROLE,
    STOP,
    answering,
    ask,
    asked,
    chat,
    chunk,
    counted,
    deltas,
    error_in,
    error_of,
    event,
    member,
    payloads,
    record_of,
    silent,
    streaming,
    text_of,
    word,
)
from tests.fakes.upstream import ScriptedUpstream, Talk, answer
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest
from tests.support.waiting import until

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": EASY}]


async def test_a_client_that_leaves_a_stream_stops_the_engine_and_nobody_is_blamed(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-01: cancelled upstream within 2 s, nothing in flight, a record of what was produced."""
    sent = 0

    async def talkative(talk: Talk) -> None:
        nonlocal sent
        await talk.head()
        for _ in range(200):
            await talk.send(word("on "))
            sent += 1
            await asyncio.sleep(0.1)

    flash.script = talkative
    async with gateway.http() as client, client.stream("POST", PATH, json=chat(stream=True)) as reply:
        seen = 0
        async for line in reply.aiter_lines():
            seen += line.startswith("data: ")
            if seen == 3:
                break
        request_id = reply.headers[f"{HEADER}request-id"]
    await until(lambda: flash.open_connections == 0, "the engine to be let go", patience=2)
    assert sent < 25
    await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
    record = await gateway.record(request_id)
    assert (record.status, record.http_status, record.usage_estimated) == ("cancelled", 499, True)
    assert record.completion_tokens >= 3
    assert asked(flash, standard) == 1
    assert member(gateway).health.failures == 0
    assert member(gateway).health.rests_until is None


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_first_byte_stops_the_engine(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream, stream: bool
):
    """OPEN-01: the same while nothing has come yet, streamed and plain."""
    flash.script = silent
    async with gateway.http() as client:
        asking = asyncio.get_running_loop().create_task(client.post(PATH, json=chat(stream=stream)))
        await until(lambda: len(flash.requests) == 1, "the engine to be asked")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await until(lambda: gateway.in_flight() == 0, "nothing to be in flight", patience=2)
    await until(lambda: flash.open_connections == 0, "the engine to be let go", patience=2)
    assert asked(flash, standard) == 1
    assert member(gateway).health.failures == 0


async def test_a_client_that_leaves_in_the_silence_after_the_peek_stops_the_engine(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-01: the same once headers are out and still no token is there."""
    flash.script = streaming(": hold on\n\n", then="hang")
    async with start_gateway(timeouts={"peek": 0.1}) as gateway:
        async with gateway.http() as client, client.stream("POST", PATH, json=chat(stream=True)) as reply:
            request_id = reply.headers[f"{HEADER}request-id"]
        await until(lambda: flash.open_connections == 0, "the engine to be let go", patience=2)
        await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
        assert (await gateway.record(request_id)).status == "cancelled"
        assert member(gateway).health.failures == 0


async def test_an_engine_that_dies_in_a_stream_ends_it_in_an_error_that_the_client_sees(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-02 a: no invented finish, no `[DONE]`; what was delivered is on the record."""
    flash.script = streaming(ROLE, word("The Dan"), word("ube"), then="cut")
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == "The Danube"
    assert error_in(reply)["code"] == "upstream_error"
    record = await record_of(gateway, reply)
    assert (record.status, record.completion_tokens, record.error) == ("incomplete", 2, "upstream_error")
    assert asked(standard) == 0
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="flash", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError):
            async for _ in stream:
                pass
    async with gateway.http(None) as client:
        metrics = (await client.get("/metrics")).text
    assert 'flashlane_upstream_errors_total{kind="BackendError",replica="flash/main/0"} 2.0' in metrics


async def test_an_engine_that_dies_before_its_first_event_is_replaced_once_unseen(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream
):
    """OPEN-02 b: one silent failover to the other replica."""
    flash.script = streaming(then="cut")
    async with start_gateway(flash=[flash.url, second.url]) as gateway:
        reply = await ask(gateway, stream=True)
        record = await record_of(gateway, reply)
    assert text_of(reply) == "Paris."
    assert reply.text.endswith(DONE)
    assert (record.status, record.attempts) == ("ok", 2)


@pytest.mark.parametrize("pieces", [(), (": hello\n\n",), (ROLE,)])
async def test_an_engine_that_dies_before_its_first_token_and_has_no_stand_in_is_an_error_status(
    start_gateway: StartGateway, flash: ScriptedUpstream, pieces: tuple[str, ...]
):
    """OPEN-02 b: 502 or 503 in JSON, never an empty 200."""
    flash.script = streaming(*pieces, then="cut")
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway, stream=True)
    assert reply.status_code in {502, 503}
    assert error_of(reply)["code"] == "upstream_error"


@pytest.mark.parametrize("then", ["end", "cut"])
async def test_an_engine_that_dies_after_the_peek_without_a_token_is_an_error_event(
    start_gateway: StartGateway, flash: ScriptedUpstream, then: str
):
    """OPEN-02: once the status is out, an answer that never came is told in the stream."""

    async def slow_death(talk: Talk) -> None:
        await talk.head()
        await talk.send(ROLE)
        await asyncio.sleep(0.4)
        if then == "end":
            await talk.end()
        else:
            talk.abort()

    flash.script = slow_death
    async with start_gateway(timeouts={"peek": 0.1}, tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway, stream=True)
    assert error_in(reply)["code"] == "upstream_error"


async def test_characters_survive_a_stream_that_comes_byte_by_byte(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-03 a: no replacement characters, whatever is cut."""
    said = "多瑙河 🚢 à Vienne — Дунай"
    pieces = [bytes([byte]) for byte in word(said).encode()]
    flash.script = streaming(*pieces, STOP, DONE)
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="flash", messages=MESSAGES, stream=True)
        text = "".join([part.choices[0].delta.content or "" async for part in stream])
    assert text == said


async def test_the_arguments_of_a_tool_call_survive_a_cut_inside_an_emoji(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-03 b: what is joined is JSON, with the character whole."""
    function = {"name": "mark", "arguments": '{"sign":"🚢"}'}
    call = {"index": 0, "id": "t1", "type": "function", "function": function}
    whole = chunk({"tool_calls": [call]}).encode()
    middle = whole.index("🚢".encode()) + 2

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(whole[:middle])
        await asyncio.sleep(0.05)
        for piece in (whole[middle:], chunk({}, "tool_calls"), DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = script
    reply = await ask(gateway, stream=True)
    assert json.loads(deltas(reply)[0]["tool_calls"][0]["function"]["arguments"]) == {"sign": "🚢"}
    assert "\ufffd" not in reply.text


async def test_unicode_line_separators_end_no_line_of_a_stream(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-03 c: only CR and LF end lines."""
    said = "up\u2028down\u0085left\u2029right\x0b\x0c\x1c"
    raw = (
        word(said).replace("\\u000b", "\x0b").encode()
    )  # json escapes control characters; the others stand as they are
    flash.script = streaming(raw.replace(b"\x0b", b"\\u000b"), STOP, DONE)
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == said


async def test_comments_are_no_data_and_no_first_token(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-04 a: the time to the first token is that of the first text."""
    pause = 0.1

    async def script(talk: Talk) -> None:
        await talk.head()
        for _ in range(3):
            await talk.send(": keep-alive\n\n")
            await asyncio.sleep(pause)
        await talk.send(ROLE)
        await asyncio.sleep(pause)
        for piece in (word("Danube"), ": keep-alive\n\n", STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = script
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == "Danube"
    assert "data: :" not in reply.text
    record = await record_of(gateway, reply)
    assert record.ttft_ms is not None
    assert record.ttft_ms >= 4 * pause * 1000 * 0.95
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="flash", messages=MESSAGES, stream=True)
        assert "".join([part.choices[0].delta.content or "" async for part in stream]) == "Danube"


async def test_comments_keep_a_running_stream_alive(start_gateway: StartGateway, flash: ScriptedUpstream):
    """OPEN-04: a keep-alive resets the clock between tokens."""

    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(word("Dan"))
        for _ in range(10):
            await asyncio.sleep(0.1)
            await talk.send(": keep-alive\n\n")
        for piece in (word("ube"), STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = script
    async with start_gateway(timeouts={"idle": 0.6}) as gateway:
        reply = await ask(gateway, stream=True)
    assert text_of(reply) == "Danube"
    assert reply.text.endswith(DONE)


@pytest.mark.parametrize(("peek", "in_band"), [(5.0, False), (0.1, True)])
async def test_comments_do_not_put_off_the_deadline_of_the_first_token(
    start_gateway: StartGateway, flash: ScriptedUpstream, peek: float, in_band: bool
):
    """OPEN-04: an engine that only comments has brought no token."""

    async def script(talk: Talk) -> None:
        await talk.head()
        while True:
            await talk.send(": keep-alive\n\n")
            await asyncio.sleep(0.05)

    flash.script = script
    async with start_gateway(timeouts={"first_token": 0.5, "peek": peek}) as gateway:
        reply = await ask(gateway, stream=True)
        await until(lambda: flash.open_connections == 0, "the engine to be let go", patience=2)
    if in_band:
        assert error_in(reply)["code"] == "timeout"
    else:
        assert (reply.status_code, error_of(reply)["code"]) == (504, "timeout")


async def test_blank_lines_before_a_plain_answer_are_no_fault(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-04 b: an engine that sends newlines while it queues a plain request."""

    async def script(talk: Talk) -> None:
        await talk.head(headers={"content-type": "application/json"})
        for _ in range(3):
            await talk.send("\n")
            await asyncio.sleep(0.05)
        await talk.send(json.dumps(answer("Danube.")))
        await talk.end()

    flash.script = script
    reply = await ask(gateway)
    assert reply.status_code == 200
    assert reply.json()["choices"][0]["message"]["content"] == "Danube."
    async with gateway.openai() as client:
        plain = await client.chat.completions.create(model="flash", messages=MESSAGES)
    assert plain.choices[0].message.content == "Danube."


async def test_fields_that_mean_nothing_to_clients_are_taken_off(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-04 c: `retry`, `id` and `event` lines crash clients; the text stays."""
    flash.script = streaming(
        "retry: 2500\n\n", f"id: 3\n{word('Danube')}", ": ping\n\n", f"event: message\n{STOP}", DONE
    )
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == "Danube"
    assert not any(line.startswith(("id:", "retry:", "event:")) for line in reply.text.splitlines())
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="flash", messages=MESSAGES, stream=True)
        assert "".join([part.choices[0].delta.content or "" async for part in stream]) == "Danube"


LAST = event({"choices": [], "usage": counted(12, 3)})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stream_options": None},
        {"stream_options": {"include_usage": False}},
        {"stream_options": {"include_usage": None}},
    ],
)
async def test_usage_is_metered_and_unseen_by_a_client_that_did_not_ask(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, options: dict[str, Any]
):
    """OPEN-05 a, c: no client can switch the metering off."""
    flash.script = streaming(word("Danube"), STOP, LAST, DONE)
    reply = await ask(gateway, stream=True, **options)
    assert flash.requests[0].json()["stream_options"]["include_usage"] is True
    assert all(body["choices"] for body in payloads(reply))
    record = await record_of(gateway, reply)
    assert (record.prompt_tokens, record.completion_tokens, record.usage_estimated) == (12, 3, False)


async def test_usage_comes_once_and_right_before_the_end_for_a_client_that_asked(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-05 b: one chunk without choices, then `[DONE]`."""
    flash.script = streaming(word("Danube"), STOP, LAST, DONE)
    reply = await ask(gateway, stream=True, stream_options={"include_usage": True})
    assert reply.text.endswith(LAST + DONE)
    assert reply.text.count('"usage"') == 1


async def test_of_usage_that_grows_the_last_counts(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-05 d: running totals are not added up."""
    growing = [word("la ", usage=counted(12, count)) for count in range(1, 6)]
    flash.script = streaming(*growing, STOP, event({"choices": [], "usage": counted(12, 5)}), DONE)
    reply = await ask(gateway, stream=True)
    record = await record_of(gateway, reply)
    assert (record.prompt_tokens, record.completion_tokens) == (12, 5)


@pytest.mark.parametrize("choices", [[], None])
async def test_a_chunk_without_choices_at_the_start_is_no_fault(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, choices: Any
):
    """OPEN-05 e: some engines begin with one."""
    flash.script = streaming(event({"id": "", "choices": choices}), word("Danube"), STOP, DONE)
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == "Danube"
    assert reply.text.endswith(DONE)


async def test_a_plain_request_carries_no_stream_options(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-05 f: engines refuse them there."""
    flash.script = answering(answer())
    assert (await ask(gateway, stream=False)).status_code == 200
    assert "stream_options" not in flash.requests[0].json()
