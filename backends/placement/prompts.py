"""A prompt as replicas know it: the names of its groups, and how long it is."""

from collections.abc import Sequence

import msgspec


class Prompt(msgspec.Struct, frozen=True):
    """What placement knows of a prompt.

    Attributes:
        tokens: How long it is; estimated where there is no tokenizer.
        names: Of its whole groups, in their order.
        group_tokens: How long a group is, in tokens.
        session: Names the conversation; None where it has no name.
    """

    tokens: int
    names: Sequence[bytes] = ()
    group_tokens: int = 512
    session: bytes | None = None


NO_PROMPT = Prompt(0)
"""Nothing is known of it."""
