"""What all files of weights have in common: bounded reading, cards of a known format, hashed arrays."""

import hashlib
from pathlib import Path
from typing import TypeVar

import msgspec

from classifier.errors import ModelFileInvalid

_MAX_BYTES = 16 << 20
Card = TypeVar("Card")


class _Format(msgspec.Struct):
    format: int


def load_card(path: Path, kind: type[Card], *, format_: int, what: str, remedy: str) -> Card:
    """Read a card.

    Args:
        path: JSON.
        kind: What it is read as.
        format_: The format that this version reads.
        what: What the file should be, for the error.
        remedy: Ends each error.

    Raises:
        ModelFileInvalid: It is missing, damaged or of another format.
    """
    content = read_bounded(path, remedy)
    try:
        found = msgspec.json.decode(content, type=_Format).format
        if found != format_:
            raise ModelFileInvalid(f"{path} has format {found}, this version reads {format_}; {remedy}")
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise ModelFileInvalid(f"{path} is not {what}: {error}; {remedy}") from error


def read_arrays(path: Path, sha256: str, *, card: str, remedy: str) -> bytes:
    """Return the content of a safetensors file.

    Args:
        path: Of the file.
        sha256: Which its card says that it has.
        card: Name of the card, for the error.
        remedy: Ends each error.

    Raises:
        ModelFileInvalid: It is missing, or another one.
    """
    content = read_bounded(path, remedy)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ModelFileInvalid(f"{path} is damaged: its sha256 is not the one in {card}; {remedy}")
    return content


def read_bounded(path: Path, remedy: str) -> bytes:
    """The content of a file of ours.

    Raises:
        ModelFileInvalid: It cannot be read or is larger than any of ours; ends in `remedy`.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ModelFileInvalid(
                f"{path} is larger than {_MAX_BYTES} bytes, which no weights of ours are; {remedy}"
            )
        return path.read_bytes()
    except OSError as error:
        raise ModelFileInvalid(f"cannot read {path}: {error.strerror}; {remedy}") from error
