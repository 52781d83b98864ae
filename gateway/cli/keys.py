"""`flashlane keys`: make, list and revoke API keys."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gateway.cli.console import errors_end_the_command
from gateway.config import load_config
from gateway.runtime import tenants_folder
from gateway.settings import Settings
from policies.key_files import create_key, revoke_key
from policies.tenants import files_of

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys; a running gateway notices.")

Tenant = Annotated[str, typer.Option(help="Whose key it is.")]
Name = Annotated[str, typer.Option(help="What the key is called in records.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The flashlane.yaml that names the tenants; else the local ones."),
]


@app.command()
def create(tenant: Tenant, name: Name, config_file: ConfigFile = None) -> None:
    """Make a key and print it, once: only its hash is kept."""
    with errors_end_the_command():
        print(create_key(_folder(config_file), tenant, name))


@app.command()
def revoke(tenant: Tenant, name: Name, config_file: ConfigFile = None) -> None:
    """Take a key away."""
    with errors_end_the_command():
        revoke_key(_folder(config_file), tenant, name)
        print(f"key {name!r} of tenant {tenant!r} is valid no longer")


@app.command("list")
def list_keys(
    config_file: ConfigFile = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """List tenants and the names of their keys."""
    with errors_end_the_command():
        folder = _folder(config_file)
        files = files_of(folder) if folder.is_dir() else []
        rows = [(file.tenant, key.name) for _, file in files for key in file.keys]
    if as_json:
        print(json.dumps([{"tenant": tenant, "name": name} for tenant, name in rows]))
        return
    table = Table("tenant", "key")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _folder(config_file: Path | None) -> Path:
    settings = Settings.from_env()
    if config_file is None:
        return settings.state_dir / "tenants"
    return tenants_folder(load_config(config_file), settings)
