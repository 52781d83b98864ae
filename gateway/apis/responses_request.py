"""A request of OpenAI's Responses API as a chat request.

The shapes are those of https://platform.openai.com/docs/api-reference/responses; the fields that are
named here are read, and the rest is left as it is. Nothing is kept between requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw

from gateway.apis.chat import ChatTool, ChatToolFunction, chat_body
from gateway.apis.fields import Fields
from gateway.apis.responses_input import conversation
from gateway.errors import BodyInvalid

ECHOED = (
    "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls",
    "prompt_cache_key", "reasoning", "safety_identifier", "temperature", "text", "tool_choice", "tools",
    "top_logprobs", "top_p", "user",
)  # fmt: skip
"""Fields that an answer repeats."""

MEANINGLESS = frozenset({
    "background_options", "context_management", "include_obfuscation", "logprobs", "max_tool_calls",
    "metadata", "moderation", "n", "prompt_cache_options", "prompt_cache_retention", "service_tier", "store",
    "stream_options", "truncation",
})  # fmt: skip
"""Fields that mean something to OpenAI's own service, or to chat completions and not to this API."""

STATELESS = "Flashlane keeps no responses: send the whole conversation in 'input'."
REFUSED = {
    "previous_response_id": STATELESS,
    "conversation": STATELESS,
    "background": "Flashlane answers while the client waits.",
    "prompt": "Flashlane keeps no prompts: send it in 'instructions' and 'input'.",
}
LOGPROBS = "message.output_text.logprobs"
"""What a client puts into `include` to see log probabilities."""


class Tool(msgspec.Struct):
    """A tool; one that is not a function runs at OpenAI."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: Raw = Raw(b"null")
    strict: bool | None = None


class NamedTool(msgspec.Struct):
    """A tool that is named in a choice."""

    type: str
    name: str | None = None


class ToolChoice(msgspec.Struct):
    """Which tools may or must be used."""

    type: str
    name: str | None = None
    mode: str = "auto"
    tools: list[NamedTool] = []


class Format(msgspec.Struct, omit_defaults=True):
    """What the text of the answer must be."""

    type: str
    name: str | None = None
    description: str | None = None
    schema: Raw = Raw(b"")
    strict: bool | None = None


class Text(msgspec.Struct):
    """How the text of the answer shall be."""

    format: Format | None = None
    verbosity: str | None = None


class Reasoning(msgspec.Struct):
    """How hard the model shall think."""

    effort: str | None = None


@dataclass(frozen=True, slots=True)
class Translated:
    """A request, translated.

    Attributes:
        body: Of the chat request.
        echo: Fields that the answer repeats, as they came.
    """

    body: bytes
    echo: Mapping[str, Raw]


def translate_responses(body: bytes) -> Translated:
    """Return the chat body of a Responses body.

    Raises:
        BodyInvalid: It is not one, or asks for what only OpenAI's own service has.
    """
    fields = Fields(body)
    for name, why in REFUSED.items():
        fields.refuse(name, f"'{name}' is not supported. {why}")
    echo = fields.seen(ECHOED)
    fields.drop(MEANINGLESS)
    messages = conversation(fields)
    chat = {**_tools(fields), **_output(fields), **_logprobs(fields)}
    stream = fields.take("stream", bool) or False
    return Translated(chat_body(messages, {**fields.rest(), **chat}, stream=stream), echo)


def _tools(fields: Fields) -> dict[str, object]:
    tools = [_tool(index, tool) for index, tool in enumerate(fields.take("tools", list[Tool]) or ())]
    choice: str | ToolChoice | None = fields.take_union("tool_choice", str | ToolChoice | None)
    found: dict[str, object] = {}
    if isinstance(choice, str):
        found["tool_choice"] = choice
    elif choice is not None and choice.type == "allowed_tools":
        allowed = {tool.name for tool in choice.tools}
        tools = [tool for tool in tools if tool.function.name in allowed]
        found["tool_choice"] = choice.mode
    elif choice is not None:
        found["tool_choice"] = _chosen(choice)
    if tools:
        found["tools"] = tools
    return found


def _tool(index: int, tool: Tool) -> ChatTool:
    if tool.type != "function":
        raise BodyInvalid(
            f"The tool {tool.type!r} runs at OpenAI; Flashlane takes tools of type 'function'.",
            param=f"tools[{index}].type",
        )
    if not tool.name:
        raise BodyInvalid(f"'tools[{index}]' must have a name.", param=f"tools[{index}].name")
    parameters = UNSET if bytes(tool.parameters) == b"null" else tool.parameters
    return ChatTool(ChatToolFunction(tool.name, parameters, tool.description, tool.strict))


def _chosen(choice: ToolChoice) -> object:
    if choice.type != "function" or not choice.name:
        raise BodyInvalid(
            f"The tool choice {choice.type!r} is not supported: Flashlane takes 'auto', 'none', 'required', "
            "a function by its name, and 'allowed_tools'.",
            param="tool_choice",
        )
    return {"type": "function", "function": {"name": choice.name}}


def _output(fields: Fields) -> dict[str, object]:
    found: dict[str, object] = {}
    limit = fields.take("max_output_tokens", int)
    if limit is not None:
        found["max_tokens"] = limit
    reasoning = fields.take("reasoning", Reasoning)
    if reasoning and reasoning.effort:
        found["reasoning_effort"] = reasoning.effort
    text = fields.take("text", Text) or Text()
    if text.verbosity:
        found["verbosity"] = text.verbosity
    if text.format and text.format.type != "text":
        found["response_format"] = _format(text.format)
    return found


def _format(wanted: Format) -> object:
    match wanted.type:
        case "json_object":
            return {"type": "json_object"}
        case "json_schema" if wanted.name and bytes(wanted.schema):
            schema: dict[str, object] = {"name": wanted.name, "schema": wanted.schema}
            if wanted.description is not None:
                schema["description"] = wanted.description
            if wanted.strict is not None:
                schema["strict"] = wanted.strict
            return {"type": "json_schema", "json_schema": schema}
        case _:
            raise BodyInvalid(
                "'text.format' must be of type 'text', 'json_object', or 'json_schema' with a name and a "
                "schema.",
                param="text.format",
            )


def _logprobs(fields: Fields) -> dict[str, object]:
    included = fields.take("include", list[str]) or ()
    top = fields.take("top_logprobs", int)
    if LOGPROBS not in included and not top:
        return {}
    return {"logprobs": True, "top_logprobs": top or 0}
