"""Prompts that cost more than they give."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.errors import LedgerUnavailable
from gateway.ledger import Ledger
from gateway.prompt_report import judge, prompt_costs
from policies.types import Prices
from tests.deploy.test_monitoring import record

PRICES = {"flash": Prices(hit=Decimal("0.01"), miss=Decimal(1), output=Decimal(2))}


async def test_a_long_head_with_short_answers_is_named_first(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    ledger = await asyncio.to_thread(Ledger, url)
    for number in range(25):
        base = replace(record(), created_ms=1000)
        long = replace(base, id=f"a{number}", task="long", prompt_tokens=4000 + number, cached_tokens=0)
        warm = replace(long, id=f"b{number}", task="warm", cached_tokens=4000)
        chat = replace(base, id=f"c{number}", task="chat", prompt_tokens=60, completion_tokens=500)
        for each in (long, warm, chat):
            await ledger.record(each)
    await ledger.record(replace(record(), id="old", created_ms=1, task="long", prompt_tokens=1))
    await ledger.aclose()
    found = await asyncio.to_thread(prompt_costs, url, PRICES, 1000)
    advice = {each.task: each.advice for each in found}
    assert advice == {"long": "register", "warm": "shorten", "chat": "fine"}
    assert found[0].task == "long"
    assert (found[0].requests, found[0].head, found[0].cached) == (25, 4000, 0.0)
    assert found[0].head_usd == pytest.approx(Decimal("0.1"))


def test_a_head_that_answers_are_worth_is_fine():
    assert judge(Decimal(1), Decimal(2), head=8000, cached=0.0) == "fine"
    assert judge(Decimal(2), Decimal(1), head=100, cached=0.0) == "fine"


def test_a_ledger_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(LedgerUnavailable, match=r"none\.db cannot be read"):
        prompt_costs(f"sqlite:///{tmp_path / 'none.db'}", PRICES, since_ms=0)
