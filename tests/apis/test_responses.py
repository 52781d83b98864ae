"""`POST /v1/responses` by the official `openai` client, over scripted engines."""

import json
from typing import Any

import openai
import pytest
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall, ResponseReasoningItem
from pydantic import BaseModel

from gateway.apis.responses import RESPONSES_PATH
from gateway.exchange import HEADER
from tests.apis.chunks import answer_of, broken_after, chunk, refusal, stream_of, tool, usage_chunk
from tests.fakes.upstream import ScriptedUpstream
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest

QUESTION = "What is the capital of France?"
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Of a city.",
    "parameters": {"type": "object"},
    "strict": True,
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
LOGPROB = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}


async def post(gateway: GatewayUnderTest, body: dict[str, Any]) -> Any:
    """Post a body by hand; return the response."""
    async with gateway.http() as client:
        return await client.post(RESPONSES_PATH, json={"model": "flash", "input": QUESTION, **body})


def events_in(text: str) -> list[dict[str, Any]]:
    """Return the events of a stream; they are numbered, and each repeats its name."""
    blocks = [block for block in text.split("\n\n")[:-1] if not block.startswith(":")]
    names = [block.partition("\n")[0].removeprefix("event: ") for block in blocks]
    found = [json.loads(block.partition("\n")[2].removeprefix("data: ")) for block in blocks]
    assert names == [event["type"] for event in found]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


async def test_the_official_client_gets_a_response(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    async with gateway.openai() as client:
        raw = await client.responses.with_raw_response.create(
            model="flash",
            input=QUESTION,
            instructions="Be brief.",
            max_output_tokens=9,
            metadata={"job": "7"},
            store=True,
            temperature=0.5,
        )
    response = raw.parse()
    assert response.output_text == "Paris."
    assert response.status == "completed"
    assert response.metadata == {"job": "7"}
    assert raw.http_response.json()["store"] is False
    assert (response.instructions, response.temperature, response.max_output_tokens) == ("Be brief.", 0.5, 9)
    assert response.usage is not None
    assert response.usage.input_tokens == 12
    assert response.usage.input_tokens_details.cached_tokens == 4
    assert (response.usage.output_tokens, response.usage.total_tokens) == (3, 15)
    request_id = raw.headers[f"{HEADER}request-id"]
    assert response.id == request_id.replace("req_", "resp_")
    sent = flash.requests[0].json()
    assert [m["role"] for m in sent["messages"]] == ["system", "user"]
    assert (sent["max_tokens"], sent["temperature"]) == (9, 0.5)
    assert not {"input", "instructions", "metadata", "store"} & sent.keys()
    assert (await gateway.record(request_id)).endpoint == RESPONSES_PATH


async def test_the_official_client_gets_a_stream(gateway: GatewayUnderTest):
    async with (
        gateway.openai() as client,
        client.responses.stream(model="flash", input=QUESTION) as stream,
    ):
        text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        response = await stream.get_final_response()
    assert text == response.output_text == "Paris."
    assert response.usage is not None
    assert response.usage.output_tokens == 3


async def test_a_stream_has_the_events_of_the_api_in_their_order(gateway: GatewayUnderTest):
    answer = await post(gateway, {"stream": True})
    assert [event["type"] for event in events_in(answer.text)] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_a_tool_goes_there_and_back(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    flash.script = answer_of({"content": None, "reasoning": "Hm.", "tool_calls": [CALL]}, "tool_calls")
    async with gateway.openai() as client:
        response = await client.responses.create(
            model="flash",
            input=QUESTION,
            tools=[WEATHER],
            tool_choice={"type": "function", "name": "weather"},
            parallel_tool_calls=False,
        )
        thought, call = response.output
        assert isinstance(thought, ResponseReasoningItem)
        assert isinstance(call, ResponseFunctionToolCall)
        assert (call.call_id, call.name, call.arguments) == ("call_1", "weather", '{"city":"Rome"}')
        items: Any = [{"role": "user", "content": QUESTION}, *(item.to_dict() for item in response.output)]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
        await client.responses.create(model="flash", input=items, tools=[WEATHER])
    first, second = (request.json() for request in flash.requests)
    function = {"name": "weather", "description": "Of a city.", "parameters": {"type": "object"}}
    assert first["tools"] == [{"type": "function", "function": {**function, "strict": True}}]
    assert first["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert first["parallel_tool_calls"] is False
    turn = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]}
    result = {"role": "tool", "content": "sunny", "tool_call_id": "call_1"}
    assert second["messages"] == [{"role": "user", "content": QUESTION}, turn, result]


async def test_reasoning_and_parallel_calls_stream_as_items_one_after_another(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    flash.script = stream_of(
        chunk({"role": "assistant", "reasoning": "Hm."}),
        chunk(tool(0, id="a", name="weather")),
        chunk(tool(1, id="b", name="weather", arguments='{"c":')),
        chunk(tool(0, arguments='{"c":1}')),
        chunk(tool(1, arguments="2}")),
        chunk({}, "tool_calls"),
        usage_chunk(),
    )
    async with (
        gateway.openai() as client,
        client.responses.stream(model="flash", input=QUESTION, tools=[WEATHER]) as stream,
    ):
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
    assert "response.reasoning_text.delta" in kinds
    assert kinds.count("response.function_call_arguments.done") == 2
    calls = [(o.call_id, o.arguments) for o in response.output if o.type == "function_call"]
    assert calls == [("a", '{"c":1}'), ("b", '{"c":2}')]
    assert response.output[0].type == "reasoning"


async def test_a_schema_and_an_effort_travel(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    class City(BaseModel):
        name: str

    flash.script = answer_of({"content": '{"name":"Paris"}'})
    async with gateway.openai() as client:
        response = await client.responses.parse(
            model="flash",
            input=QUESTION,
            text_format=City,
            reasoning={"effort": "low"},
            extra_body={"seed": 7},
        )
    assert response.output_parsed == City(name="Paris")
    sent = flash.requests[0].json()
    assert sent["response_format"]["json_schema"]["name"] == "City"
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert (sent["reasoning_effort"], sent["seed"]) == ("low", 7)
    assert "text" not in sent


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
async def test_an_answer_that_was_cut_off_is_incomplete(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, *, stream: bool, finish: str, reason: str
):
    flash.script = (
        stream_of(chunk({"content": "a"}), chunk({}, finish))
        if stream
        else answer_of({"content": "a"}, finish)
    )
    answer = await post(gateway, {"stream": stream})
    response = events_in(answer.text)[-1]["response"] if stream else answer.json()
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": reason}
    assert response["output"][0]["status"] == "incomplete"
    if stream:
        assert events_in(answer.text)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("stream", [True, False])
async def test_log_probabilities_come_where_they_are_asked_for(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, *, stream: bool
):
    logprobs = {"content": [LOGPROB]}
    flash.script = (
        stream_of(chunk({"content": "a"}, logprobs=logprobs), chunk({}, "stop"))
        if stream
        else answer_of({"content": "a"}, logprobs=logprobs)
    )
    answer = await post(gateway, {"stream": stream, "include": ["message.output_text.logprobs"]})
    assert flash.requests[0].json()["logprobs"] is True
    response = events_in(answer.text)[-1]["response"] if stream else answer.json()
    assert response["output"][0]["content"][0]["logprobs"] == [LOGPROB]
    if stream:
        deltas = [e for e in events_in(answer.text) if e["type"] == "response.output_text.delta"]
        assert [delta["logprobs"] for delta in deltas] == [[LOGPROB]]


async def test_a_stream_that_is_cut_fails_and_never_completes(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    flash.script = broken_after(chunk({"content": "Par"}))
    answer = await post(gateway, {"stream": True})
    *_, error, failed = events_in(answer.text)
    assert (error["type"], failed["type"]) == ("error", "response.failed")
    assert error["code"] == "upstream_error"
    response = failed["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert response["output"][0]["content"][0]["text"] == "Par"
    assert response["output"][0]["status"] == "incomplete"


async def test_a_comment_stays_one(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    flash.script = stream_of(chunk({"content": "a"}), ": keep-alive\n\n", chunk({}, "stop"))
    answer = await post(gateway, {"stream": True})
    assert "\n: keep-alive\n\n" in answer.text
    assert events_in(answer.text)[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous_response_id", "resp_1"),
        ("conversation", "conv_1"),
        ("background", True),
        ("prompt", {"id": "pmpt_1"}),
        ("tools[0].type", None),
        ("input[0]", None),
    ],
)
async def test_what_needs_state_or_another_service_is_refused_by_name(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, field: str, value: object
):
    body: dict[str, Any] = {field: value}
    if field.startswith("tools"):
        body = {"tools": [{"type": "web_search"}]}
    if field.startswith("input"):
        body = {"input": [{"type": "item_reference", "id": "rs_1"}]}
    answer = await post(gateway, body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", field)
    if field.startswith("tools"):
        assert "web_search" in error["message"]
    assert not flash.requests


async def test_nulls_are_as_good_as_nothing(gateway: GatewayUnderTest):
    names = ["previous_response_id", "background", "tools", "tool_choice", "text", "reasoning", "metadata"]
    answer = await post(gateway, dict.fromkeys([*names, "stream"]))
    assert answer.status_code == 200
    assert answer.json()["metadata"] == {}


async def test_an_engines_refusal_keeps_openais_shape(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    flash.script = refusal(400, "No.")
    async with gateway.openai() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="flash", input=QUESTION)
    assert caught.value.type == "invalid_request_error"
    assert "No." in str(caught.value)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")]
)
async def test_no_response_is_kept(gateway: GatewayUnderTest, method: str, path: str):
    async with gateway.http() as client, gateway.http(None) as stranger:
        found = await client.request(method, f"{RESPONSES_PATH}/resp_1{path}")
        refused = await stranger.request(method, f"{RESPONSES_PATH}/resp_1{path}")
    assert (found.status_code, found.json()["error"]["type"]) == (404, "invalid_request_error")
    assert refused.status_code == 401


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
SEEING: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}, IMAGE]}]
FORMAT = {"type": "json_schema", "name": "city", "schema": {"type": "object"}}


async def test_an_image_goes_to_a_model_that_takes_images(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async with start_gateway(models={"standard": {"capabilities": {"images": True}}}) as gateway:
        answer = await post(gateway, {"model": "auto", "input": SEEING})
    assert (answer.status_code, answer.headers[f"{HEADER}reason"]) == (200, "capability:images")
    part = standard.requests[0].json()["messages"][0]["content"][1]
    assert part == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert not flash.requests


async def test_what_no_model_can_take_is_told_in_the_words_of_this_api(start_gateway: StartGateway):
    none = {name: {"capabilities": {"json_schema": False}} for name in ("flash", "standard")}
    async with start_gateway(models=none) as gateway:
        seen = await post(gateway, {"model": "auto", "instructions": "Be brief.", "input": SEEING})
        formed = await post(gateway, {"model": "auto", "text": {"format": FORMAT}})
    errors = [answer.json()["error"] for answer in (seen, formed)]
    assert [(error["code"], error["param"]) for error in errors] == [
        ("unsupported_content", "input"),
        ("unsupported_parameter", "text.format"),
    ]
    assert [answer.status_code for answer in (seen, formed)] == [400, 400]
