"""Precision and recall of the domains, on prompts whose domain is known.

A folder holds a file a domain, "legal.jsonl" and so on, of lines `{"lang": ..., "text": ...}`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from classifier.domains import DOMAINS, detect_domain
from classifier.errors import DatasetInvalid


class _Line(msgspec.Struct, frozen=True):
    lang: str
    text: str


@dataclass(frozen=True, slots=True)
class DomainPrompt:
    """A prompt whose domain is known."""

    domain: str
    lang: str
    text: str


@dataclass(frozen=True, slots=True)
class DomainFigures:
    """Figures of one domain in one language.

    Attributes:
        domain: One of DOMAINS.
        lang: As the prompts name it.
        prompts: How many prompts are of this domain.
        precision: Share of those put into it that belong there; 1 when none was.
        recall: Share of those that belong there that were put into it.
    """

    domain: str
    lang: str
    prompts: int
    precision: float
    recall: float


def load_domain_prompts(folder: Path) -> Sequence[DomainPrompt]:
    """Read the prompts of a folder.

    Raises:
        DatasetInvalid: The folder holds no prompts, or a line is malformed.
    """
    found: list[DomainPrompt] = []
    decoder = msgspec.json.Decoder(_Line)
    for domain in DOMAINS:
        path = folder / f"{domain}.jsonl"
        try:
            lines = decoder.decode_lines(path.read_bytes()) if path.is_file() else []
        except msgspec.DecodeError as error:
            raise DatasetInvalid(f"{path} is not made of lines with `lang` and `text`: {error}") from error
        found.extend(DomainPrompt(domain, line.lang, line.text) for line in lines)
    if not found:
        raise DatasetInvalid(f"no prompts in {folder}; it should hold files such as {DOMAINS[0]}.jsonl")
    return found


def domain_figures(
    prompts: Sequence[DomainPrompt], detect: Callable[[str], str] = detect_domain
) -> Sequence[DomainFigures]:
    """The figures of each domain and language there are prompts of."""
    told = [(prompt, detect(prompt.text)) for prompt in prompts]
    langs = sorted({prompt.lang for prompt in prompts})
    return [
        _figures(domain, lang, [(prompt.domain, found) for prompt, found in told if prompt.lang == lang])
        for domain in DOMAINS
        for lang in langs
        if any(prompt.domain == domain and prompt.lang == lang for prompt in prompts)
    ]


def _figures(domain: str, lang: str, told: Sequence[tuple[str, str]]) -> DomainFigures:
    belongs = sum(truth == domain for truth, _ in told)
    said = sum(found == domain for _, found in told)
    right = sum(truth == found == domain for truth, found in told)
    return DomainFigures(
        domain=domain,
        lang=lang,
        prompts=belongs,
        precision=right / said if said else 1.0,
        recall=right / belongs,
    )
