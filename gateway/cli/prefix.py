"""`flashlane prefix`: register prefixes, see how they stand on every replica, compute them now."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from backends.types import EngineFlavour
from gateway.cli.classifier_output import JsonOption, print_json, progress_line
from gateway.cli.console import errors_end_the_command
from gateway.cli.serve import DEFAULTS
from gateway.config import Config, load_config
from gateway.config_sections import ReplicaSection
from gateway.errors import ConfigInvalid, SharedStateAway
from gateway.prefixes.entry import LONGEST_CHECK
from gateway.prefixes.hot import MARK
from gateway.prefixes.shared import AWAY, Ask, Row, SharedPrefixes
from gateway.runtime import redis_url_of, tenants_folder
from gateway.settings import Settings
from policies.errors import TenantFileInvalid
from policies.prefix_files import add_prefix, volatile_in, volatile_prefixes
from policies.redis_client import connect
from policies.tenant_file import PrefixSection, TenantFile
from policies.tenants import files_of

app = typer.Typer(
    no_args_is_help=True, help="Prompts that are computed before they are needed; a running gateway notices."
)

LOOK_SECONDS = 0.3
"""Between two looks of `warm`."""

TAKEN_UP_SECONDS = 10.0
"""For which `warm` waits for a gateway to take it up."""

WARM_SECONDS = 150.0
"""For which it then waits for all replicas."""

STALE_SECONDS = 2 * LONGEST_CHECK
"""A replica that is not configured, and was not looked at for so long, was found once and has gone."""

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The flashlane.yaml of the gateway; else the local one.")
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway keeps what a command needs."""

    config: Config
    settings: Settings

    @classmethod
    def of(cls, config_file: Path | None) -> "Place":
        """Read the configuration."""
        return cls(load_config(config_file or DEFAULTS / "flashlane.yaml"), Settings.from_env())

    @property
    def tenants(self) -> Path:
        """Folder of the tenants' files."""
        return tenants_folder(self.config, self.settings)

    def files(self) -> list[TenantFile]:
        """Return the tenants' files.

        Raises:
            TenantFileInvalid: One of them is wrong.
        """
        return [file for _, file in files_of(self.tenants)] if self.tenants.is_dir() else []

    def replicas(self) -> dict[str, ReplicaSection]:
        """Return the replicas that are configured, by name."""
        return {
            f"{name}/{pool.name}/{index}": replica
            for name, model in self.config.models.items()
            for pool in model.pools
            for index, replica in enumerate(pool.replicas)
        }

    def left_out(self) -> list[str]:
        """Name the replicas on which nothing is computed, as nobody says what runs there."""
        unknown = {None, EngineFlavour.GENERIC}
        return [name for name, r in self.replicas().items() if r.url is not None and r.engine in unknown]


@app.command()
def add(  # noqa: PLR0917 - Typer hands them over by name
    tenant: Annotated[str, typer.Option(help="Whose requests begin so.")],
    name: Annotated[str, typer.Option(help="What the prefix is called.")],
    system: Annotated[
        Path | None, typer.Option(help="File with the text of the system prompt, as requests send it.")
    ] = None,
    messages: Annotated[
        Path | None, typer.Option(help="JSON file with all messages that requests begin with.")
    ] = None,
    tools: Annotated[Path | None, typer.Option(help="JSON file with the tools of the requests.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Where it is computed; else for all models of the tenant.")
    ] = None,
    config_file: ConfigOption = None,
    *,
    replace: Annotated[bool, typer.Option(help="Take the place of the prefix of this name.")] = False,
) -> None:
    """Register a prefix in the tenant's file; it is computed on every replica within seconds."""
    with errors_end_the_command():
        if (system is None) == (messages is None):
            raise ConfigInvalid("Give exactly one of --system and --messages.")
        turns = _json(messages) if messages else [{"role": "system", "content": _text(system)}]
        prefix: dict[str, Any] = {"name": name, "messages": turns}
        prefix |= {"tools": _json(tools)} if tools else {}
        prefix |= {"models": list(model)} if model else {}
        place = Place.of(config_file)
        for unknown in sorted(set(model or ()) - place.config.models.keys()):
            raise ConfigInvalid(f"--model: there is no model {unknown!r} in the configuration.")
        was_there = add_prefix(place.tenants, tenant, prefix, replace=replace)
        volatile = volatile_in(PrefixSection.model_validate(prefix))
    print(f"prefix {name!r} of tenant {tenant!r} is {'replaced' if was_there else 'registered'}")
    if volatile is not None:
        typer.echo(f"warning: {volatile}", err=True)


@app.command("list")
def list_prefixes(config_file: ConfigOption = None, *, as_json: JsonOption = False) -> None:
    """Show how every prefix stands on every replica: there or not, hits, and what it gains."""
    with errors_end_the_command():
        place = Place.of(config_file)
        files = place.files()
        registered = {(file.tenant, prefix.name) for file in files for prefix in file.prefixes}
        rows = asyncio.run(_read(place, registered))
        unseen = sorted(registered - {(row.residency.tenant, row.residency.prefix) for row in rows})
        volatile = [(file.tenant, name, found) for file in files for name, found in volatile_prefixes(file)]
        left_out = place.left_out()
    if as_json:
        print_json(
            {
                "prefixes": [_as_json(row) for row in rows],
                "unseen": [{"tenant": tenant, "prefix": name} for tenant, name in unseen],
                "volatile": [
                    {"tenant": tenant, "prefix": name, **_plain(found)} for tenant, name, found in volatile
                ],
                "left_out": left_out,
            }
        )
        return
    _show(rows)
    for tenant, name in unseen:
        print(f"{tenant}/{name}: no gateway has computed it yet")
    for tenant, name, found in volatile:
        print(f"{tenant}/{name}: {found}")
    for replica in left_out:
        print(f"{replica}: nothing is computed there; say what runs there (engine: vllm, sglang, llama.cpp)")


@app.command()
def warm(
    tenant: Annotated[str, typer.Option(help="Only those of this tenant.")] = "",
    name: Annotated[str, typer.Option(help="Only those of this name.")] = "",
    config_file: ConfigOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Have the running gateways look at every replica now, and compute what is not there."""
    with errors_end_the_command(), progress_line() as report:
        place = Place.of(config_file)
        wish = Ask(secrets.token_hex(8), tenant, name)
        report("waiting for a gateway")
        wanted = _registered(place, tenant, name)
        rows = asyncio.run(_warm(place, wish, wanted))
    if as_json:
        print_json([_as_json(row) for row in rows])
    else:
        _show(rows)
    if not all(row.residency.resident for row in rows):
        raise typer.Exit(1)


def _registered(place: Place, tenant: str, name: str) -> set[tuple[str, str]]:
    """Return the registered prefixes that are asked for.

    Raises:
        TenantFileInvalid: There is none.
    """
    found = {
        (file.tenant, prefix.name)
        for file in place.files()
        for prefix in file.prefixes
        if tenant in {"", file.tenant} and name in {"", prefix.name}
    }
    if not found:
        raise TenantFileInvalid(
            f"{place.tenants}: no such prefix is registered; add one: flashlane prefix add."
        )
    return found


async def _read(place: Place, wanted: set[tuple[str, str]]) -> list[Row]:
    """Return how prefixes stand, those that were found by what requests begin with among them.

    Raises:
        SharedStateAway: Redis is away.
    """
    async with connect(redis_url_of(place.config, place.settings)) as redis:
        try:
            return await _current(SharedPrefixes(redis), place, wanted)
        except AWAY as error:
            raise _away(error) from error


async def _warm(place: Place, wish: Ask, wanted: set[tuple[str, str]]) -> list[Row]:
    """Leave a wish, and wait until every replica that is known has followed it.

    Raises:
        SharedStateAway: No gateway took it up, or Redis is away.
    """
    now = asyncio.get_running_loop().time
    async with connect(redis_url_of(place.config, place.settings)) as redis:
        shared, since = SharedPrefixes(redis), now()
        try:
            await shared.ask(wish)
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                rows = [row for row in await _current(shared, place, wanted) if _is_in(row, wanted)]
                done = sum(row.residency.asked == wish.id for row in rows)
                waited = now() - since
                if done and (done == len(rows) or waited > WARM_SECONDS):
                    return rows
                if not done and waited > (WARM_SECONDS if rows else TAKEN_UP_SECONDS):
                    raise SharedStateAway("No gateway took it up: none runs over this Redis.")
        except AWAY as error:
            raise _away(error) from error


async def _current(shared: SharedPrefixes, place: Place, wanted: set[tuple[str, str]]) -> list[Row]:
    """Return what is known of replicas that are there, or may come back."""
    oldest, configured = await shared.now() - STALE_SECONDS, place.replicas()
    return [
        row
        for row in await shared.read_all()
        if (_is_in(row, wanted) or row.residency.prefix.startswith(MARK))
        and (row.residency.replica in configured or row.residency.checked_at > oldest)
    ]


def _is_in(row: Row, wanted: set[tuple[str, str]]) -> bool:
    return (row.residency.tenant, row.residency.prefix) in wanted


def _away(error: Exception) -> SharedStateAway:
    return SharedStateAway(f"Redis cannot be reached: {str(error) or type(error).__name__}.")


def _show(rows: Sequence[Row]) -> None:
    table = Table(
        "tenant",
        "prefix",
        "replica",
        "there",
        "tokens",
        "hits",
        "misses",
        "gain (ms)",
        "last",
        "looked at",
        "note",
    )
    for row in rows:
        found = row.residency
        gain = "-" if found.gain_seconds is None else f"{1000 * found.gain_seconds:.0f}"
        at = datetime.fromtimestamp(found.checked_at, UTC).strftime("%m-%d %H:%M:%S")
        table.add_row(
            *(found.tenant, found.prefix, found.replica, "yes" if found.resident else "no"),
            *(f"{found.cached} of {found.tokens}", str(row.hits), str(row.misses), gain),
            *(f"{found.why} ({found.computed})", at, found.note),
        )
    Console().print(table)


def _as_json(row: Row) -> Mapping[str, object]:
    found = row.residency
    gain = found.gain_seconds
    plain: dict[str, object] = msgspec.to_builtins(found)
    return plain | {
        "resident": found.resident,
        "hits": row.hits,
        "misses": row.misses,
        "gain_seconds": gain,
        "gained_seconds": None if gain is None else gain * row.hits,
    }


def _plain(found: object) -> Mapping[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(found)
    return plain


def _text(path: Path | None) -> str:
    try:
        return "" if path is None else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path}: cannot be read: {error}.") from error


def _json(path: Path) -> Any:  # noqa: ANN401 - JSON; checked with the tenant's file
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigInvalid(f"{path}: cannot be read: {error}.") from error
