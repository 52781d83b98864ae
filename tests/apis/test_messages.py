"""`POST /v1/messages` by the official `anthropic` client, over scripted engines."""

import json
from dataclasses import replace
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, TextBlock, ThinkingBlock, ToolParam, ToolUseBlock

from gateway.apis.messages import COUNT_PATH, MESSAGES_PATH, CountTokens
from gateway.exchange import HEADER
from policies.types import Caller
from tests.apis.chunks import answer_of, broken_after, chunk, refusal, stream_of, tool, usage_chunk
from tests.fakes.upstream import ScriptedUpstream, Talk
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest, serving

ASKING: list[MessageParam] = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER: ToolParam = {"name": "weather", "description": "Of a city.", "input_schema": {"type": "object"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}


def client_of(gateway: GatewayUnderTest, key: str = KEY) -> AsyncAnthropic:
    """Return the official client, without its own retries."""
    return AsyncAnthropic(base_url=gateway.url, api_key=key, max_retries=0)


async def post(gateway: GatewayUnderTest, body: dict[str, Any], path: str = MESSAGES_PATH) -> Any:
    """Post a body by hand; return the response."""
    async with gateway.http() as client:
        return await client.post(path, json={"model": "flash", "max_tokens": 9, "messages": ASKING, **body})


def events_in(text: str) -> list[tuple[str, Any]]:
    """Return the events of a stream, name and data; each data repeats the name."""
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n")[:-1]:
        name, _, data = block.partition("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert all(name == data["type"] for name, data in found)
    return found


async def test_the_official_client_gets_a_message(gateway: GatewayUnderTest):
    async with client_of(gateway) as client:
        raw = await client.messages.with_raw_response.create(model="flash", max_tokens=9, messages=ASKING)
    message = await raw.parse()
    assert [block.text for block in message.content if isinstance(block, TextBlock)] == ["Paris."]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.model == "engine-model"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (8, 4)
    assert message.usage.output_tokens == 3
    request_id = raw.headers[f"{HEADER}request-id"]
    assert raw.headers["request-id"] == request_id
    assert raw.headers[f"{HEADER}reason"] == "forced:flash"
    assert message.id == request_id.replace("req_", "msg_")
    record = await gateway.record(request_id)
    assert (record.endpoint, record.status, record.completion_tokens) == (MESSAGES_PATH, "ok", 3)


async def test_the_official_client_gets_a_stream(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    async with (
        client_of(gateway) as client,
        client.messages.stream(model="flash", max_tokens=9, messages=ASKING) as stream,
    ):
        text = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    assert text == "Paris."
    assert message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (8, 4)
    assert message.usage.output_tokens == 3
    assert flash.requests[0].json()["stream_options"] == {"include_usage": True}


async def test_a_stream_has_anthropics_events_in_their_order(gateway: GatewayUnderTest):
    answer = await post(gateway, {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in events_in(answer.text)] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_a_tool_goes_there_and_back(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    flash.script = answer_of({"content": None, "tool_calls": [CALL]}, "tool_calls")
    async with client_of(gateway) as client:
        message = await client.messages.create(
            model="flash",
            max_tokens=9,
            messages=ASKING,
            tools=[WEATHER],
            tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        )
        assert message.stop_reason == "tool_use"
        (block,) = message.content
        assert isinstance(block, ToolUseBlock)
        assert (block.id, block.name, block.input) == ("call_1", "weather", {"city": "Rome"})
        result: MessageParam = {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}],
        }
        turns: list[MessageParam] = [*ASKING, {"role": "assistant", "content": message.content}, result]
        await client.messages.create(model="flash", max_tokens=9, messages=turns, tools=[WEATHER])
    first, second = (request.json() for request in flash.requests)
    function = {"name": "weather", "description": "Of a city.", "parameters": {"type": "object"}}
    assert first["tools"] == [{"type": "function", "function": function}]
    assert first["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert first["parallel_tool_calls"] is False
    assert second["messages"][1] == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert second["messages"][2] == {"role": "tool", "content": "sunny", "tool_call_id": "call_1"}


async def test_tool_calls_stream_as_blocks_one_after_another(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    flash.script = stream_of(
        chunk({"role": "assistant", "content": "Let me see."}),
        chunk(tool(0, id="a", name="weather")),
        chunk(tool(1, id="b", name="weather", arguments='{"c":')),
        chunk(tool(0, arguments='{"c":1}')),
        chunk(tool(1, arguments="2}")),
        chunk({}, "tool_calls"),
        usage_chunk(),
    )
    async with (
        client_of(gateway) as client,
        client.messages.stream(model="flash", max_tokens=9, messages=ASKING, tools=[WEATHER]) as stream,
    ):
        message = await stream.get_final_message()
    assert message.stop_reason == "tool_use"
    calls = [(block.id, block.input) for block in message.content if isinstance(block, ToolUseBlock)]
    assert calls == [("a", {"c": 1}), ("b", {"c": 2})]
    assert message.content[0].type == "text"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_streams_as_a_thinking_block_and_comes_back_as_reasoning(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, field: str
):
    flash.script = stream_of(
        chunk({field: "First, "}), chunk({field: "then."}), chunk({"content": "42"}), chunk({}, "stop")
    )
    async with client_of(gateway) as client:
        async with client.messages.stream(model="flash", max_tokens=9, messages=ASKING) as stream:
            message = await stream.get_final_message()
        thinking, text = message.content
        assert isinstance(thinking, ThinkingBlock)
        assert thinking.thinking == "First, then."
        assert isinstance(text, TextBlock)
        assert text.text == "42"
        flash.script = answer_of({"content": "ok", field: "Hm."})
        turns: list[MessageParam] = [*ASKING, {"role": "assistant", "content": message.content}, *ASKING]
        plain = await client.messages.create(model="flash", max_tokens=9, messages=turns)
    assert [block.type for block in plain.content] == ["thinking", "text"]
    sent = flash.requests[1].json()["messages"][1]
    assert sent == {"role": "assistant", "content": "42", "reasoning_content": "First, then."}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("finish", "stop", "expected"),
    [
        ("stop", None, ("end_turn", None)),
        ("stop", "END", ("stop_sequence", "END")),
        ("stop", 151645, ("end_turn", None)),
        ("length", None, ("max_tokens", None)),
        ("content_filter", None, ("refusal", None)),
    ],
)
async def test_the_reason_of_the_end_is_told(
    gateway: GatewayUnderTest,
    flash: ScriptedUpstream,
    *,
    finish: str,
    stop: object,
    stream: bool,
    expected: tuple[str, str | None],
):
    whole = stream_of(chunk({"content": "a"}), chunk({}, finish, stop_reason=stop))
    flash.script = whole if stream else answer_of({"content": "a"}, finish, stop_reason=stop)
    answer = await post(gateway, {"stop_sequences": ["END"], "stream": stream})
    assert flash.requests[0].json()["stop"] == ["END"]
    told = dict(events_in(answer.text))["message_delta"]["delta"] if stream else answer.json()
    assert (told["stop_reason"], told["stop_sequence"]) == expected


async def test_a_stream_that_is_cut_ends_in_an_error_and_no_message_stop(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    flash.script = broken_after(chunk({"content": "Par"}))
    answer = await post(gateway, {"stream": True})
    names = [name for name, _ in events_in(answer.text)]
    assert names == ["message_start", "content_block_start", "content_block_delta", "error"]
    assert events_in(answer.text)[-1][1]["error"]["type"] == "api_error"
    async with client_of(gateway) as client:
        with pytest.raises(anthropic.APIStatusError):
            async with client.messages.stream(model="flash", max_tokens=9, messages=ASKING) as stream:
                await stream.get_final_message()


async def test_an_error_in_a_stream_is_the_last_thing_said(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    error = {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
    flash.script = stream_of(chunk({"content": "Par"}), f"data: {json.dumps({'error': error})}\n\n")
    answer = await post(gateway, {"stream": True})
    name, data = events_in(answer.text)[-1]
    assert name == "error"
    assert data["error"] == {"type": "rate_limit_error", "message": "Slow down."}
    assert data["request_id"] == answer.headers["request-id"]


async def test_a_chunk_that_is_none_fails_the_stream(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    flash.script = stream_of(chunk({"content": "Par"}), "data: {]\n\n", chunk({}, "stop"))
    answer = await post(gateway, {"stream": True})
    assert events_in(answer.text)[-1][0] == "error"
    record = await gateway.record(answer.headers["request-id"])
    assert record.status == "incomplete"


async def test_a_comment_becomes_a_ping(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    flash.script = stream_of(chunk({"content": "a"}), ": keep-alive\n\n", chunk({}, "stop"))
    answer = await post(gateway, {"stream": True})
    assert ("ping", {"type": "ping"}) in events_in(answer.text)


async def test_a_wrong_key_is_an_authentication_error(gateway: GatewayUnderTest):
    async with client_of(gateway, "sk-fl-nobody") as client:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            await client.messages.create(model="flash", max_tokens=9, messages=ASKING)
    assert caught.value.type == "authentication_error"
    assert caught.value.response.json()["type"] == "error"


async def test_an_unknown_model_is_not_found(gateway: GatewayUnderTest):
    async with client_of(gateway) as client:
        with pytest.raises(anthropic.NotFoundError) as caught:
            await client.messages.create(model="nope", max_tokens=9, messages=ASKING)
    assert caught.value.type == "not_found_error"


@pytest.mark.parametrize(
    ("status", "expected", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (429, 429, "rate_limit_error"),
        (503, 529, "overloaded_error"),
    ],
)
async def test_an_engines_refusal_has_anthropics_type(
    gateway: GatewayUnderTest,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    status: int,
    expected: int,
    kind: str,
):
    flash.script = standard.script = refusal(status, "No.")
    answer = await post(gateway, {})
    assert answer.status_code == expected
    body = answer.json()
    assert body["error"]["type"] == kind
    assert body["request_id"] == answer.headers["request-id"]


async def test_an_answer_that_is_none_is_an_error(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.json({"choices": "none"})

    flash.script = standard.script = script
    answer = await post(gateway, {})
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "api_error"


async def test_a_body_that_is_wrong_is_refused_with_the_path(gateway: GatewayUnderTest):
    answer = await post(gateway, {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "messages[0].content[0].type" in answer.json()["error"]["message"]


SEEING: dict[str, Any] = {"standard": {"capabilities": {"images": True}}}
IMAGE: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


async def test_an_image_goes_to_a_model_that_takes_images(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    seen: MessageParam = {"role": "user", "content": [IMAGE, {"type": "text", "text": "What is this?"}]}
    async with start_gateway(models=SEEING) as gateway, client_of(gateway) as client:
        raw = await client.messages.with_raw_response.create(model="auto", max_tokens=9, messages=[seen])
    assert raw.headers[f"{HEADER}reason"] == "capability:images"
    part = standard.requests[0].json()["messages"][0]["content"][0]
    assert part == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert not flash.requests


async def test_an_image_that_no_model_takes_is_an_invalid_request(gateway: GatewayUnderTest):
    answer = await post(gateway, {"model": "auto", "messages": [{"role": "user", "content": [IMAGE]}]})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert "images" in error["message"]
    assert "models.<name>.capabilities.images: true" in error["message"]


async def test_tokens_are_estimated_without_an_engine(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    async with client_of(gateway) as client:
        short = await client.messages.count_tokens(model="flash", messages=ASKING)
        long = await client.messages.count_tokens(
            model="flash", messages=ASKING, system="Be brief. " * 40, tools=[WEATHER]
        )
    assert 5 < short.input_tokens < 20
    assert long.input_tokens > short.input_tokens + 80
    assert not flash.requests


async def test_counting_needs_a_key_and_a_body(gateway: GatewayUnderTest):
    async with gateway.http(None) as stranger:
        refused = await stranger.post(COUNT_PATH, json={})
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    wrong = await post(gateway, {"messages": []}, COUNT_PATH)
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (400, "invalid_request_error")


class Broken:
    """Tenants that cannot be looked up."""

    def identify(self, key: str) -> Caller:
        raise ArithmeticError("maybe?")


async def test_a_count_that_fails_is_told_without_its_cause_which_is_in_the_log(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
):
    broken: Any = Broken()
    async with (
        serving(CountTokens(replace(gateway.services, tenants=broken))) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        reply = await client.post(COUNT_PATH, json={}, headers={"x-api-key": KEY})
    assert (reply.status_code, reply.json()["error"]["type"]) == (500, "api_error")
    assert "maybe?" not in reply.text
    assert "maybe?" in caplog.text
