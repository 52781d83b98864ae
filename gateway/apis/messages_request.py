"""A request of Anthropic's Messages API as a chat request.

The shapes are those of https://docs.anthropic.com/en/api/messages; the fields that are named here are
read, and the rest is left as it is.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, Raw

from gateway.apis.chat import (
    ChatFile,
    ChatFunction,
    ChatMessage,
    ChatPart,
    ChatTool,
    ChatToolCall,
    ChatToolFunction,
    chat_body,
    image_part,
    simplest,
    text_part,
)
from gateway.apis.fields import Fields
from gateway.errors import BodyInvalid

MEANINGLESS = frozenset({
    "betas", "cache_control", "context_management", "diagnostics", "inference_geo", "logprobs", "n",
    "service_tier", "speed", "stream_options", "top_logprobs", "user_profile_id", "workspace_id",
})  # fmt: skip
"""Fields that mean something to Anthropic's own service, or to chat completions and not to this API."""

REFUSED = {
    "container": "Flashlane runs no containers.",
    "mcp_servers": "Flashlane calls no MCP servers; call them from the client, as tools.",
}
BILLING = re.compile(r"x-anthropic-billing-header:[^\n]*\n?")
"""A line that Claude Code puts first in its system prompt. It changes with every request, so that no
prefix would ever be found again, and it means nothing to a model."""


class TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class Base64Source(msgspec.Struct, tag_field="type", tag="base64"):
    """The bytes of an image or a document."""

    media_type: str
    data: str

    def url(self) -> str:
        """Return them as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.data}"


class UrlSource(msgspec.Struct, tag_field="type", tag="url"):
    """Where an image or a document is."""

    url: str


class TextSource(msgspec.Struct, tag_field="type", tag="text"):
    """The text of a document."""

    data: str


class ImageBlock(msgspec.Struct, tag_field="type", tag="image"):
    """An image."""

    source: Base64Source | UrlSource

    def part(self) -> ChatPart:
        """Return it as chat completions have it."""
        source = self.source
        return image_part(source.url() if isinstance(source, Base64Source) else source.url)


class ContentSource(msgspec.Struct, tag_field="type", tag="content"):
    """The content of a document, as blocks."""

    content: str | list[TextBlock | ImageBlock]


class DocumentBlock(msgspec.Struct, tag_field="type", tag="document"):
    """A document."""

    source: TextSource | ContentSource | Base64Source
    title: str | None = None


class SearchResultBlock(msgspec.Struct, tag_field="type", tag="search_result"):
    """Something that was found."""

    title: str
    source: str
    content: list[TextBlock]


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking"):
    """What the model thought in an earlier turn."""

    thinking: str


class RedactedThinkingBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """Thoughts that only Anthropic can read."""


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A tool call of an earlier turn."""

    id: str
    name: str
    input: Raw = Raw(b"{}")


class ToolResultBlock(msgspec.Struct, tag_field="type", tag="tool_result"):
    """What a tool has returned."""

    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock | SearchResultBlock] | None = None
    is_error: bool | None = None


Shown = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock
Block = Shown | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock


class Turn(msgspec.Struct):
    """A message of the conversation."""

    role: str
    content: str | list[Block]


class Tool(msgspec.Struct):
    """A tool that the model may use."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Raw = Raw(b"")
    strict: bool | None = None


class ToolChoice(msgspec.Struct):
    """Whether and which tools must be used."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Metadata(msgspec.Struct):
    """About the request."""

    user_id: str | None = None


class Thinking(msgspec.Struct):
    """Whether the model shall think; `adaptive` leaves it to the model."""

    type: str


class OutputFormat(msgspec.Struct):
    """The JSON that the answer must be."""

    type: str
    schema: Raw = Raw(b"{}")


class OutputConfig(msgspec.Struct):
    """How the answer shall be."""

    effort: str | None = None
    format: OutputFormat | None = None


def translate_messages(body: bytes) -> bytes:
    """Return the chat body of a Messages body.

    Raises:
        BodyInvalid: It is not one, or asks for what only Anthropic's own service has.
    """
    fields = Fields(body)
    fields.drop(MEANINGLESS)
    for name, why in REFUSED.items():
        fields.refuse(name, f"'{name}' is not supported: {why}")
    messages = [*_system(fields), *_conversation(fields)]
    chat = {**_tools(fields), **_sampling(fields)}
    stream = fields.take("stream", bool) or False
    return chat_body(messages, {**fields.rest(), **chat}, stream=stream)


def _system(fields: Fields) -> Iterator[ChatMessage]:
    system: str | list[TextBlock] | None = fields.take_union("system", str | list[TextBlock] | None)
    if system is None:
        return
    texts = [system] if isinstance(system, str) else [block.text for block in system]
    texts = [BILLING.sub("", text, count=1) if BILLING.match(text) else text for text in texts]
    if text := "\n".join(text for text in texts if text):
        yield ChatMessage("system", text)


def _conversation(fields: Fields) -> Iterator[ChatMessage]:
    turns = fields.take("messages", list[Turn])
    if not turns:
        raise BodyInvalid("'messages' must hold at least one message.", param="messages")
    for index, turn in enumerate(turns):
        if turn.role not in {"user", "assistant", "system"}:
            raise BodyInvalid(
                f"Invalid value for 'messages[{index}].role': it must be 'user' or 'assistant'.",
                param=f"messages[{index}].role",
            )
        if isinstance(turn.content, str):
            yield ChatMessage(turn.role, turn.content)
        elif turn.role == "assistant":
            yield _assistant(turn.content)
        else:
            yield from _user(turn.role, turn.content)


def _assistant(blocks: Sequence[Block]) -> ChatMessage:
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
    calls = [
        ChatToolCall(block.id, ChatFunction(block.name, bytes(block.input).decode()))
        for block in blocks
        if isinstance(block, ToolUseBlock)
    ]
    return ChatMessage(
        "assistant",
        "".join(texts) or (None if calls else ""),
        reasoning_content="".join(thoughts) or UNSET,
        tool_calls=calls or UNSET,
    )


def _user(role: str, blocks: Sequence[Block]) -> Iterator[ChatMessage]:
    """Yield the results of tools first, each a message of its own; then the rest.

    A result that is an image goes with the rest: a tool message has text only.
    """
    rest: list[ChatPart] = []
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            shown = [] if isinstance(block.content, str) else _parts(block.content or ())
            texts = [part.text for part in shown if isinstance(part.text, str)]
            text = block.content if isinstance(block.content, str) else "\n".join(texts)
            rest += [part for part in shown if part.type != "text"]
            yield ChatMessage("tool", _result(text, block), tool_call_id=block.tool_use_id)
    rest += _parts([block for block in blocks if isinstance(block, Shown)])
    if rest:
        yield ChatMessage(role, simplest(rest))


def _result(text: str, block: ToolResultBlock) -> str:
    """Say that a tool failed where its own words do not: chat completions have no other way."""
    if not block.is_error or text.lower().startswith("error"):
        return text
    return f"Error: {text}" if text else "Error"


def _parts(blocks: Sequence[Shown]) -> list[ChatPart]:
    return [part for block in blocks for part in _shown(block)]


def _shown(block: Shown) -> list[ChatPart]:
    match block:
        case TextBlock():
            return [text_part(block.text)] if block.text else []
        case ImageBlock():
            return [block.part()]
        case SearchResultBlock():
            text = "\n".join(found.text for found in block.content)
            return [text_part(f"{block.title}\n{block.source}\n{text}")]
        case DocumentBlock():
            return _document(block)


def _document(block: DocumentBlock) -> list[ChatPart]:
    title = [text_part(block.title)] if block.title else []
    match block.source:
        case TextSource():
            return [*title, text_part(block.source.data)]
        case ContentSource():
            content = block.source.content
            return [*title, *([text_part(content)] if isinstance(content, str) else _parts(content))]
        case Base64Source():
            return [ChatPart("file", file=ChatFile(block.source.url(), block.title))]


def _tools(fields: Fields) -> dict[str, object]:
    found: dict[str, object] = {}
    if tools := fields.take("tools", list[Tool]):
        found["tools"] = [_tool(index, tool) for index, tool in enumerate(tools)]
    choice = fields.take("tool_choice", ToolChoice)
    if choice is not None:
        found["tool_choice"] = _tool_choice(choice)
        if choice.disable_parallel_tool_use is not None:
            found["parallel_tool_calls"] = not choice.disable_parallel_tool_use
    return found


def _tool(index: int, tool: Tool) -> ChatTool:
    if tool.type not in {None, "custom"}:
        raise BodyInvalid(
            f"The tool {tool.name!r} of type {tool.type!r} runs at Anthropic, or is known to its models "
            "only; Flashlane takes tools with an 'input_schema'.",
            param=f"tools[{index}].type",
        )
    schema = tool.input_schema if bytes(tool.input_schema) else UNSET
    return ChatTool(ChatToolFunction(tool.name, schema, tool.description, tool.strict))


def _tool_choice(choice: ToolChoice) -> object:
    match choice:
        case ToolChoice(type="auto" | "none"):
            return choice.type
        case ToolChoice(type="any"):
            return "required"
        case ToolChoice(type="tool", name=str()):
            return {"type": "function", "function": {"name": choice.name}}
        case _:
            raise BodyInvalid(
                "'tool_choice' must be of type 'auto', 'any', 'none', or 'tool' with a name.",
                param="tool_choice",
            )


def _sampling(fields: Fields) -> dict[str, object]:
    found: dict[str, object] = {}
    if stops := fields.take("stop_sequences", list[str]):
        found["stop"] = stops
    metadata = fields.take("metadata", Metadata)
    if metadata and metadata.user_id:
        found["user"] = metadata.user_id
    thinking = fields.take("thinking", Thinking)
    if thinking and thinking.type in {"enabled", "disabled"}:
        found["thinking"] = {"type": thinking.type}
    config = fields.take("output_config", OutputConfig) or OutputConfig()
    if config.effort:
        found["reasoning_effort"] = config.effort
    wanted = config.format or fields.take("output_format", OutputFormat)
    if wanted is not None:
        schema = {"name": "output", "schema": wanted.schema, "strict": True}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    return found
