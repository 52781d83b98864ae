"""Chat completions as the translations write and read them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType, structs

from gateway.usage import UsageFields, read_usage


class ChatImageUrl(msgspec.Struct, omit_defaults=True):
    """Where an image is; `data:` URLs hold it."""

    url: str
    detail: str | None = None


class ChatFile(msgspec.Struct, omit_defaults=True):
    """A file in a message."""

    file_data: str
    filename: str | None = None


class ChatPart(msgspec.Struct, omit_defaults=True):
    """A piece of a message; the field named as its type is set."""

    type: str
    text: str | UnsetType = UNSET
    image_url: ChatImageUrl | UnsetType = UNSET
    file: ChatFile | UnsetType = UNSET
    input_audio: Raw | UnsetType = UNSET


class ChatFunction(msgspec.Struct):
    """What a tool call calls; `arguments` is JSON in a string."""

    name: str
    arguments: str


class ChatToolCall(msgspec.Struct):
    """A tool call that the model has made."""

    id: str
    function: ChatFunction
    type: str = "function"


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """A message to an engine."""

    role: str
    content: str | list[ChatPart] | UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ChatToolCall] | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class ChatToolFunction(msgspec.Struct, omit_defaults=True):
    """What a model may call; `parameters` is a JSON schema."""

    name: str
    parameters: Raw | UnsetType = UNSET
    description: str | None = None
    strict: bool | None = None


class ChatTool(msgspec.Struct):
    """A tool of a request."""

    function: ChatToolFunction
    type: str = "function"


def text_part(text: str) -> ChatPart:
    """Return a piece of text."""
    return ChatPart("text", text=text)


def image_part(url: str, detail: str | None = None) -> ChatPart:
    """Return an image."""
    return ChatPart("image_url", image_url=ChatImageUrl(url, detail))


def simplest(parts: Sequence[ChatPart]) -> str | list[ChatPart]:
    """Return the content of a message: one text as a string, which every chat template takes."""
    if len(parts) == 1 and isinstance(parts[0].text, str):
        return parts[0].text
    return list(parts)


def chat_body(messages: Sequence[ChatMessage], fields: Mapping[str, object], *, stream: bool) -> bytes:
    """Return the body of a chat request; a stream is asked for its usage, which other APIs always show."""
    body: dict[str, object] = {**fields, "messages": messages}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(body)


class AnsweredFunction(msgspec.Struct):
    """The function of a tool call, or a piece of it."""

    name: str | None = None
    arguments: Any = None

    def arguments_text(self) -> str:
        """Return the arguments as JSON text; some engines send an object in place of a string."""
        if self.arguments is None:
            return ""
        if isinstance(self.arguments, str):
            return self.arguments
        return msgspec.json.encode(self.arguments).decode()


class AnsweredCall(msgspec.Struct):
    """A tool call, or a piece of one; which one is said by `index` or `id`, or not at all."""

    index: int | None = None
    id: str | None = None
    function: AnsweredFunction | None = None


class AnsweredPart(msgspec.Struct):
    """A piece of content."""

    text: str | None = None


class AnsweredLogprobs(msgspec.Struct):
    """Log probabilities of a choice; the entries are the same in all of OpenAI's APIs."""

    content: list[Any] | None = None


class AnsweredMessage(msgspec.Struct):
    """What a model has said, or a piece of it."""

    content: str | list[AnsweredPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[AnsweredCall] | None = None

    def text(self) -> str:
        """Return the text."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text or "" for part in self.content)

    def thinking(self) -> str:
        """Return the reasoning, by whatever name it came; a mended chunk has both."""
        return self.reasoning_content or self.reasoning or ""


class AnsweredChoice(msgspec.Struct):
    """One answer, or a piece of it.

    Attributes:
        stop_reason: vLLM's: the stop sequence that was hit, or the id of a stop token.
    """

    index: int | None = None
    message: AnsweredMessage | None = None
    delta: AnsweredMessage | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: AnsweredLogprobs | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class AnsweredUsage(UsageFields):
    """Usage; how much of the output was reasoning, too."""

    completion_tokens_details: _CompletionDetails | None = None

    def reasoning_tokens(self) -> int | None:
        """Return how many tokens of the completion were reasoning; None when it was not said."""
        details = self.completion_tokens_details
        return details.reasoning_tokens if details else None


_read_counts = msgspec.json.Decoder(AnsweredUsage | None, strict=False).decode


class ChatAnswer(msgspec.Struct):
    """An answer, or a chunk of a stream of one."""

    model: str | None = None
    choices: list[AnsweredChoice] | None = None
    counts: Raw = msgspec.field(
        name="usage", default=Raw(b"null")
    )  # read for itself: an odd one spoils nothing
    error: Any = None

    @property
    def usage(self) -> AnsweredUsage | None:
        """Return what the engine has counted, as far as it can be read."""
        try:
            return _read_counts(self.counts)
        except msgspec.ValidationError:
            fields = read_usage(self.counts)
        return None if fields is None else AnsweredUsage(**structs.asdict(fields))

    def choice(self) -> AnsweredChoice | None:
        """Return the first choice; other APIs have no more than one."""
        return next((choice for choice in self.choices or () if not choice.index), None)


read_answer = msgspec.json.Decoder(ChatAnswer, strict=False).decode
