"""Prompts of our own: what everyday chat and hard work look like, in English and Chinese.

Benchmarks hold exam questions; what people type into a chat is shorter and plainer. These prompts stand for
that traffic in the reference distribution, and the `demanding` head is trained to tell the two kinds apart.
They carry no model outcomes. Only training reads them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

NAME = "reference_prompts.jsonl"
_FILE = Path(__file__).with_name("weights") / NAME


class _Line(msgspec.Struct, frozen=True):
    kind: Literal["everyday", "demanding"]
    text: str


@dataclass(frozen=True, slots=True)
class ReferencePrompts:
    """The two lists.

    Attributes:
        everyday: Greetings, facts, small writing tasks, translation, summaries.
        demanding: Work of many dependent steps: proofs, derivations, design, debugging under constraints.
    """

    everyday: tuple[str, ...]
    demanding: tuple[str, ...]


def load_reference_prompts(path: Path = _FILE) -> ReferencePrompts:
    """Read the prompts that ship with the package."""
    lines = msgspec.json.Decoder(_Line).decode_lines(path.read_bytes())
    return ReferencePrompts(
        everyday=tuple(line.text for line in lines if line.kind == "everyday"),
        demanding=tuple(line.text for line in lines if line.kind == "demanding"),
    )
