"""Chat requests as they come over the wire, and as they go on to an engine.

The body is cut into its top-level fields once; a field that nothing looks at travels on as the bytes
that came in, so numbers keep their digits and unknown fields their meaning.
"""

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from classifier.reading import LOOK_BACK
from classifier.types import Conversation, Turn
from gateway.errors import BodyInvalid
from policies.errors import InputTooLong
from policies.tokens import estimate_tokens

ISOLATION_FIELDS = ("cache_salt", "priority", "kv_transfer_params", "prompt_embeds", "request_id")
"""Fields that touch other tenants; they come from policy, whatever a client sends."""

LIMIT_FIELDS = frozenset({"max_tokens", "max_completion_tokens"})
SYSTEM_ROLES = frozenset({"system", "developer"})
T = TypeVar("T")
TOKENS_PER_MESSAGE = 4
"""What a chat template adds around a message, about."""


class Part(msgspec.Struct):
    """A piece of a message's content."""

    type: str = "text"
    text: str | None = None


class Message(msgspec.Struct):
    """The fields of a message that Flashlane reads."""

    role: str
    content: str | list[Part] | None = None

    def text(self) -> str:
        """Return the text parts, joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if part.text)

    def attachments(self) -> int:
        """Count the parts that are not text."""
        if self.content is None or isinstance(self.content, str):
            return 0
        return sum(part.type != "text" for part in self.content)


class StreamOptions(msgspec.Struct):
    """The field of `stream_options` that Flashlane reads."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """A chat request, checked as far as Flashlane needs it.

    Attributes:
        model: As the client named it.
        stream: Whether an event stream is asked for.
        wants_usage: Whether the client asked for usage in the stream.
        max_output_tokens: `max_completion_tokens`, else `max_tokens`, else None.
        messages: At least one.
        fields: Every top-level field as it came, isolation fields left out.
    """

    model: str
    stream: bool
    wants_usage: bool
    max_output_tokens: int | None
    messages: list[Message]
    fields: dict[str, Raw]

    def input_tokens(self) -> int:
        """Estimate the length of the input, in tokens; attachments do not count."""
        tools = len(self.fields.get("tools", b"")) // 4
        return tools + sum(estimate_tokens(m.text()) + TOKENS_PER_MESSAGE for m in self.messages)

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
        tools = bytes(self.fields["tools"]) if "tools" in self.fields else b""
        return Conversation(
            turns=[Turn(m.role, m.text()) for m in (*before, last)],
            system="\n".join(system),
            tools=b"" if tools in {b"null", b"[]"} else tools,
            tool_count=_count(tools),
            attachments=last.attachments(),
            depth=len(messages) - len(system),
        )

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
        self.fields["messages"] = _raw([r for r, keep in zip(raw, kept, strict=True) if keep])
        self.messages = [m for m, keep in zip(self.messages, kept, strict=True) if keep]

    def upstream_body(self, model: str, *, max_output_tokens: int | None, cache_salt: str | None) -> bytes:
        """Return the body for an engine.

        Args:
            model: The engine's name of it.
            max_output_tokens: Cap to send in place of the client's; None leaves the client's.
            cache_salt: Keeps this tenant's cached prefixes apart; None where the engine has no such field.
        """
        fields = dict(self.fields)
        fields["model"] = _raw(model)
        if self.stream and not self.wants_usage:
            options = _decode(fields, "stream_options", dict[str, Raw]) or {}
            fields["stream_options"] = _raw(options | {"include_usage": Raw(b"true")})
        if max_output_tokens is not None:
            # Under every name that the client used: an engine may read but one of them.
            for name in LIMIT_FIELDS & fields.keys() or {"max_tokens"}:
                fields[name] = _raw(max_output_tokens)
        if cache_salt is not None:
            fields["cache_salt"] = _raw(cache_salt)
        return msgspec.json.encode(fields)


def parse_chat(body: bytes) -> ChatRequest:
    """Read a chat request.

    Raises:
        BodyInvalid: It is not JSON, or a field that Flashlane reads is missing or of another type.
    """
    try:
        body.decode("utf-8")
        fields = _read_fields(body)
    except UnicodeDecodeError as error:
        raise BodyInvalid(f"The body is not UTF-8: byte {error.start} is wrong.") from error
    except msgspec.ValidationError as error:
        raise BodyInvalid("The body must be a JSON object.") from error
    except msgspec.DecodeError as error:
        raise BodyInvalid(f"The body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise BodyInvalid("The body is nested too deeply.") from error
    for name in ISOLATION_FIELDS:
        fields.pop(name, None)
    model = _decode(fields, "model", str)
    if not model:
        raise BodyInvalid("You must name a model, for example 'auto'.", param="model")
    messages = _decode(fields, "messages", list[Message])
    if not messages:
        raise BodyInvalid("'messages' must hold at least one message.", param="messages")
    options = _decode(fields, "stream_options", StreamOptions)
    return ChatRequest(
        model=model,
        stream=bool(_decode(fields, "stream", bool)),
        wants_usage=bool(options and options.include_usage),
        max_output_tokens=_decode(fields, "max_completion_tokens", int) or _decode(fields, "max_tokens", int),
        messages=messages,
        fields=fields,
    )


@functools.lru_cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T | None]:
    return msgspec.json.Decoder(kind | None)


_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode


def _decode(fields: dict[str, Raw], name: str, kind: type[T]) -> T | None:
    """Return a field; None when it is absent or null."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return _decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        param = name + where.rstrip("`")
        raise BodyInvalid(
            f"Invalid value for '{param}': {what[0].lower()}{what[1:]}.", param=param
        ) from error
    except RecursionError as error:
        raise BodyInvalid(f"'{name}' is nested too deeply.", param=name) from error


def _raw(value: Any) -> Raw:  # noqa: ANN401 - whatever JSON has
    return Raw(msgspec.json.encode(value))


def _count(tools: bytes) -> int:
    if not tools:
        return 0
    try:
        return len(msgspec.json.decode(tools, type=Sequence[Raw] | None) or ())
    except msgspec.ValidationError as error:
        raise BodyInvalid("'tools' must be an array.", param="tools") from error
    except RecursionError as error:
        raise BodyInvalid("'tools' is nested too deeply.", param="tools") from error
