"""`flashlane config`: check a configuration, print its schema."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.console import errors_end_the_command
from gateway.config import Config, load_config
from gateway.runtime import known_names
from policies.errors import TenantFileInvalid
from policies.tenant_file import TenantFile
from policies.tenants import TenantBook, files_of

app = typer.Typer(no_args_is_help=True, help="Check configurations.")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A flashlane.yaml.")]) -> None:
    """Say what is wrong in a configuration and its tenants, with the path in the file."""
    with errors_end_the_command():
        config = load_config(file)
        idle = [f"{file}: {key}" for key in config.not_enforced()]
        folder = config.tenants
        if folder is not None:
            if not folder.is_dir():
                raise TenantFileInvalid(f"{file}: tenants: there is no folder {folder}.")
            if files_of(folder):
                TenantBook(folder, known_names(config))
            for path, tenant in files_of(folder):
                idle += [f"{path}: {key}" for key in tenant.not_enforced()]
    for line in idle:
        print(f"{line}: read, but this version does not act on it yet")
    print(f"{file}: is valid")


@app.command()
def schema(
    what: Annotated[str, typer.Argument(help="`config` or `tenant`.", metavar="[config|tenant]")] = "config",
) -> None:
    """Print the JSON Schema of flashlane.yaml, or of a tenant's file."""
    schemas = {"config": Config, "tenant": TenantFile}
    if what not in schemas:
        raise typer.BadParameter(f"{what!r} is neither 'config' nor 'tenant'")
    print(json.dumps(schemas[what].model_json_schema(), indent=2))
