"""`flashlane prefix`: register, see, compute."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from gateway.cli import app
from policies.tenant_file import parse_tenant_file
from tests.fakes.caching_engine import CachingEngine
from tests.prefixes.conftest import PREFIX, SYSTEM, StartGateway
from tests.support.gateway import KEY, write_tenant
from tests.support.waiting import until


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    result = CliRunner().invoke(app, ["prefix", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def flashlane(folder: Path, *arguments: object) -> Result:
    """Run the command with the configuration of a test."""
    return run(*arguments, "--config", folder / "flashlane.yaml")


def configured(folder: Path, tenant: Mapping[str, Any]) -> None:
    """Write a configuration whose Redis is away."""
    write_tenant(folder / "tenants", "acme", KEY, tenant)
    model = '{served_name: a, pools: [{name: main, replicas: [{url: "http://127.0.0.1:9"}]}]}'
    (folder / "flashlane.yaml").write_text(
        f"redis: {{url: 'redis://127.0.0.1:9/0'}}\ntenants: tenants\n"
        f"models:\n  flash: {model}\n  standard: {model}\n"
    )


async def test_a_prefix_that_is_registered_is_computed_and_shown(
    start_gateway: StartGateway, tmp_path: Path, engine: CachingEngine
):
    text = tmp_path / "prompt.txt"
    text.write_text(SYSTEM)
    async with start_gateway(tenant={}) as gateway:
        added = await asyncio.to_thread(
            flashlane,
            tmp_path,
            *("add", "--tenant", "acme", "--name", "lyon", "--system", text, "--model", "flash"),
        )
        assert added.exit_code == 0, added.output
        await until(
            lambda: any(each.residency.resident for each in gateway.services.prefixes.entries()),
            "it to be computed",
        )
        async with gateway.http() as client:
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Well?"}]
            await client.post("/v1/chat/completions", json={"model": "flash", "messages": messages})

        async def counted() -> bool:
            shown = await asyncio.to_thread(flashlane, tmp_path, "list", "--json")
            return [row["hits"] for row in json.loads(shown.output)["prefixes"]] == [1]

        await until(counted, "the hit to be shown")
        engine.forget()
        warmed = await asyncio.to_thread(flashlane, tmp_path, "warm", "--tenant", "acme", "--json")
        table = await asyncio.to_thread(flashlane, tmp_path, "list")
    assert warmed.exit_code == 0, warmed.output
    (row,) = json.loads(warmed.stdout)
    assert (row["tenant"], row["prefix"], row["replica"]) == ("acme", "lyon", "flash/main/0")
    assert (row["resident"], row["why"], row["computed"]) == (True, "asked", 2)
    assert row["gained_seconds"] == row["gain_seconds"] * row["hits"]
    assert "lyon" in table.output
    assert "asked (2)" in table.output


def test_a_file_that_is_changed_keeps_its_comments(tmp_path: Path):
    configured(tmp_path, {})
    file = tmp_path / "tenants" / "acme.yaml"
    file.write_text(f"# ours\n{file.read_text()}")
    turns, tools = tmp_path / "turns.json", tmp_path / "tools.json"
    turns.write_text(json.dumps([{"role": "system", "content": "你好"}, {"role": "user", "content": "Hi"}]))
    tools.write_text(json.dumps([{"type": "function", "function": {"name": "weather"}}]))
    add = ("add", "--tenant", "acme", "--name", "one", "--messages", turns, "--tools", tools)
    assert flashlane(tmp_path, *add).exit_code == 0
    again = flashlane(tmp_path, *add)
    assert again.exit_code == 1
    assert "already has a prefix 'one'" in again.output
    assert flashlane(tmp_path, *add, "--replace").exit_code == 0
    assert file.read_text().startswith("# ours\n")
    (prefix,) = parse_tenant_file(file).prefixes
    assert [message["content"] for message in prefix.messages] == ["你好", "Hi"]
    assert prefix.tools is not None


def test_a_clock_in_a_prefix_is_told_with_its_place(tmp_path: Path):
    clock = [{"role": "system", "content": "You help.\nToday is 2026-11-30."}]
    configured(tmp_path, {"prefixes": [{**PREFIX, "messages": clock}]})
    checked = CliRunner().invoke(app, ["config", "check", str(tmp_path / "flashlane.yaml")])
    assert "prefixes.support: messages[0], line 2, column 1: a clock ('Today is')" in checked.output
    assert checked.exit_code == 0
    text = tmp_path / "prompt.txt"
    text.write_text("当前时间：10:31。请简短回答。")
    added = flashlane(tmp_path, "add", "--tenant", "acme", "--name", "zh", "--system", text)
    assert "warning: messages[0], line 1, column 1: a clock" in added.output


def test_what_is_wrong_is_named_with_the_remedy(tmp_path: Path):
    configured(tmp_path, {"prefixes": [PREFIX]})
    text = tmp_path / "prompt.txt"
    text.write_text(SYSTEM)
    for arguments, complaint in (
        (("add", "--tenant", "acme", "--name", "x"), "exactly one of --system and --messages"),
        (("add", "--tenant", "acne", "--name", "x", "--system", text), "did you mean 'acme'?"),
        (("add", "--tenant", "acme", "--name", "X!", "--system", text), "prefixes.1.name"),
        (("add", "--tenant", "acme", "--name", "x", "--system", text, "--model", "gpt"), "no model 'gpt'"),
        (("add", "--tenant", "acme", "--name", "x", "--system", tmp_path / "no"), "cannot be read"),
        (("warm", "--name", "nope"), "no such prefix is registered"),
        (("list",), "Redis cannot be reached"),
    ):
        result = flashlane(tmp_path, *arguments)
        assert result.exit_code == 1, result.output
        assert complaint in result.output, (complaint, result.output)


async def test_without_a_gateway_nobody_takes_it_up(tmp_path: Path, redis_url: str):
    configured(tmp_path, {"prefixes": [PREFIX]})
    file = tmp_path / "flashlane.yaml"
    file.write_text(file.read_text().replace("redis://127.0.0.1:9/0", redis_url.replace("/0", "/7")))
    shown = await asyncio.to_thread(flashlane, tmp_path, "list", "--json")
    report = json.loads(shown.output)
    assert report["unseen"] == [{"tenant": "acme", "prefix": "support"}]
    assert report["left_out"] == ["flash/main/0", "standard/main/0"]
    warmed = await asyncio.to_thread(flashlane, tmp_path, "warm")
    assert warmed.exit_code == 1
    assert "No gateway took it up" in warmed.output
