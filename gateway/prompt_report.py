"""Prompts that cost more than they give: what the shared head of a task's requests costs, beside its answers.

The requests of a task, of one key and model, begin alike: system prompt, tools, examples. The shortest of
them bounds that head from above, and is taken for it.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal

import msgspec
from sqlalchemy import create_engine, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from gateway.errors import LedgerUnavailable
from gateway.ledger import requests_table
from policies.types import Prices

MIN_REQUESTS: Final = 20
"""Fewer say nothing of a prompt."""

MIN_HEAD: Final = 256
"""Tokens: a shorter head is not worth a word."""

CACHED: Final = 0.5
"""Share of cached tokens above which a head counts as computed once."""

Advice = Literal["register", "shorten", "fine"]
"""What would help: computing the head beforehand (`prefixes`, nothing that changes near its start); fewer
instructions and examples; nothing."""

MILLION: Final = Decimal(1_000_000)


class PromptCost(msgspec.Struct, frozen=True):
    """The requests of a task over a time.

    Attributes:
        task: The classifier's; "" for those that no estimate was made of.
        requests: How many.
        head: Tokens of the shortest input.
        cached: Share of all input tokens that came from a cache, in [0, 1].
        answer: Tokens of an answer, on average.
        head_usd: What the heads cost.
        answers_usd: What the answers cost.
        advice: What would help.
    """

    tenant: str
    key_name: str
    model: str
    task: str
    requests: int
    head: int
    cached: float
    answer: float
    head_usd: Decimal
    answers_usd: Decimal
    advice: Advice


def judge(head_usd: Decimal, answers_usd: Decimal, head: int, cached: float) -> Advice:
    """Return what would help against a head that costs more than the answers that it brings."""
    if head < MIN_HEAD or head_usd <= answers_usd:
        return "fine"
    return "shorten" if cached >= CACHED else "register"


def prompt_costs(url: str, prices: Mapping[str, Prices], since_ms: int) -> list[PromptCost]:
    """Return the tasks since a time, the dearest heads first; blocks while it reads.

    Args:
        url: Of the ledger.
        prices: By model, as they are now.
        since_ms: Unix milliseconds.

    Raises:
        LedgerUnavailable: It cannot be read.
    """
    table = requests_table.c
    keys = (table.tenant, table.key_name, table.model, table.task)
    query = (
        select(
            *keys,
            func.count(),
            func.min(table.prompt_tokens),
            func.sum(table.prompt_tokens),
            func.sum(table.cached_tokens),
            func.sum(table.completion_tokens),
        )
        .where(table.created_ms >= since_ms, table.status == "ok", table.prompt_tokens > 0)
        .group_by(*keys)
        .having(func.count() >= MIN_REQUESTS)
    )
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(parsed)
    try:
        with engine.connect() as connection:
            rows: Sequence[tuple[str, str, str, str, int, int, int, int, int]] = [
                (str(a), str(b), str(c), str(d), int(n), int(head), int(prompt), int(cached), int(answer))
                for a, b, c, d, n, head, prompt, cached, answer in connection.execute(query)
            ]
    except SQLAlchemyError as error:
        shown = parsed.render_as_string(hide_password=True)
        raise LedgerUnavailable(f"The ledger {shown} cannot be read: {type(error).__name__}.") from error
    finally:
        engine.dispose()
    found = [_cost(row, prices.get(row[2], Prices())) for row in rows]
    return sorted(found, key=lambda each: each.head_usd, reverse=True)


def _cost(row: tuple[str, str, str, str, int, int, int, int, int], prices: Prices) -> PromptCost:
    tenant, key_name, model, task, requests, head, prompt, cached_tokens, completion = row
    cached = cached_tokens / prompt
    share = Decimal(str(round(cached, 6)))
    head_usd = head * requests * (share * prices.hit + (1 - share) * prices.miss) / MILLION
    answers_usd = completion * prices.output / MILLION
    return PromptCost(
        tenant,
        key_name,
        model,
        task,
        requests,
        head,
        cached,
        completion / requests,
        head_usd,
        answers_usd,
        judge(head_usd, answers_usd, head, cached),
    )
