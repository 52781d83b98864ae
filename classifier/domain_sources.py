"""Which of the labelled prompts that the outcome heads learn from show a domain too.

Exam and benchmark questions whose category names a domain, and everyday questions, which are "chat". They
bring a breadth of words that prompts written for the purpose lack.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from classifier.errors import MissingDependency

MOST = 400
"""Of one category of one source so many prompts are learned from; the others are left to measure on."""

_DOMAINS = (
    ("legal", "lawbench_zh/|_law$|/jurisprudence"),
    (
        "medical",
        "professional_medicine|clinical_knowledge|college_medicine|anatomy|virology|medical_genetics",
    ),
    ("finance", "/business$|/economics$|macroeconomics|microeconomics|accounting|econometrics"),
    ("code", "/mbpp|/human_eval|mbpp/|cruxeval|tool_java|/computer science|computer_science"),
    ("math", r"_math|/math|/gsm8k|cn_k12|olympiads|/grade\d|mathematics|abstract_algebra|statistics"),
    (
        "chat",
        (
            "natural_qa|trivia_qa|commonsense_qa|openbook_qa|commongen|arc_challenge|logicgrid|miscellaneous"
            "|geography|history|prehistory|philosophy|world_religions|astronomy|sociology|moral_|psychology"
            "|biology|physics$|chemistry$|us_foreign_policy|public_relations|marketing"
        ),
    ),
)
_PATTERNS = tuple((domain, re.compile(pattern)) for domain, pattern in _DOMAINS)


class WrittenPrompt(msgspec.Struct, frozen=True):
    """A prompt whose domain is known."""

    domain: str
    lang: str
    text: str


def labelled_prompts(folder: Path) -> tuple[Sequence[WrittenPrompt], Sequence[WrittenPrompt]]:
    """The prompts of the .parquet files in `folder` that show a domain: to learn from, and the others.

    Raises:
        MissingDependency: pyarrow is not installed.
    """
    try:
        from pyarrow import parquet  # training only
    except ImportError as error:
        raise MissingDependency('pyarrow is not installed; run: pip install "flashlane[train]"') from error
    untyped: Any = parquet
    groups: dict[str, dict[str, WrittenPrompt]] = {}
    for path in sorted(folder.glob("*.parquet")):
        table = untyped.read_table(path)
        for row in table.select(
            [n for n in ("prompt", "category", "lang") if n in table.column_names]
        ).to_pylist():
            group = f"{path.stem}/{str(row.get('category') or '').split('|')[0]}"
            if domain := _domain_of(group):
                prompt = WrittenPrompt(domain, row.get("lang") or "en", row["prompt"])
                groups.setdefault(group, {}).setdefault(prompt.text, prompt)
    ordered = [sorted(group.values(), key=_by_content) for _, group in sorted(groups.items())]
    return (
        [prompt for group in ordered for prompt in group[:MOST]],
        [prompt for group in ordered for prompt in group[MOST:]],
    )


def _domain_of(group: str) -> str:
    return next((domain for domain, pattern in _PATTERNS if pattern.search(group)), "")


def _by_content(prompt: WrittenPrompt) -> bytes:
    """An order that has nothing to do with what a prompt says."""
    return hashlib.blake2b(prompt.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
