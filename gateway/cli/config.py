"""`flashlane config`: check a configuration, print its schema."""

import json
from pathlib import Path
from typing import Annotated

import typer

from classifier.model import Classifier
from gateway.cli.console import errors_end_the_command
from gateway.config import Config, load_config
from gateway.rankers import Rankers
from gateway.runtime import known_names, versions_folder
from gateway.settings import Settings
from policies.errors import TenantFileInvalid
from policies.prefix_files import volatile_prefixes
from policies.tenant_file import TenantFile
from policies.tenants import TenantBook, files_of

app = typer.Typer(no_args_is_help=True, help="Check configurations.")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A flashlane.yaml.")]) -> None:
    """Say what is wrong in a configuration and its tenants, with the path in the file."""
    with errors_end_the_command():
        config = load_config(file)
        idle = [f"{file}: {key}" for key in config.not_enforced()]
        folder, bounds, volatile = config.tenants, list[str](), list[str]()
        if folder is not None:
            if not folder.is_dir():
                raise TenantFileInvalid(f"{file}: tenants: there is no folder {folder}.")
            if files_of(folder):
                TenantBook(folder, known_names(config))
            for path, tenant in files_of(folder):
                idle += [f"{path}: {key}" for key in tenant.not_enforced()]
                volatile += [f"{path}: prefixes.{name}: {found}" for name, found in volatile_prefixes(tenant)]
                bounds += _bound(path, tenant, versions_folder(config, Settings.from_env()), config)
    for line in idle:
        print(f"{line}: read, but this version does not act on it yet")
    for line in volatile + bounds:
        print(line)
    print(f"{file}: is valid")


def _bound(path: Path, file: TenantFile, versions: Path, config: Config) -> list[str]:
    """Say how it stands with the loss that a tenant allows."""
    tenant = file.to_tenant()
    if tenant.routing.max_quality_loss is None:
        return []
    rankers = Rankers(Classifier.load(), versions, config.pair_of_models())
    rankers.look([tenant])
    bound = rankers.of(tenant.name).bound
    where = f"{path}: routing.max_quality_loss"
    note = "" if bound is None else bound.note
    how = f"proven with confidence {tenant.routing.confidence:g} ({note})"
    if bound is None or bound.cut is None:
        how = (
            f"not proven yet ({note}), so standard_share {tenant.routing.standard_share:g} holds; "
            f"add pairs: flashlane classifier adapt --tenant {tenant.name} --pairs FILE"
        )
    elif bound.cut < 0.0:
        how = f"{note} with confidence {tenant.routing.confidence:g}, so everything goes to standard"
    return [f"{where}: {how}"]


@app.command()
def schema(
    what: Annotated[str, typer.Argument(help="`config` or `tenant`.", metavar="[config|tenant]")] = "config",
) -> None:
    """Print the JSON Schema of flashlane.yaml, or of a tenant's file."""
    schemas = {"config": Config, "tenant": TenantFile}
    if what not in schemas:
        raise typer.BadParameter(f"{what!r} is neither 'config' nor 'tenant'")
    print(json.dumps(schemas[what].model_json_schema(), indent=2))
