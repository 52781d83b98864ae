"""`flashlane gsm show`: what the GSM of running engines holds, and what its stores on disk hold."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from backends.gsm.errors import GsmNotShown
from backends.gsm.shown import GsmShown, TierShown, read_shown
from backends.openai_server import OpenAIServer
from backends.types import EngineFlavour, Replica, ReplicaKind
from gateway.cli.classifier_output import JsonOption, print_json
from gateway.cli.console import errors_end_the_command
from gateway.cli.gsm_store import StoreShown, look_at_stores
from gateway.cli.serve import DEFAULTS
from gateway.config import load_config
from gateway.config_sections import ServerUrl
from gateway.settings import Settings

PATIENCE = 5.0
"""Seconds for a connection, and for the page of metrics."""

_URL: TypeAdapter[str] = TypeAdapter(ServerUrl)


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine: what its GSM says, or why it says nothing.

    Attributes:
        name: Of the replica; the URL where that was given.
        url: Where it is.
        answers: Whether it has a page of metrics.
        gsm: What its GSM says.
        trouble: Why it says nothing.
    """

    name: str
    url: str
    answers: bool
    gsm: GsmShown | None = None
    trouble: str | None = None

    @property
    def fails(self) -> bool:
        """Tell whether it should have said something; a configuration may have engines without GSM."""
        return self.gsm is None and (not self.answers or self.name == self.url)


@dataclass(frozen=True, slots=True)
class Shown:
    """All that was asked for."""

    engines: list[EngineRow]
    stores: list[StoreShown]


def show(
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="[URL]...", help="Of vLLM servers, with or without /v1.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="Ask the vLLM replicas of this flashlane.yaml; else of the local one."
        ),
    ] = None,
    disks: Annotated[
        list[Path] | None, typer.Option("--disk", metavar="FOLDER", help="A gsm_disk_path on this machine.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Say what the GSM of running engines holds, reused and gave up, and what stands in its stores on disk.

    Without URL and --disk the replicas of the configuration are asked. Ends with status 1 when an engine does
    not answer, when one that was given by its URL runs without GSM, and when all do.
    """
    with errors_end_the_command():
        replicas = [_replica_of(url) for url in urls or ()]
        if config_file is not None or not (urls or disks):
            replicas += _configured(config_file or DEFAULTS / "flashlane.yaml")
        stores = [store for folder in disks or () for store in look_at_stores(folder)]
        shown = Shown(asyncio.run(_ask_all(replicas)), stores)
    if as_json:
        print_json(shown)
    else:
        _print(shown)
    for row in shown.engines:
        if row.trouble is not None:
            print(f"flashlane: {row.name}: {row.trouble}", file=sys.stderr)
    if any(row.fails for row in shown.engines) or not (any(row.gsm for row in shown.engines) or stores):
        raise typer.Exit(1)


def _replica_of(url: str) -> Replica:
    try:
        _URL.validate_python(url)
    except ValidationError as error:
        raise typer.BadParameter(f"{url!r} is no http(s)://HOST:PORT", param_hint="URL") from error
    target = url.rstrip("/").removesuffix("/v1").rstrip("/")
    return Replica(target, ReplicaKind.OPENAI, target, "", EngineFlavour.VLLM)


def _configured(file: Path) -> list[Replica]:
    """Return the replicas that are listed and may run GSM: of vLLM, or of a kind that nobody stated.

    Raises:
        ConfigInvalid: The file is wrong.
        GsmNotShown: There are none.
    """
    config = load_config(file)
    embedded = {engine.replica: "" for engine in config.embedded()}
    pools = [pool for pools in config.pools(Settings.from_env().secrets, embedded).values() for pool in pools]
    replicas = [
        replica
        for pool in pools
        for replica in pool.replicas
        if replica.kind is ReplicaKind.OPENAI
        and replica.flavour in {EngineFlavour.VLLM, EngineFlavour.GENERIC}
    ]
    if not replicas:
        raise GsmNotShown(
            f"{file}: lists no vLLM server, and GSM runs in nothing else; give the URLs of engines (of "
            f"discovered ones, too), or --disk FOLDER"
        )
    return replicas


async def _ask_all(replicas: Sequence[Replica]) -> list[EngineRow]:
    return list(await asyncio.gather(*map(_ask, replicas)))


async def _ask(replica: Replica) -> EngineRow:
    server = OpenAIServer(replica, PATIENCE)
    try:
        page = await server.read_metrics()
    finally:
        await server.aclose()
    if page is None:
        return EngineRow(
            replica.name,
            replica.target,
            answers=False,
            trouble=f"no answer from {replica.target}/metrics; is the engine running, and this its address?",
        )
    try:
        return EngineRow(replica.name, replica.target, answers=True, gsm=read_shown(page))
    except GsmNotShown as error:
        return EngineRow(replica.name, replica.target, answers=True, trouble=str(error))


def _print(shown: Shown) -> None:
    blocks = [_engine_lines(row, row.gsm) for row in shown.engines if row.gsm is not None]
    blocks += [_store_lines(store) for store in shown.stores]
    print("\n\n".join("\n".join(block) for block in blocks), end="\n" if blocks else "")


def _engine_lines(row: EngineRow, gsm: GsmShown) -> list[str]:
    state = "on" if gsm.on else "OFF: its settings stand in the way, see the engine's log"
    title = row.name if row.url in row.name else f"{row.name} ({row.url})"
    lines = [
        f"{title}: GSM is {state}",
        _line("hit rate", f"{_share(gsm.hit_rate)} of {gsm.asked_tokens:,} tokens asked for in whole pages"),
        _line("engine's cache", f"{_share(gsm.engine_hit_rate)} of prompt tokens"),
        _line("reused", f"{gsm.reused_tokens:,} tokens; {gsm.reused_heads:,} heads of groups that differ"),
        _line("rebuilt", f"{gsm.rebuilt_groups:,} groups of which too much differs"),
        _line("pinned", f"{gsm.pinned_pages:,} pages"),
        _line("skipped files", _reasons(gsm.skipped_files)),
    ]
    for name, tier in gsm.tiers.items():
        lines += _tier_lines(name, tier)
    return lines


def _tier_lines(name: str, tier: TierShown) -> list[str]:
    groups = "" if tier.groups is None else f"{tier.groups:,.1f} groups, "
    return [
        _line(name, f"{groups}{_size(tier.held_bytes)} held, {_size(tier.peak_bytes)} at the most"),
        _line("", f"reused {tier.reused_tokens:,} tokens"),
        _line("", f"evicted {tier.evicted_pages:,} pages to make room"),
        _line("", f"refused pages: {_reasons(tier.refused_pages)}"),
    ]


def _store_lines(store: StoreShown) -> list[str]:
    told = [
        _line(key, value)
        for key, value in store.identity.items()
        if key in {"weights", "kv_dtype", "vllm", "page"}
    ]
    lines = [f"{store.folder}: a store of GSM", *told]
    lines.append(_line("holds", f"{store.pages:,} pages, {_size(store.bytes)}"))
    if store.oldest is not None and store.newest is not None:
        lines.append(_line("last used", f"from {_time(store.oldest)} to {_time(store.newest)}"))
    for name, files in (("corrupt files", store.corrupt), ("foreign files", store.foreign)):
        shown = f" ({', '.join(files[:3])}{', ...' if len(files) > 3 else ''})" if files else ""
        lines.append(_line(name, f"{len(files):,}{shown}"))
    lines.append(_line("unfinished", f"{store.unfinished:,} files"))
    return lines


def _line(name: str, value: str) -> str:
    return f"  {name:<15} {value}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items()) or "none"


def _size(size: int) -> str:
    value = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
