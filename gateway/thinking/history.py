"""The reasoning of earlier turns: under the name that an engine reads, made good where lost, or left out.

Only messages that change are written again, and those field by field; all other bytes stay.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

REASONING = ("reasoning_content", "reasoning")
"""The names of reasoning in a message: DeepSeek's, which clients read, and vLLM's."""

BLANK = Raw(b'" "')
"""Stands for reasoning that is lost: the least that DeepSeek's API takes, which refuses an empty text."""

Message = dict[str, Raw]
read_messages = msgspec.json.Decoder(list[Raw]).decode
read_message = msgspec.json.Decoder(Message).decode


def without_reasoning(messages: Raw) -> Raw:
    """Take the reasoning out of a conversation: a model that knows no such field may refuse it."""
    return _changed(messages, _strip) if _mentions_reasoning(messages) else messages


def renamed_to(name: str, messages: Raw) -> Raw:
    """Put reasoning under the name that an engine reads, and under no other."""
    return (
        _changed(messages, lambda message: _rename(message, name))
        if _mentions_reasoning(messages)
        else messages
    )


def lacks_reasoning(messages: Raw) -> bool:
    """Tell whether a turn with tool calls has lost its reasoning.

    A turn goes from one user message to the next. Once a tool was called in it, DeepSeek's API wants the
    reasoning of every assistant message of the turn back (https://api-docs.deepseek.com/guides/thinking_mode).
    """
    if b'"tool_calls"' not in bytes(messages):
        return False
    called = lost = False
    for message in map(read_message, read_messages(messages)):
        match _role(message):
            case b'"user"':
                called = lost = False
            case b'"assistant"':
                called = called or _calls(message)
                lost = lost or _reasoning(message) is None
            case _:
                pass
        if called and lost:
            return True
    return False


def made_good(messages: Raw) -> Raw:
    """Put a blank where an assistant's reasoning is missing, in a conversation that called tools.

    Turns without tools get it too: the API says that it reads nothing there, and was seen to insist.
    """
    return _changed(messages, _fill) if b'"tool_calls"' in bytes(messages) else messages


def _mentions_reasoning(messages: Raw) -> bool:
    return b'"reasoning' in bytes(messages)


def _changed(messages: Raw, change: Callable[[Message], bool]) -> Raw:
    """Return a conversation after `change`, which tells whether it changed a message of the assistant."""
    raw = read_messages(messages)
    parsed = [read_message(message) for message in raw]
    done = [_role(message) == b'"assistant"' and change(message) for message in parsed]
    if not any(done):
        return messages
    return Raw(msgspec.json.encode(_pick(raw, parsed, done)))


def _pick(raw: Sequence[Raw], parsed: Sequence[Message], changed: Sequence[bool]) -> list[Raw | Message]:
    return [new if differs else old for old, new, differs in zip(raw, parsed, changed, strict=True)]


def _strip(message: Message) -> bool:
    found = [name for name in REASONING if name in message]
    for name in found:
        del message[name]
    return bool(found)


def _rename(message: Message, name: str) -> bool:
    others = [other for other in REASONING if other != name and other in message]
    if not others:
        return False
    text = _reasoning(message, first=name)
    for other in others:
        del message[other]
    if text is not None:
        message[name] = text
    return True


def _fill(message: Message) -> bool:
    if _reasoning(message) is not None:
        return False
    message["reasoning_content"] = BLANK
    return True


def _role(message: Message) -> bytes:
    return bytes(message.get("role", b"")).strip()


def _calls(message: Message) -> bool:
    return bytes(message.get("tool_calls", b"null")).strip() not in {b"null", b"[]"}


def _reasoning(message: Message, first: str = REASONING[0]) -> Raw | None:
    """Return the reasoning of a message, a text that is not empty; None when it has none."""
    for name in sorted(REASONING, key=lambda name: name != first):
        text = bytes(message.get(name, b"")).strip()
        if text.startswith(b'"') and text != b'""':
            return Raw(text)
    return None
