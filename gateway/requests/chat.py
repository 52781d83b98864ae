"""Chat requests as they come over the wire, and as they go on to an engine."""

from typing import ClassVar

import msgspec
from msgspec import Raw

from backends.types import CHAT_PATH
from classifier.reading import LOOK_BACK
from classifier.types import Conversation, Turn
from gateway.errors import BodyInvalid
from gateway.requests.body import as_raw, read_field, read_request
from gateway.requests.message import Message
from gateway.requests.protocol import AnswerField
from gateway.requests.stream_options import wanted_usage
from policies.errors import InputTooLong
from policies.tokens import estimate_tokens

LIMIT_FIELDS = frozenset({"max_tokens", "max_completion_tokens"})
SYSTEM_ROLES = frozenset({"system", "developer"})
TOKENS_PER_MESSAGE = 4
"""What a chat template adds around a message, about."""


class ChatRequest(msgspec.Struct):
    """A chat request, checked as far as Flashlane needs it; see `ClientRequest`.

    Attributes:
        max_output_tokens: `max_completion_tokens`, else `max_tokens`, else None.
        messages: At least one.
        fields: Every top-level field as it came, isolation fields left out.
        counted: What `input_tokens` found, until the messages change.
    """

    path: ClassVar[str] = CHAT_PATH
    answers_in: ClassVar[AnswerField] = "choices"
    model: str
    stream: bool
    wants_usage: bool
    wants_running_usage: bool
    max_output_tokens: int | None
    messages: list[Message]
    fields: dict[str, Raw]
    counted: int | None = None

    @property
    def portable(self) -> bool:
        """Tell that another model would do: a conversation is text."""
        return True

    def input_tokens(self) -> int:
        """Estimate the length of the input, in tokens; attachments do not count."""
        if self.counted is None:
            tools = len(self.fields.get("tools", b"")) // 4
            texts = sum(map(estimate_tokens, [message.text() for message in self.messages]))
            self.counted = tools + texts + TOKENS_PER_MESSAGE * len(self.messages)
        return self.counted

    def pending(self) -> int:
        """Return the index of the last user message; of the last message when there is none."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].role == "user":
                return index
        return len(self.messages) - 1

    def conversation(self) -> Conversation:
        """Return what the classifier looks at: the last user turn, and some of those before it."""
        messages, pending = self.messages, self.pending()
        last = messages[pending]
        before = [m for m in messages[:pending] if m.role == "user"][-LOOK_BACK:]
        system = [m.text() for m in messages if m.role in SYSTEM_ROLES]
        tools = read_field(self.fields, "tools", list[Raw])
        return Conversation(
            turns=[Turn(m.role, m.text()) for m in (*before, last)],
            system="\n".join(system),
            tools=bytes(self.fields["tools"]) if tools else b"",
            tool_count=len(tools or ()),
            attachments=last.attachments(),
            depth=len(messages) - len(system),
        )

    def pending_text(self) -> str:
        """Return the text of the last user turn."""
        return self.messages[self.pending()].text()

    def keep_last(self, max_tokens: int) -> None:
        """Drop the oldest turns until the input fits, system messages and the pending turn excepted.

        A cut never starts in the middle of a tool call: the first turn that stays is a user's.

        Raises:
            InputTooLong: What must stay does not fit.
        """
        sizes = [estimate_tokens(m.text()) + TOKENS_PER_MESSAGE for m in self.messages]
        excess = sum(sizes) + len(self.fields.get("tools", b"")) // 4 - max_tokens
        kept = [True] * len(self.messages)
        pending = self.pending()
        for index, message in enumerate(self.messages[:pending]):
            if excess <= 0 and message.role == "user":
                break
            if message.role not in SYSTEM_ROLES:
                kept[index] = False
                excess -= sizes[index]
        if excess > 0:
            raise InputTooLong(
                f"The system prompt and the last user message alone are over {max_tokens} tokens, "
                "the most that the tenant may send."
            )
        raw = msgspec.json.decode(self.fields["messages"], type=list[Raw])
        self.fields["messages"] = as_raw([r for r, keep in zip(raw, kept, strict=True) if keep])
        self.messages = [m for m, keep in zip(self.messages, kept, strict=True) if keep]
        self.counted = None

    @property
    def has_one_prompt(self) -> bool:
        """Tell that a chat is one prompt."""
        return True

    def cap_output(self, fields: dict[str, Raw], max_tokens: int) -> None:
        """Put the cap in, under every name that the client used: an engine may read but one of them."""
        for name in LIMIT_FIELDS & fields.keys() or {"max_tokens"}:
            fields[name] = as_raw(max_tokens)


def parse_chat(body: bytes) -> ChatRequest:
    """Read a chat request.

    Raises:
        BodyInvalid: It is not JSON, or a field that Flashlane reads is missing or of another type.
    """
    model, fields = read_request(body)
    messages = read_field(fields, "messages", list[Message])
    if not messages:
        raise BodyInvalid("'messages' must hold at least one message.", param="messages")
    at_end, running = wanted_usage(fields)
    return ChatRequest(
        model=model,
        stream=bool(read_field(fields, "stream", bool)),
        wants_usage=at_end,
        wants_running_usage=running,
        max_output_tokens=read_field(fields, "max_completion_tokens", int)
        or read_field(fields, "max_tokens", int),
        messages=messages,
        fields=fields,
    )
