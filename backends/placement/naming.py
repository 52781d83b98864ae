"""From a request to the names of its prompt's groups: by the model's tokenizer, or by bytes without one.

Engines reuse what is equal token for token from the very first on, so what is named is what the engine sees:
tools, system prompt and turns through the model's own chat template. Names made of bytes agree with each
other, and say nothing exact of an engine; they are good enough to know where a conversation went.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from backends.gsm.naming import NAME_BYTES, Scope
from backends.placement.prompts import Prompt
from backends.placement.template import ChatTemplate, TemplateFailed
from backends.placement.tokens import PrefixTokenizer

BYTES_PER_TOKEN = 4
"""Of English text, about."""


class PromptText(msgspec.Struct, frozen=True):
    """A prompt as its client sent it.

    Attributes:
        parts: JSON of the tools and of each turn, in the order in which models read them.
        tokens: Estimate of its length.
        salt: What keeps the tenant's groups apart; empty where tenants share them.
        messages: JSON of the messages of a chat; empty for a plain text.
        tools: JSON of the tools; empty without any.
        options: JSON of `chat_template_kwargs`; empty without any.
        text: Of a prompt that goes through no template.
    """

    parts: Sequence[bytes]
    tokens: int
    salt: str = ""
    messages: bytes = b""
    tools: bytes = b""
    options: bytes = b""
    text: str | None = None

    def size(self) -> int:
        """Return how many bytes there are to read."""
        return sum(map(len, self.parts))


class PromptNamer(Protocol):
    """Names the groups of prompts for one model, each of `group_tokens` tokens."""

    group_tokens: int

    def name(self, prompt: PromptText) -> Prompt:
        """Return what placement needs to know of a prompt."""
        ...


class ByteNamer:
    """Names groups of as many bytes of JSON as a group has tokens, four each."""

    def __init__(self, model: str, group_tokens: int) -> None:
        """Name groups for `model`."""
        self._model = model
        self.group_tokens = group_tokens

    def name(self, prompt: PromptText) -> Prompt:
        """See `PromptNamer`."""
        root = Scope(self._model, revision="bytes", salt=prompt.salt).root()
        data = b"\x00".join(prompt.parts)
        names = _name_bytes(data, self.group_tokens * BYTES_PER_TOKEN, root)
        tokens = max(prompt.tokens, len(names) * self.group_tokens)
        return Prompt(tokens, names, self.group_tokens, session_of(prompt, root))


class TokenNamer:
    """Names groups of tokens, as the model's own tokenizer and chat template make them."""

    def __init__(
        self, model: str, tokenizer: PrefixTokenizer, template: ChatTemplate | None, group_tokens: int
    ) -> None:
        """Name groups for `model`; without a template chats are named by bytes."""
        self._model = model
        self._tokenizer = tokenizer
        self._template = template
        self.group_tokens = group_tokens
        self._bytes = ByteNamer(model, group_tokens)

    def name(self, prompt: PromptText) -> Prompt:
        """See `PromptNamer`; what the template refuses, or no text, is named by bytes."""
        text = prompt.text if prompt.text is not None else self._rendered(prompt)
        if text is None:
            return self._bytes.name(prompt)
        root = root_of(self._model, prompt.salt)
        special = prompt.text is not None  # a template writes its special tokens itself
        names, tokens = self._tokenizer.name(text, self.group_tokens, root, add_special_tokens=special)
        return Prompt(tokens, names, self.group_tokens, session_of(prompt, root))

    def _rendered(self, prompt: PromptText) -> str | None:
        if self._template is None or not prompt.messages:
            return None
        tools: Any = json.loads(prompt.tools) if prompt.tools else None
        options: Mapping[str, Any] = json.loads(prompt.options) if prompt.options else {}
        try:
            return self._template.render(json.loads(prompt.messages), tools or None, options)
        except TemplateFailed:
            return None


def root_of(model: str, salt: str) -> bytes:
    """Return the name before the first group of a prompt of tokens; the salt may be empty."""
    return Scope(model, salt=salt).root()


def session_of(prompt: PromptText, root: bytes) -> bytes | None:
    """Return a name for the conversation of a prompt, made of all up to its first turn of a user."""
    head: list[bytes] = []
    for part in prompt.parts:
        head.append(part)
        if b'"user"' in part[:200] or b'"user"' in part[-200:]:
            return _digest(root, b"\x00".join(head))
    return None


def _name_bytes(data: bytes, size: int, parent: bytes) -> list[bytes]:
    """Return the names of whole groups of `size` bytes, each a hash of the one before and of its bytes."""
    names: list[bytes] = []
    for end in range(size, len(data) + 1, size):
        parent = _digest(parent, data[end - size : end])
        names.append(parent)
    return names


def _digest(parent: bytes, data: bytes) -> bytes:
    return blake2b(parent + data, digest_size=NAME_BYTES).digest()
