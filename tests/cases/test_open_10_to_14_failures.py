"""Failures: what a client is told, what is tried again, and how long is waited."""

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from backends.types import CHAT_PATH
from gateway.exchange import HEADER
from tests.cases.playing import (
    DONE,
    EASY,
    NO_FALLBACK,
    ROLE,
    STOP,
    answering,
    ask,
    asked,
    chat,
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
from tests.fakes.upstream import ScriptedUpstream, Talk, answer, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, OTHER_KEY, GatewayUnderTest
from tests.support.waiting import until

TOO_LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."


async def test_a_refusal_of_a_stream_is_a_status_before_any_event(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-10 a: 400 in JSON, and no other model is tried."""
    flash.script = answering({"error": {"message": TOO_LONG, "type": "BadRequestError", "code": 400}}, 400)
    reply = await ask(gateway, stream=True, max_tokens=4000)
    assert reply.status_code == 400
    assert error_of(reply)["code"] == "context_length_exceeded"
    assert asked(standard) == 0


@pytest.mark.parametrize(("code", "status"), [(400, 400), (500, 502), (None, 502)])
async def test_an_error_in_the_first_event_becomes_a_status(
    start_gateway: StartGateway, flash: ScriptedUpstream, code: int | None, status: int
):
    """OPEN-10: an error inside a stream with status 200, while nothing was sent."""
    flash.script = streaming(event({"error": {"message": "no room", "code": code}}), DONE)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway, stream=True)
    assert reply.status_code == status
    error_of(reply)


MEANT = [
    pytest.param({"error": {"message": TOO_LONG, "code": "context_length_exceeded"}}, 400, id="too long"),
    pytest.param({"object": "error", "message": "bad temperature", "code": 400}, 400, id="old refusal"),
    pytest.param({"error": {"message": "bad", "code": "422"}}, 400, id="code as text"),
    pytest.param({"error": {"message": "slow down", "code": 429}}, 429, id="rate limit"),
    pytest.param({"error": {"message": "no slot", "code": 503}}, 503, id="overload"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "status"), MEANT)
async def test_an_error_inside_a_200_is_the_error_that_its_words_and_code_say(
    start_gateway: StartGateway, flash: ScriptedUpstream, body: Any, status: int, stream: bool
):
    """OPEN-10, OPEN-11: no fault of the replica, which stays in."""
    flash.script = streaming(event(body), DONE) if stream else answering(body)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        replies = [await ask(gateway, stream=stream) for _ in range(4)]
        assert member(gateway).health.failures == 0
    assert [reply.status_code for reply in replies] == [status] * 4
    assert (error_of(replies[0])["code"] == "context_length_exceeded") == (TOO_LONG in str(body))


async def test_a_plain_answer_of_an_engine_that_does_not_stream_is_told_as_a_stream(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-10: a client that reads a stream sees nothing of a JSON answer, and takes it for an empty one."""
    whole = answer("Danube.")
    call = {"id": "one", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    whole["choices"][0]["message"]["tool_calls"] = [call]
    flash.script = answering(whole)
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": EASY}]
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(
            model="flash", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        chunks = [part async for part in stream]
    choices = [choice for part in chunks for choice in part.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "Danube."
    assert [c.id for choice in choices for c in choice.delta.tool_calls or ()] == ["one"]
    assert [choice.finish_reason for choice in choices] == [None, "stop"]
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].choices) == (12, [])
    reply = await ask(gateway, stream=True)
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.text.endswith(DONE)
    assert '"usage"' not in reply.text
    assert (await record_of(gateway, reply)).completion_tokens == 3


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_a_stream_under_a_wrong_name_is_still_a_stream(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, content_type: str
):
    """OPEN-10: what it is, and not what it is called, says that it is an answer."""
    flash.script = streaming(word("Danube"), STOP, DONE, content_type=content_type)
    reply = await ask(gateway, stream=True)
    assert (reply.headers["content-type"], reply.headers[f"{HEADER}model"]) == ("text/event-stream", "flash")
    assert text_of(reply) == "Danube"
    assert reply.text.endswith(DONE)


async def test_a_stream_in_which_one_of_several_answers_is_missing_did_not_end(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-02 a: the first finish reason is that of one answer alone."""
    flash.script = streaming(word("one "), STOP, word("two "))
    reply = await ask(gateway, stream=True, n=2)
    assert "[DONE]" not in reply.text
    assert payloads(reply)[-1]["error"]["code"] == "upstream_error"


ERROR_OBJECT = {"error": {"message": "worker limit reached", "code": 502}}
NO_ANSWERS = [
    pytest.param(ERROR_OBJECT, id="error"),
    pytest.param({"object": "error", "message": "busy", "code": 500}, id="old error"),
    pytest.param(None, id="null"),
    pytest.param([], id="list"),
    pytest.param("busy", id="string"),
    pytest.param({}, id="empty"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", NO_ANSWERS)
async def test_a_200_without_an_answer_is_a_failure_of_the_engine(
    start_gateway: StartGateway, flash: ScriptedUpstream, body: Any, stream: bool
):
    """OPEN-10 b, c: no 200, nothing billed, not counted as a success."""
    flash.script = answering(body)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway, stream=stream)
        assert reply.status_code in {502, 503}
        record = await record_of(gateway, reply)
        assert member(gateway).health.failures == 1
    error_of(reply)
    assert (record.status, record.cost_usd) == ("error", 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_page_in_html_is_a_failure_of_the_engine(
    start_gateway: StartGateway, flash: ScriptedUpstream, stream: bool
):
    """OPEN-10 d: a login page is no answer."""
    flash.script = streaming("<html>sign in</html>", content_type="text/html")
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway, stream=stream)
        assert (await record_of(gateway, reply)).cost_usd == 0
    assert reply.status_code in {502, 503}
    error_of(reply)


async def test_an_error_with_status_200_falls_back(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-10 b: it is as good a reason as an error status."""
    flash.script = answering(ERROR_OBJECT)
    reply = await ask(gateway)
    assert (reply.status_code, reply.headers[f"{HEADER}model"]) == (200, "standard")
    assert asked(standard) == 1


@pytest.mark.parametrize(
    "words",
    [
        TOO_LONG,
        "The input (5001 tokens) is longer than the model's context length (4096 tokens).",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length 65537 exceeds maximum 65536",
    ],
)
async def test_a_prompt_that_is_too_long_is_told_as_such_whatever_the_engine_calls_it(
    start_gateway: StartGateway, flash: ScriptedUpstream, words: str
):
    """OPEN-11 a: one code for all wordings."""
    flash.script = answering(
        {"object": "error", "message": words, "type": "BadRequestError", "code": 400}, 400
    )
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway)
        assert member(gateway).health.failures == 0
    assert (reply.status_code, error_of(reply)["code"]) == (400, "context_length_exceeded")
    assert asked(flash) == 1


async def test_a_prompt_that_is_too_long_does_no_harm_to_others_though_the_engine_says_500(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-11 b: 400 for the one, and the replica stays in for the rest."""
    flash.script = answering({"error": {"message": "input length 65537 exceeds maximum 65536"}}, 500)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        for _ in range(6):
            reply = await ask(gateway)
            assert (reply.status_code, error_of(reply)["code"]) == (400, "context_length_exceeded")
        flash.script = well_behaved
        assert (await ask(gateway, key=OTHER_KEY)).headers[f"{HEADER}model"] == "flash"


@pytest.mark.parametrize("status", [429, 503])
async def test_when_to_come_again_reaches_the_client(
    start_gateway: StartGateway, flash: ScriptedUpstream, status: int
):
    """OPEN-11 c: under the name that clients read; a busy engine is not a broken one."""
    flash.script = answering({"error": {"message": "slow down"}}, status, {"retry-after": "7"})
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        for _ in range(4):
            reply = await ask(gateway)
            assert reply.status_code == status
            assert 1 <= int(reply.headers["retry-after"]) <= 7
            error_of(reply)
        assert member(gateway).health.failures == 0
    assert len(flash.requests) == 1  # and it is left alone until then


async def test_a_refused_parameter_is_a_400_that_says_which(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-11 d: FastAPI's 422 in OpenAI's shape, and no second try."""
    detail = [{"loc": ["body", "temperature"], "msg": "Input should be less than or equal to 2"}]
    flash.script = answering({"detail": detail}, 422)
    reply = await ask(gateway, temperature=9)
    assert reply.status_code == 400
    assert "less than or equal to 2" in error_of(reply)["message"]
    assert asked(flash, standard) == 1


async def test_nothing_is_tried_again_after_the_first_token(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-12 a: the text once, then an error."""
    flash.script = streaming(ROLE, word("The river is "), then="cut")
    async with start_gateway(flash=[flash.url, second.url]) as gateway:
        reply = await ask(gateway, stream=True)
    assert text_of(reply) == "The river is "
    error_in(reply)
    assert asked(second, standard) == 0


async def test_an_answer_that_broke_after_its_role_is_one_clean_answer_or_an_error(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-12 b: one id, one role."""
    role = event(
        {"id": "cmpl-dead", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    )
    flash.script = streaming(role, then="cut")
    standard.script = streaming(ROLE, word("Danube"), STOP, DONE)
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == "Danube"
    assert {body["id"] for body in payloads(reply)} == {"cmpl-7"}
    assert reply.text.count('"role"') == 1


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 413, 415, 418, 422, 431, 451])
async def test_no_refusal_takes_a_replica_out(
    start_gateway: StartGateway, flash: ScriptedUpstream, status: int
):
    """OPEN-11 b: whosever fault a 4xx is, the engine is well, and answers the next one."""
    flash.script = answering({"error": {"message": "not like this"}}, status)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        for _ in range(5):
            reply = await ask(gateway)
            assert 400 <= reply.status_code <= 502
            assert "No replica" not in error_of(reply)["message"]
        flash.script = well_behaved
        async with gateway.http(OTHER_KEY) as client:
            reply = await client.post(CHAT_PATH, json=chat())
    assert reply.status_code == 200


@pytest.mark.parametrize("status", [409, 414, 415, 431, 451])
async def test_a_refusal_by_any_status_that_is_about_the_request_reaches_the_client(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream, status: int
):
    """OPEN-11 d: nobody else is asked, and its words come with its status."""
    flash.script = answering({"error": {"message": "cannot read this"}}, status)
    reply = await ask(gateway)
    assert (reply.status_code, error_of(reply)["message"]) == (status, "cannot read this")
    assert asked(flash, standard) == 1


async def test_an_answer_with_201_is_an_answer(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-10: some frameworks say so to every POST."""
    flash.script = answering(answer("Danube."), 201)
    reply = await ask(gateway)
    assert (reply.status_code, reply.headers[f"{HEADER}model"]) == (200, "flash")


async def test_a_model_that_has_just_gone_says_when_to_come_again(start_gateway: StartGateway):
    """OPEN-37 b: 503 with `retry-after` also when a request is the first to see it."""
    async with ScriptedUpstream(well_behaved) as dying:
        opened = start_gateway(flash=[dying.url], tenant=NO_FALLBACK)
        gateway = await opened.__aenter__()
    try:
        reply = await ask(gateway)
    finally:
        await opened.__aexit__(None, None, None)
    assert reply.status_code == 503
    assert int(reply.headers["retry-after"]) > 0


async def test_a_timeout_is_not_multiplied_by_retries(
    start_gateway: StartGateway, flash: ScriptedUpstream, second: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-13: one call of the official client, with its own retries, is one generation, and cancelled."""
    flash.script = second.script = silent
    async with (
        start_gateway(flash=[flash.url, second.url], timeouts={"total": 0.5}) as gateway,
        AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY) as client,
    ):
        with pytest.raises(openai.InternalServerError) as raised:
            await client.chat.completions.create(model="flash", messages=[{"role": "user", "content": EASY}])
        assert raised.value.status_code == 504
        assert asked(flash, second, standard) == 1
        await until(lambda: flash.open_connections == 0, "the engine to be let go", patience=2)
        assert gateway.in_flight() == 0
        record = await gateway.record(raised.value.response.headers[f"{HEADER}request-id"])
    assert (record.status, record.http_status, record.attempts) == ("error", 504, 1)


async def test_a_slow_stream_that_is_alive_is_not_cut(start_gateway: StartGateway, flash: ScriptedUpstream):
    """OPEN-14 a: the clock between tokens is the only one that runs."""

    async def script(talk: Talk) -> None:
        await talk.head()
        for _ in range(15):
            await talk.send(word("on "))
            await asyncio.sleep(0.1)
        for piece in (STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = script
    async with start_gateway(timeouts={"idle": 0.7, "first_token": 0.7}) as gateway:
        reply = await ask(gateway, stream=True)
    assert text_of(reply) == "on " * 15
    assert reply.text.endswith(DONE)


async def test_a_stream_that_stalls_ends_in_an_error_and_lets_the_engine_go(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-14 b: after the idle time, not after minutes."""
    flash.script = streaming(word("on "), then="hang")
    async with start_gateway(timeouts={"idle": 0.3}) as gateway:
        async with asyncio.timeout(5):
            reply = await ask(gateway, stream=True)
        await until(lambda: flash.open_connections == 0, "the engine to be let go", patience=2)
        record = await record_of(gateway, reply)
    assert error_in(reply)["code"] == "timeout"
    assert (record.status, record.error) == ("incomplete", "timeout")


async def test_a_long_prefill_outlives_the_clock_between_tokens(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-14 c: until the first token another clock runs."""

    async def script(talk: Talk) -> None:
        await talk.head()
        await asyncio.sleep(0.8)
        for piece in (word("Danube"), STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = script
    async with start_gateway(timeouts={"idle": 0.3, "peek": 0.2}) as gateway:
        reply = await ask(gateway, stream=True)
    assert text_of(reply) == "Danube"
    assert reply.text.endswith(DONE)


async def test_a_replica_that_refuses_connections_is_replaced_at_once(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-14 d: the other replica answers in well under 2.5 s."""
    async with ScriptedUpstream(well_behaved) as dying:
        opened = start_gateway(flash=[dying.url, flash.url])
        gateway = await opened.__aenter__()
    try:
        async with asyncio.timeout(2.5):
            reply = await ask(gateway)
        record = await record_of(gateway, reply)
    finally:
        await opened.__aexit__(None, None, None)
    assert (reply.status_code, reply.headers[f"{HEADER}replica"]) == (200, "flash/main/1")
    assert record.attempts == 2
