"""Thinking, over engines as particular as DeepSeek's: no refusal and no empty answer is of our making."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import httpx
import pytest

from gateway.exchange import HEADER
from tests.cases.playing import HARD, WEATHER, ask, tool_turns
from tests.fakes.deepseek import THOUGHT, deepseek_api, strict, vllm
from tests.fakes.upstream import Script, ScriptedUpstream, Talk
from tests.gateway.conftest import StartGateway

EASY = ["What is the capital of France?", "法国的首都是哪里？"]
NAMED = {"type": "function", "function": {"name": "weather"}}
CONTROLLED = {"flash": {"thinking": "deepseek"}}
ENGINES: Mapping[str, Script] = {"openai": deepseek_api, "vllm": vllm}
OFF: Mapping[str, Any] = {
    "openai": {"thinking": {"type": "disabled"}},
    "vllm": {"chat_template_kwargs": {"thinking": False, "enable_thinking": False}},
}
FIELDS = ("thinking", "reasoning_effort", "reasoning", "chat_template_kwargs")

both_engines = pytest.mark.parametrize("engine", ENGINES)


def told(upstream: ScriptedUpstream) -> dict[str, Any]:
    """Return what the last request said of thinking."""
    body = upstream.requests[-1].json()
    return {name: body[name] for name in FIELDS if name in body}


def message(reply: httpx.Response) -> dict[str, Any]:
    """Return the message of an answer."""
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]


@both_engines
@pytest.mark.parametrize("question", EASY)
async def test_an_easy_question_is_answered_without_thinking(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str, question: str
):
    flash.script = ENGINES[engine]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        reply = await ask(gateway, question, model="auto")
        record = await gateway.record(reply.headers[f"{HEADER}request-id"])
    assert "reasoning_content" not in message(reply)
    assert told(flash) == OFF[engine]
    assert reply.headers[f"{HEADER}effort"] == "off"
    assert "effort:off, as the prompt is easy" in record.trace


@both_engines
async def test_a_model_that_is_named_thinks_and_its_thoughts_have_the_name_that_clients_read(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str
):
    flash.script = ENGINES[engine]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        reply = await ask(gateway)
    assert message(reply)["reasoning_content"] == THOUGHT
    assert told(flash) == {}
    assert f"{HEADER}effort" not in reply.headers


WISHES: list[dict[str, Any]] = [
    {"thinking": {"type": "enabled"}},
    {"reasoning_effort": "minimal"},
    {"reasoning_effort": "medium"},
    {"reasoning_effort": "xhigh", "max_tokens": 9000},
    {"reasoning": {"effort": "high"}},
    {"chat_template_kwargs": {"thinking": True}},
]


@both_engines
async def test_a_client_that_asks_to_think_is_heard_in_whichever_words(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str
):
    flash.script = ENGINES[engine]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        for wish in WISHES:
            reply = await ask(gateway, model="auto", **wish)
            assert message(reply)["reasoning_content"] == THOUGHT
            assert reply.headers[f"{HEADER}effort"] != "off"


@both_engines
@pytest.mark.parametrize("model", ["auto", "flash"])
async def test_a_client_that_asks_not_to_think_is_heard(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str, model: str
):
    flash.script = ENGINES[engine]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        wishes: list[dict[str, Any]] = [{"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}]
        for wish in wishes:
            assert "reasoning_content" not in message(await ask(gateway, model=model, **wish))
            assert told(flash) == OFF[engine]


@both_engines
@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_few_tokens_are_spent_on_the_answer(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str, limit: str
):
    """Thinking is on by default, and would leave nothing of them."""
    flash.script = ENGINES[engine]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        limits: dict[str, Any] = {limit: 50}
        reply = await ask(gateway, HARD, **limits)
        record = await gateway.record(reply.headers[f"{HEADER}request-id"])
    assert message(reply)["content"] == "Paris."
    assert "effort:off, as 50 output tokens leave no room to think" in record.trace


@both_engines
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
async def test_a_tool_that_is_forced_is_called_without_thinking(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str, choice: Any
):
    flash.script = ENGINES[engine]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        reply = await ask(gateway, tools=[WEATHER], tool_choice=choice)
    assert reply.status_code == 200
    assert told(flash) == OFF[engine]


async def test_a_tool_forced_on_a_model_that_shall_think_is_refused_with_the_remedy(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async with start_gateway(models=CONTROLLED) as gateway:
        reply = await ask(gateway, tools=[WEATHER], tool_choice="required", reasoning_effort="high")
        anthropic = await ask(
            gateway,
            path="/v1/messages",
            max_tokens=4096,
            tools=[{"name": "weather", "input_schema": {"type": "object"}}],
            tool_choice={"type": "any"},
            thinking={"type": "enabled", "budget_tokens": 1024},
        )
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["type"]) == (400, "tool_choice", "invalid_request_error")
    assert "'thinking.type' to 'disabled'" in error["message"]
    assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (400, "invalid_request_error")
    assert flash.requests == []


async def test_an_effort_that_nobody_knows_is_refused_before_an_engine_is_asked(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async with start_gateway(models=CONTROLLED) as gateway:
        for model in ("auto", "flash"):
            reply = await ask(gateway, model=model, reasoning_effort="turbo")
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "reasoning_effort")
            assert "none, minimal, low, medium, high, xhigh, max" in reply.json()["error"]["message"]
        assert (await ask(gateway, model="standard", reasoning_effort="turbo")).status_code == 200
    assert flash.requests == []
    assert told(standard) == {"reasoning_effort": "turbo"}


@both_engines
@pytest.mark.parametrize(
    "said", [{}, {"reasoning_content": THOUGHT}, {"reasoning": THOUGHT}], ids=["lost", "kept", "other name"]
)
async def test_a_tool_loop_goes_on_whichever_model_began_it_and_whichever_takes_over(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    engine: str,
    said: dict[str, Any],
):
    flash.script, standard.script = ENGINES[engine], strict
    wishes: list[dict[str, Any]] = [{}, {"reasoning_effort": "low"}, {"reasoning_effort": "none"}]
    async with start_gateway(engine=engine, models=CONTROLLED) as gateway:
        for model, question, wish in product(("auto", "flash", "standard"), (*EASY, HARD), wishes):
            turns = tool_turns(question, **said)
            assert message(await ask(gateway, model=model, messages=turns, tools=[WEATHER], **wish))
    assert flash.requests
    assert standard.requests


async def test_reasoning_that_was_lost_is_told_in_the_record(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = deepseek_api
    async with start_gateway(models=CONTROLLED) as gateway:
        reply = await ask(gateway, messages=tool_turns(HARD), tools=[WEATHER])
        record = await gateway.record(reply.headers[f"{HEADER}request-id"])
    assert reply.headers[f"{HEADER}effort"] == "off"
    assert any("lacks the reasoning" in step for step in record.trace)


async def busy(talk: Talk) -> None:
    """Be overloaded."""
    await talk.json({"error": {"message": "busy"}}, 503)


@pytest.mark.parametrize("broken", ["flash", "standard"])
async def test_a_model_that_stands_in_is_told_in_its_own_words(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream, broken: str
):
    flash.script, standard.script = (busy, strict) if broken == "flash" else (deepseek_api, busy)
    turns = tool_turns(EASY[0], reasoning_content=THOUGHT)
    async with start_gateway(models=CONTROLLED) as gateway:
        reply = await ask(gateway, model=broken, messages=turns, tools=[WEATHER], max_tokens=5)
    assert message(reply)
    assert told(standard) == {}
    assert "reasoning_content" not in standard.requests[-1].json()["messages"][1]
    assert told(flash) == OFF["openai"]
    assert flash.requests[-1].json()["messages"] == turns
    assert reply.headers.get(f"{HEADER}effort") == (None if broken == "flash" else "off")


async def test_without_the_setting_every_word_travels_as_it_came(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    words: dict[str, Any] = {
        "thinking": {"type": "adaptive"},
        "reasoning_effort": "turbo",
        "reasoning": {"effort": "x"},
    }
    turns = tool_turns(EASY[0], reasoning_content=THOUGHT, reasoning=THOUGHT)
    async with start_gateway() as gateway:
        reply = await ask(gateway, messages=turns, tool_choice="required", max_tokens=5, **words)
    assert reply.status_code == 200
    assert told(flash) == words
    assert flash.requests[-1].json()["messages"] == turns


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, {}),
        ({"thinking": {"type": "adaptive"}}, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"thinking": {"type": "enabled"}}),
        ({"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}),
        ({"output_config": {"effort": "max"}}, {"reasoning_effort": "max"}),
    ],
    ids=repr,
)
async def test_the_messages_api_asks_in_its_own_words(
    start_gateway: StartGateway, flash: ScriptedUpstream, wish: dict[str, Any], expected: dict[str, Any]
):
    flash.script = deepseek_api
    async with start_gateway(models=CONTROLLED) as gateway:
        reply = await ask(gateway, path="/v1/messages", max_tokens=4096, **wish)
    assert reply.status_code == 200
    assert told(flash) == expected


@pytest.mark.parametrize(
    ("effort", "expected"),
    [
        (None, {}),
        ("none", {"thinking": {"type": "disabled"}}),
        ("medium", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
    ],
)
async def test_the_responses_api_asks_in_its_own_words(
    start_gateway: StartGateway, flash: ScriptedUpstream, effort: str | None, expected: dict[str, Any]
):
    flash.script = deepseek_api
    body = {"model": "flash", "input": EASY[1], "reasoning": {"effort": effort}}
    async with start_gateway(models=CONTROLLED) as gateway, gateway.http() as client:
        reply = await client.post("/v1/responses", json=body)
    assert reply.status_code == 200
    assert told(flash) == expected
