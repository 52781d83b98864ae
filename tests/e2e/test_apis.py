"""The other APIs on real models, by their official clients."""

import json

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, TextBlock, ToolParam, ToolUseBlock
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall

from tests.e2e.conftest import BEGUN, CAPITAL, WEATHER, Program

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

COUNT = "Count to one hundred."

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
TOOL: ToolParam = {"name": "weather", "description": "Of a city.", "input_schema": SCHEMA}
FUNCTION: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Of a city.",
    "parameters": SCHEMA,
    "strict": True,
}


def anthropic_client(program: Program) -> AsyncAnthropic:
    """Return Anthropic's official client."""
    return AsyncAnthropic(base_url=program.url, api_key=program.key, max_retries=0, timeout=120)


def asking(text: str) -> list[MessageParam]:
    """Return a conversation of one question."""
    return [{"role": "user", "content": text}]


async def test_anthropics_client_gets_a_message_and_a_stream(up: Program):
    async with anthropic_client(up) as client:
        message = await client.messages.create(
            model="auto", max_tokens=16, messages=asking(CAPITAL), extra_body={"temperature": 0}
        )
        (block,) = message.content
        assert isinstance(block, TextBlock)
        assert "Paris" in block.text
        assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 0
        async with client.messages.stream(model="flash", max_tokens=4, messages=asking(COUNT)) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
    assert text
    assert final.stop_reason == "max_tokens"
    assert final.usage.output_tokens == 4


async def test_anthropics_client_gets_a_tool_call_and_answers_it(up: Program):
    led: list[MessageParam] = [*asking(WEATHER), {"role": "assistant", "content": BEGUN}]
    async with anthropic_client(up) as client:
        async with client.messages.stream(
            model="standard",
            max_tokens=64,
            messages=led,
            tools=[TOOL],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            extra_body={"temperature": 0},
        ) as stream:
            called = await stream.get_final_message()
        (call,) = (block for block in called.content if isinstance(block, ToolUseBlock))
        assert called.stop_reason == "tool_use"
        assert (call.name, list(call.input)) == ("weather", ["city"])
        turns: list[MessageParam] = [
            *asking(WEATHER),
            {"role": "assistant", "content": called.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sun"}]},
        ]
        answered = await client.messages.create(model="standard", max_tokens=8, messages=turns, tools=[TOOL])
    assert answered.usage.output_tokens > 0


async def test_anthropics_client_gets_its_errors(up: Program):
    async with anthropic_client(up) as client:
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.create(model="nope", max_tokens=1, messages=asking(CAPITAL))
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(model="flash", max_tokens=1, messages=asking(CAPITAL * 20_000))


async def test_openais_client_gets_a_response_and_a_stream(up: Program):
    async with up.openai() as client:
        response = await client.responses.create(
            model="auto", input=CAPITAL, max_output_tokens=16, temperature=0
        )
        assert "Paris" in response.output_text
        async with client.responses.stream(model="flash", input=COUNT, max_output_tokens=4) as stream:
            kinds = [event.type async for event in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.incomplete"


async def test_openais_client_gets_a_tool_call_and_answers_it(up: Program):
    async with up.openai() as client:
        called = await client.responses.create(
            model="standard",
            input=[{"role": "user", "content": WEATHER}, {"role": "assistant", "content": BEGUN}],
            max_output_tokens=64,
            tools=[FUNCTION],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
        )
        (call,) = (item for item in called.output if isinstance(item, ResponseFunctionToolCall))
        assert (call.name, list(json.loads(call.arguments))) == ("weather", ["city"])
        answered = await client.responses.create(
            model="standard",
            max_output_tokens=8,
            tools=[FUNCTION],
            input=[
                {"role": "user", "content": WEATHER},
                {
                    "type": "function_call",
                    "call_id": call.call_id,
                    "name": call.name,
                    "arguments": call.arguments,
                },
                {"type": "function_call_output", "call_id": call.call_id, "output": "Sun"},
            ],
        )
    assert answered.usage is not None
    assert answered.usage.output_tokens > 0


async def test_openais_client_gets_its_errors(up: Program):
    async with up.openai() as client:
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="nope", input=CAPITAL)
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="flash", input=CAPITAL, previous_response_id="resp_1")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_1")


@pytest.mark.parametrize(
    ("prompt", "model"), [("The capital of France is", "auto"), ("法国的首都是", "standard")]
)
async def test_openais_client_gets_a_completion_and_a_stream(up: Program, prompt: str, model: str):
    async with up.openai() as client:
        whole = await client.completions.create(model=model, prompt=prompt, max_tokens=4, temperature=0)
        stream = await client.completions.create(
            model=model,
            prompt=prompt,
            max_tokens=4,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    assert whole.choices[0].text
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4


async def test_openais_client_is_told_that_a_chat_engine_embeds_nothing(up: Program):
    async with up.openai() as client:
        with pytest.raises(openai.BadRequestError, match="does not serve /v1/embeddings"):
            await client.embeddings.create(model="flash", input=CAPITAL)
        answer = await client.completions.create(model="flash", prompt=CAPITAL, max_tokens=1)
    assert answer.choices
