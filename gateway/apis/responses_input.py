"""The input of a Responses request as the messages of a chat."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw

from gateway.apis.chat import (
    ChatFile,
    ChatFunction,
    ChatMessage,
    ChatPart,
    ChatToolCall,
    image_part,
    simplest,
    text_part,
)
from gateway.apis.fields import Fields
from gateway.errors import BodyInvalid
from gateway.requests.body import read_json

ROLES = frozenset({"user", "assistant", "system", "developer"})


class TextInput(msgspec.Struct, tag_field="type", tag="input_text"):
    """Text of a user, or of a tool."""

    text: str


class TextOutput(msgspec.Struct, tag_field="type", tag="output_text"):
    """Text of the model."""

    text: str


class RefusalOutput(msgspec.Struct, tag_field="type", tag="refusal"):
    """A refusal of the model."""

    refusal: str


class ImageInput(msgspec.Struct, tag_field="type", tag="input_image"):
    """An image; one that was uploaded before is not here."""

    image_url: str | None = None
    detail: str | None = None


class FileInput(msgspec.Struct, tag_field="type", tag="input_file"):
    """A file; one that was uploaded before, or is elsewhere, is not here."""

    file_data: str | None = None
    filename: str | None = None


class AudioInput(msgspec.Struct, tag_field="type", tag="input_audio"):
    """Sound."""

    input_audio: Raw


Content = TextInput | TextOutput | RefusalOutput | ImageInput | FileInput | AudioInput


class _Kind(msgspec.Struct):
    type: str | None = None


class MessageItem(msgspec.Struct):
    """A message."""

    role: str
    content: str | list[Content]


class CallItem(msgspec.Struct):
    """A tool call of an earlier turn."""

    call_id: str
    name: str
    arguments: str


class ResultItem(msgspec.Struct):
    """What a tool has returned."""

    call_id: str
    output: str | list[Content]


class _Thought(msgspec.Struct):
    text: str = ""


class ReasoningItem(msgspec.Struct):
    """What the model thought in an earlier turn; encrypted thoughts are OpenAI's alone."""

    summary: list[_Thought] = []
    content: list[_Thought] | None = None

    def text(self) -> str:
        """Return the thoughts, or what they were summed up as."""
        return "".join(thought.text for thought in self.content or self.summary)


def conversation(fields: Fields) -> list[ChatMessage]:
    """Take instructions and input, return the messages.

    Raises:
        BodyInvalid: There is no input, or some of it is not to be had without OpenAI's own service.
    """
    instructions = fields.take("instructions", str)
    given: str | list[Raw] | None = fields.take_union("input", str | list[Raw] | None)
    if not given:
        raise BodyInvalid("'input' must be a text, or hold at least one item.", param="input")
    messages = _Messages(instructions)
    if isinstance(given, str):
        messages.say("user", given)
    else:
        for index, raw in enumerate(given):
            _add(messages, raw, f"input[{index}]")
    return messages.whole()


def _add(messages: "_Messages", raw: Raw, path: str) -> None:
    kind: _Kind = read_json(raw, _Kind, path)
    match kind.type:
        case None | "message":
            _add_message(messages, read_json(raw, MessageItem, path), path)
        case "function_call":
            call: CallItem = read_json(raw, CallItem, path)
            messages.call(ChatToolCall(call.call_id, ChatFunction(call.name, call.arguments)))
        case "function_call_output":
            result: ResultItem = read_json(raw, ResultItem, path)
            messages.result(result.call_id, _content(result.output, path))
        case "reasoning":
            thoughts: ReasoningItem = read_json(raw, ReasoningItem, path)
            messages.think(thoughts.text())
        case "item_reference":
            raise BodyInvalid(
                "'item_reference' is not supported: Flashlane keeps no items; send the item itself.",
                param=path,
            )
        case _:
            raise BodyInvalid(f"Items of type {kind.type!r} are not supported.", param=f"{path}.type")


def _add_message(messages: "_Messages", message: MessageItem, path: str) -> None:
    if message.role not in ROLES:
        raise BodyInvalid(
            f"Invalid value for '{path}.role': it must be one of {', '.join(sorted(ROLES))}.",
            param=f"{path}.role",
        )
    messages.say(message.role, _content(message.content, path))


def _content(content: str | Sequence[Content], path: str) -> str | list[ChatPart]:
    if isinstance(content, str):
        return content
    return simplest([_part(part, path) for part in content])


def _part(part: Content, path: str) -> ChatPart:
    match part:
        case TextInput() | TextOutput():
            return text_part(part.text)
        case RefusalOutput():
            return text_part(part.refusal)
        case ImageInput(image_url=str(url)):
            return image_part(url, part.detail)
        case FileInput(file_data=str(data)):
            return ChatPart("file", file=ChatFile(data, part.filename))
        case AudioInput():
            return ChatPart("input_audio", input_audio=part.input_audio)
        case ImageInput() | FileInput():
            raise BodyInvalid(
                f"'{path}' must hold its image or file itself: Flashlane keeps no files and fetches none.",
                param=path,
            )


class _Messages:
    """Puts items together to messages: what the model said, thought and called is one of its turns."""

    def __init__(self, instructions: str | None) -> None:
        self._system = [instructions] if instructions else []
        self._messages: list[ChatMessage] = []
        self._turn: ChatMessage | None = None
        self._shown: list[ChatPart] = []

    def say(self, role: str, content: str | list[ChatPart]) -> None:
        """Add a message. System prompts at the start become one: many chat templates take no second."""
        if role == "assistant":
            self._say_as_model(_text_of(content, between=""))
            return
        role = "system" if role == "developer" else role
        if role == "system" and not self._messages and self._turn is None:
            self._system.append(_text_of(content))
            return
        self._end_turn()
        self._end_results()
        self._messages.append(ChatMessage(role, content))

    def think(self, text: str) -> None:
        """Add reasoning to the model's turn."""
        if self._turn is not None and not isinstance(self._turn.tool_calls, list) and self._turn.content:
            self._end_turn()
        turn = self._turn_now()
        if text:
            before = turn.reasoning_content if isinstance(turn.reasoning_content, str) else ""
            turn.reasoning_content = before + text

    def call(self, call: ChatToolCall) -> None:
        """Add a tool call to the model's turn."""
        turn = self._turn_now()
        turn.tool_calls = [*(turn.tool_calls if isinstance(turn.tool_calls, list) else []), call]

    def result(self, call_id: str, content: str | list[ChatPart]) -> None:
        """Add what a tool has returned; what is not text follows the results, as a user's message."""
        self._end_turn()
        self._messages.append(ChatMessage("tool", _text_of(content), tool_call_id=call_id))
        if not isinstance(content, str):
            self._shown += [part for part in content if part.type != "text"]

    def whole(self) -> list[ChatMessage]:
        """Return the messages."""
        self._end_turn()
        self._end_results()
        system = [ChatMessage("system", "\n\n".join(self._system))] if self._system else []
        return [*system, *self._messages]

    def _say_as_model(self, text: str) -> None:
        if self._turn is not None and self._turn.content and not isinstance(self._turn.tool_calls, list):
            self._end_turn()
        turn = self._turn_now()
        turn.content = (turn.content if isinstance(turn.content, str) else "") + text

    def _turn_now(self) -> ChatMessage:
        if self._turn is None:
            self._end_results()
            self._turn = ChatMessage("assistant", None)
        return self._turn

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if turn.content is None and turn.tool_calls is UNSET:
            turn.content = ""
        self._messages.append(turn)

    def _end_results(self) -> None:
        if self._shown:
            self._messages.append(ChatMessage("user", self._shown))
            self._shown = []


def _text_of(content: str | Sequence[ChatPart], *, between: str = "\n") -> str:
    if isinstance(content, str):
        return content
    return between.join(part.text for part in content if isinstance(part.text, str))
