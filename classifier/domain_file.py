"""The table of domains on disk: one safetensors file, hash-checked by the card beside it."""

import hashlib
from array import array
from pathlib import Path
from typing import Any

import msgspec
import safetensors

from classifier.domain_table import COLUMNS, DOMAINS, DomainTable
from classifier.errors import ModelFileInvalid
from classifier.model_files import load_card, read_arrays

ARRAYS_NAME = "domains.safetensors"
CARD_NAME = "domains.json"
FORMAT = 1
_REMEDY = "reinstall flashlane, or make new weights with `flashlane classifier train`"
_untyped: Any = safetensors  # its functions carry no types


class DomainCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table is and where it comes from.

    Attributes:
        format: Layout of the two files; a reader refuses one it does not know.
        sha256: Hash of the safetensors file.
        terms: How many it has.
        prompts: Written prompts that it was learned from, by "domain language".
        notes: What a user should know.
    """

    format: int
    sha256: str
    terms: int
    prompts: dict[str, int]
    notes: list[str]


def save_domains(folder: Path, table: DomainTable, prompts: dict[str, int], notes: list[str]) -> DomainCard:
    """Write both files into `folder`."""
    import numpy as np  # only writing needs it; a gateway starts without
    from safetensors.numpy import save

    content = save(
        {
            "terms": np.frombuffer("\n".join(table.terms).encode(), dtype=np.uint8),
            "columns": np.frombuffer(table.columns, dtype=np.uint8),
            "biases": np.array([*table.biases, table.rarity], dtype=np.float64),
        }
    )
    card = DomainCard(FORMAT, hashlib.sha256(content).hexdigest(), len(table.terms), prompts, notes)
    (folder / ARRAYS_NAME).write_bytes(content)
    (folder / CARD_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")
    return card


def load_domains(folder: Path) -> DomainTable:
    """Read and check both files.

    Raises:
        ModelFileInvalid: A file is missing, damaged, does not belong to the other, or is of another format.
    """
    card = load_card(folder / CARD_NAME, DomainCard, format_=FORMAT, what="a card of domains", remedy=_REMEDY)
    path = folder / ARRAYS_NAME
    content = read_arrays(path, card.sha256, card=CARD_NAME, remedy=_REMEDY)
    try:
        found = {name: bytes(tensor["data"]) for name, tensor in _untyped.deserialize(content)}
        terms = found["terms"].decode().split("\n")
        floats = array("d", found["biases"])
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise ModelFileInvalid(f"{path} is not a table of domains: {error}; {_REMEDY}") from error
    if len(floats) != len(DOMAINS) + 1 or len(found.get("columns", b"")) != COLUMNS * len(terms):
        raise ModelFileInvalid(f"{path} has a table of terms whose parts differ in length; {_REMEDY}")
    return DomainTable(terms, found["columns"], tuple(floats[:-1]), floats[-1])
