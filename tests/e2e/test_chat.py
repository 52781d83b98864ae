"""Chat completions on real models, by OpenAI's official client: tool calls, errors, a client that leaves."""

import json
import re

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageFunctionToolCallParam,
    ChatCompletionMessageParam,
)

from tests.e2e.conftest import BEGUN, CAPITAL, WEATHER, Program, command_line, descendants
from tests.support.waiting import until

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

STORY = "Write a very long story about a river. Do not stop."

TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
LED: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": WEATHER},
    {"role": "assistant", "content": BEGUN},
]


def asking(text: str) -> list[ChatCompletionMessageParam]:
    """Return a conversation of one question."""
    return [{"role": "user", "content": text}]


async def test_a_tool_is_called_and_its_result_answered(up: Program):
    async with up.openai() as client:
        called = await client.chat.completions.create(
            model="standard",
            messages=LED,
            max_tokens=64,
            tools=[TOOL],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
        )
        (choice,) = called.choices
        (call,) = choice.message.tool_calls or []
        assert isinstance(call, ChatCompletionMessageFunctionToolCall)
        assert choice.finish_reason == "tool_calls"
        assert (call.function.name, list(json.loads(call.function.arguments))) == ("weather", ["city"])
        arguments = call.function.arguments
        made: ChatCompletionMessageFunctionToolCallParam = {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": arguments},
        }
        turns: list[ChatCompletionMessageParam] = [
            *asking(WEATHER),
            {"role": "assistant", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call.id, "content": "Sun"},
        ]
        answered = await client.chat.completions.create(
            model="standard", messages=turns, max_tokens=8, tools=[TOOL]
        )
    assert answered.usage is not None
    assert answered.usage.completion_tokens > 0


async def test_a_tool_call_is_streamed_in_pieces_that_make_it_up(up: Program):
    async with (
        up.openai() as client,
        client.chat.completions.stream(
            model="standard",
            messages=LED,
            max_tokens=64,
            tools=[TOOL],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
        ) as stream,
    ):
        pieces = [event async for event in stream if event.type == "tool_calls.function.arguments.delta"]
        final = await stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls or []
    assert final.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "weather"
    assert "".join(piece.arguments_delta for piece in pieces) == call.function.arguments
    assert list(json.loads(call.function.arguments)) == ["city"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_for_its_engine_is_told_as_such(up: Program, stream: bool):
    async with up.openai() as client:
        with pytest.raises(openai.BadRequestError) as raised:
            await client.chat.completions.create(
                model="flash", messages=asking(CAPITAL * 20_000), max_tokens=1, stream=stream
            )
    assert raised.value.code == "context_length_exceeded"


async def test_a_model_that_is_unknown_and_a_key_that_is_wrong_are_told_as_such(up: Program):
    async with up.openai() as client:
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(model="nope", messages=asking(CAPITAL))
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
    async with AsyncOpenAI(base_url=f"{up.url}/v1", api_key="sk-fl-of-nobody", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="flash", messages=asking(CAPITAL))


def engine_url(up: Program, model: str) -> str:
    """Return where the embedded engine of a model listens."""
    commands = [command_line(pid) for pid in descendants(up.process.pid)]
    (command,) = (command for command in commands if model in command)
    return f"http://127.0.0.1:{command[command.index('--port') + 1]}"


async def test_a_client_that_leaves_a_stream_frees_the_engine(up: Program):
    slots = f"{engine_url(up, 'smollm2-135m-instruct')}/slots"

    async def busy() -> bool:
        async with httpx.AsyncClient() as client:
            return any(slot["is_processing"] for slot in (await client.get(slots)).json())

    async def in_flight() -> float:
        async with httpx.AsyncClient() as client:
            page = (await client.get(f"{up.url}/metrics")).text
        found = re.findall(r"^flashlane_in_flight{.*} (\S+)$", page, re.MULTILINE)
        assert found
        return sum(map(float, found))

    async with up.openai() as client:
        stream = await client.chat.completions.create(
            model="flash",
            messages=asking(STORY),
            max_tokens=4000,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        async for _ in stream:
            break
        assert (await busy(), await in_flight()) == (True, 1)
        await stream.close()

    async def idle() -> bool:
        return not await busy() and await in_flight() == 0

    await until(idle, "the engine to be let go", patience=2)
