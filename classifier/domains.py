"""Which field a request belongs to, by the table that ships."""

import functools
from pathlib import Path

from classifier.domain_file import load_domains
from classifier.domain_table import DOMAINS, DomainTable
from classifier.reading import Reading, read

__all__ = ["DOMAINS", "detect_domain", "domain_of", "shipped_table"]

_SHIPPED = Path(__file__).with_name("weights")


@functools.cache
def shipped_table() -> DomainTable:
    """The table that ships, read once.

    Raises:
        ModelFileInvalid: A file is missing, damaged, or of another format; the message names it.
    """
    return load_domains(_SHIPPED)


def detect_domain(text: str) -> str:
    """The domain of `text`: one of DOMAINS. Bounded for any length."""
    return domain_of(read(text))


def domain_of(reading: Reading) -> str:
    """The domain of a text that was read already."""
    return shipped_table().domain_of(reading)
