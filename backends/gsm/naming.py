"""The names of groups: a chain hash of tokens and of all else that the values of a KV cache depend on."""

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

NAME_BYTES = 16
"""Bytes of a name: two different prefixes share one with a chance of 2^-64 among four billion names."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What KV values depend on beside the tokens; groups of different scopes never share a name.

    Attributes:
        model: The model's name.
        revision: Which weights: a commit, a checksum, a date.
        kv_dtype: How the engine keeps the values: `auto`, `bfloat16`, `fp8_e4m3`, ...
        lora: The adapter; empty without one.
        salt: What keeps tenants apart; empty where they share.
    """

    model: str
    revision: str = ""
    kv_dtype: str = "auto"
    lora: str = ""
    salt: str = ""

    def root(self) -> bytes:
        """Return the name that stands before the first group: 16 bytes."""
        fields = (self.model, self.revision, self.kv_dtype, self.lora, self.salt)
        digest = blake2b(digest_size=NAME_BYTES, person=b"flashlane.gsm.1")
        for field in fields:
            encoded = field.encode()
            # Lengths keep ("ab", "c") and ("a", "bc") apart.
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.digest()


def name_groups(tokens: Sequence[int], group_size: int, parent: bytes) -> list[bytes]:
    """Name the whole groups of a sequence.

    A name is BLAKE2b of the parent's name and of the group's tokens as 32-bit little-endian integers. The
    place in the sequence is in it by the chain.

    Args:
        tokens: Token ids in [0, 2^32). A tail shorter than a group has no name.
        group_size: Tokens a group, at least 1.
        parent: The name of the group before the first one: `Scope.root()` at the start of a sequence.

    Returns:
        One name of 16 bytes a whole group, in the order of the sequence.

    Raises:
        ValueError: A token id is out of range, or `group_size` is below 1.
    """
    if group_size < 1:
        raise ValueError(f"group_size is {group_size}; a group has at least one token")
    names: list[bytes] = []
    for end in range(group_size, len(tokens) + 1, group_size):
        parent = blake2b(parent + _pack(tokens[end - group_size : end]), digest_size=NAME_BYTES).digest()
        names.append(parent)
    return names


def _pack(tokens: Sequence[int]) -> bytes:
    try:
        packed = array("I", tokens)
    except (OverflowError, TypeError) as error:
        raise ValueError("a token id is not an integer in [0, 2^32)") from error
    if sys.byteorder == "big":
        packed.byteswap()  # names travel between machines
    return packed.tobytes()
