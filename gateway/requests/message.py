"""A message of a chat, as far as Flashlane reads it."""

import msgspec
from msgspec import Raw

from policies.capabilities import TEXT_TYPES


class Part(msgspec.Struct):
    """A piece of a message's content; without a type it is what its fields say."""

    type: str = ""
    text: str | None = None


class Message(msgspec.Struct):
    """The fields of a message that Flashlane reads."""

    role: str
    content: str | list[Part] | None = None
    audio: Raw = Raw(b"")

    def text(self) -> str:
        """Return the text parts, joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if part.text)

    def attachments(self) -> int:
        """Count the parts that are not text."""
        if self.content is None or isinstance(self.content, str):
            return 0
        return sum(part.type not in TEXT_TYPES and part.text is None for part in self.content)
