"""What passes through a stream: tool calls, reasoning, long lines, each event at once."""

import asyncio
import json
from itertools import product
from typing import Any

import pytest

from gateway.sse import MAX_EVENT
from tests.cases.playing import (
    DONE,
    EASY,
    HARD,
    PATH,
    STOP,
    WEATHER,
    answering,
    ask,
    chat,
    chunk,
    deltas,
    error_in,
    record_of,
    streaming,
    text_of,
    tool_turns,
    word,
)
from tests.fakes.upstream import ScriptedUpstream, Talk, answer
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest
from tests.support.waiting import until


def call(arguments: str, **more: Any) -> dict[str, Any]:
    """Return a piece of a tool call."""
    name = {"name": "weather"} if "id" in more else {}
    return {**more, "type": "function", "function": {**name, "arguments": arguments}}


TOOL_STREAMS = {
    "interleaved": [
        [call("", index=0, id="one")],
        [call('{"at":', index=1, id="two")],
        [call('{"at":1}', index=0)],
        [call("2}", index=1)],
    ],
    "no index": [[call('{"at":1}', id="one"), call('{"at":2}', id="two")]],
    "index used twice": [[call('{"at":1}', index=0, id="one")], [call('{"at":2}', index=0, id="two")]],
}


@pytest.mark.parametrize("calls", TOOL_STREAMS.values(), ids=TOOL_STREAMS.keys())
async def test_pieces_of_tool_calls_pass_in_order_and_unchanged(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, calls: list[list[dict[str, Any]]]
):
    """OPEN-06: no index is made up, none is changed."""
    pieces = [chunk({"tool_calls": piece}) for piece in calls]
    flash.script = streaming(*pieces, chunk({}, "tool_calls"), DONE)
    reply = await ask(gateway, stream=True, tools=[WEATHER])
    assert [delta["tool_calls"] for delta in deltas(reply) if delta] == calls


async def test_reasoning_reaches_clients_under_the_name_they_read(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-07 a: `reasoning` and `reasoning_content`; nothing of it is text, nothing is lost."""
    flash.script = streaming(
        chunk({"role": "assistant", "reasoning": "Vienna, "}),
        chunk({"reasoning_content": "so."}),
        word("Danube"),
        STOP,
        DONE,
    )
    reply = await ask(gateway, stream=True)
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas(reply)) == "Vienna, so."
    assert text_of(reply) == "Danube"
    assert (await record_of(gateway, reply)).completion_tokens == 3


async def test_reasoning_of_a_plain_answer_has_that_name_too(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-07 a: the same without a stream."""
    whole = answer("Danube.")
    whole["choices"][0]["message"]["reasoning"] = "Vienna, so."
    flash.script = answering(whole)
    message = (await ask(gateway)).json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Vienna, so.", "Danube.")


@pytest.mark.parametrize(
    "models", [{}, {"flash": {"thinking": "deepseek"}}], ids=["passed through", "controlled"]
)
@pytest.mark.parametrize("model", ["flash", "auto"])
async def test_reasoning_of_a_tool_turn_goes_back_to_the_engine(
    start_gateway: StartGateway, flash: ScriptedUpstream, model: str, models: dict[str, dict[str, str]]
):
    """OPEN-07 b: as the client sent it."""
    turns = tool_turns(EASY, reasoning_content="I look it up.")
    async with start_gateway(models=models) as gateway:
        await ask(gateway, model=model, messages=turns, tools=[WEATHER])
    assert flash.requests[0].json()["messages"] == turns


@pytest.mark.parametrize("reasoning", [True, False])
async def test_a_tool_loop_meets_no_refusal_that_our_choice_of_model_caused(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    reasoning: bool,
):
    """OPEN-07 c: a history of the one model goes to the other, whose rules differ."""

    async def picky_flash(talk: Talk) -> None:
        body = talk.request.json()
        off = "disabled" in json.dumps(body.get("thinking")) or body.get("chat_template_kwargs")
        missing = any(m.get("tool_calls") and "reasoning_content" not in m for m in body["messages"])
        await talk.json({"error": {"message": "reasoning_content is missing"}}, 400) if (
            missing and not off
        ) else await talk.json(answer())

    async def picky_standard(talk: Talk) -> None:
        unknown = any("reasoning_content" in m for m in talk.request.json()["messages"])
        await talk.json({"error": {"message": "unknown field"}}, 400) if unknown else await talk.json(
            answer()
        )

    flash.script, standard.script = picky_flash, picky_standard
    said = {"reasoning_content": "I look it up."} if reasoning else {}
    async with start_gateway(models={"flash": {"thinking": "deepseek"}}) as gateway:
        for question, model in product((EASY, HARD), ("auto", "flash", "standard")):
            reply = await ask(gateway, model=model, messages=tool_turns(question, **said), tools=[WEATHER])
            assert reply.status_code == 200


async def test_a_line_of_a_mebibyte_passes_whole(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-08: in small pieces too."""
    long = "x" * 2**20
    data = word(long).encode()
    pieces = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    flash.script = streaming(*pieces, STOP, DONE)
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == long
    assert reply.text.endswith(STOP + DONE)


async def test_an_event_over_the_bound_is_an_error_and_lets_the_engine_go(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-08: the bound is MAX_EVENT; past it the stream ends, and not in silence."""

    let_go = asyncio.Event()

    async def endless(talk: Talk) -> None:
        await talk.head()
        await talk.send(word("on "))
        await talk.send("data: ")
        try:
            while True:
                await talk.send(b"x" * (MAX_EVENT // 16))
        finally:
            let_go.set()

    flash.script = endless
    reply = await ask(gateway, stream=True)
    assert text_of(reply) == "on "
    assert error_in(reply)["code"] == "upstream_error"
    await until(let_go.is_set, "the engine to be let go", patience=2)


async def test_each_event_reaches_the_client_before_the_next_is_written(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-09: nothing on the way collects events; no compression, and headers that ask for none."""
    seen = asyncio.Event()

    async def lock_step(talk: Talk) -> None:
        await talk.head()
        for _ in range(5):
            await talk.send(word("on "))
            await seen.wait()
            seen.clear()
        for piece in (STOP, DONE):
            await talk.send(piece)
        await talk.end()

    flash.script = lock_step
    count = 0
    asking = {"accept-encoding": "gzip, br"}
    async with (
        asyncio.timeout(10),
        gateway.http() as client,
        client.stream("POST", PATH, json=chat(stream=True), headers=asking) as reply,
    ):
        async for line in reply.aiter_lines():
            if '"content"' in line:
                count += 1
                seen.set()
    assert count == 5
    assert "content-encoding" not in reply.headers
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert (reply.headers["cache-control"], reply.headers["x-accel-buffering"]) == ("no-cache", "no")
