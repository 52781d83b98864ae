"""`flashlane prompts`: which system prompts cost more than they give."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Column, Table

from gateway.cli.console import errors_end_the_command
from gateway.clock import SystemClock
from gateway.config import load_config
from gateway.prompt_report import PromptCost, prompt_costs
from gateway.runtime import ledger_url
from gateway.settings import Settings

WORDS = {
    "register": "register it under `prefixes`, and keep what changes out of its head",
    "shorten": "it is cached and still dear: shorten it",
    "fine": "",
}


def prompts(
    config_file: Annotated[Path, typer.Option("--config", "-c", help="A flashlane.yaml.")],
    days: Annotated[int, typer.Option(min=1, help="How far to look back.")] = 7,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Show what the shared head of each task's requests costs, beside its answers."""
    with errors_end_the_command():
        config, settings = load_config(config_file), Settings.from_env()
        since = SystemClock().now() - timedelta(days=days)
        url = ledger_url(config, settings)
        found = prompt_costs(url, config.prices(), int(since.timestamp() * 1000))
        if as_json:
            print(msgspec.json.encode(found).decode())
        else:
            Console().print(_table(found))


def _table(found: list[PromptCost]) -> Table:
    columns = ("requests", "head", "cached", "answer", "head USD", "answers USD")
    numbers = [Column(name, justify="right") for name in columns]
    table = Table("tenant", "key", "model", "task", *numbers, "advice")
    for each in found:
        values = (
            f"{each.requests:,}",
            f"{each.head:,}",
            f"{each.cached:.0%}",
            f"{each.answer:,.0f}",
            f"{each.head_usd:.4f}",
            f"{each.answers_usd:.4f}",
        )
        table.add_row(each.tenant, each.key_name, each.model, each.task[:12], *values, WORDS[each.advice])
    return table
