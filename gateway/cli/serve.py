"""`flashlane up` and `flashlane serve`: run the gateway."""

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backends.models.store import ModelStore
from backends.models.types import ModelSource, ModelState
from gateway import server
from gateway.cli.console import errors_end_the_command
from gateway.cli.models import pull_all
from gateway.config import Config, load_config
from gateway.runtime import tenants_folder
from gateway.settings import Settings
from policies.key_files import create_key

DEFAULTS = Path(__file__).parent.parent / "defaults"
LOCAL = "local"

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="A flashlane.yaml; two local models when left out.")
]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Instead of server.port; 0 takes any.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, not only what goes wrong.")]


def up(config_file: ConfigFile = None, port: Port = None, *, verbose: Verbose = False) -> None:
    """Run all of it on this machine: fetch the models, start the engines and the gateway.

    Without tenants of your own a tenant `local` is made, with a new key each time.
    """
    with errors_end_the_command():
        server.set_up_logging(verbose=verbose)
        settings = Settings.from_env()
        config = load_config(config_file or DEFAULTS / "flashlane.yaml")
        console = Console(stderr=True)
        host, number = config.server.host, config.server.port if port is None else port
        server.listen(host, number).close()  # a port in use is said before a gigabyte is fetched
        _pull_missing(config, settings, console)
        key = None if config.tenants else _local_key(tenants_folder(config, settings))
        with server.listen(host, number) as listener:
            console.print("starting the engines ...")
            server.serve(config, settings, listener, lambda url: _say_hello(url, key))
        console.print("stopped; no process is left")


def serve(
    config_file: Annotated[Path, typer.Option("--config", "-c", help="A flashlane.yaml.")],
    port: Port = None,
    *,
    verbose: Verbose = False,
) -> None:
    """Run the gateway for a configuration, with tenants and models that are there."""
    with errors_end_the_command():
        server.set_up_logging(verbose=verbose)
        config = load_config(config_file)
        listener = server.listen(config.server.host, config.server.port if port is None else port)
        with listener:
            server.serve(
                config, Settings.from_env(), listener, lambda url: print(f"ready at {url}", flush=True)
            )


def _pull_missing(config: Config, settings: Settings, console: Console) -> None:
    """Fetch the embedded models that are not there yet."""
    store = ModelStore(settings.models_dir)
    known = {model.name for model in store.catalogue}
    wanted = sorted({engine.source for engine in config.embedded()} & known)
    missing = [name for name in wanted if store.state(name) is not ModelState.READY]
    if missing:
        console.print(f"fetching {len(missing)} model(s) into {store.folder}, once", soft_wrap=True)
        pull_all(store, missing, ModelSource.INDEX, console)


def _local_key(folder: Path) -> str:
    """Make the key of this run; the tenant `local` is made when it is not there."""
    file = folder / f"{LOCAL}.yaml"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DEFAULTS / "tenant.yaml", file)
    return create_key(folder, LOCAL, "up", replace=True)


def _say_hello(url: str, key: str | None) -> None:
    """Print how to call the gateway; `key` is None when the configuration has tenants of its own."""
    made = "made for this run; a lasting one: flashlane keys create --tenant local --name NAME"
    own = "one of your tenants' keys; make one: flashlane keys create --tenant NAME --name NAME --config FILE"
    print(
        f"""
Flashlane is ready.

  URL   {url}/v1
  key   {f"{key}   ({made})" if key else own}

  curl {url}/v1/chat/completions -i \\
    -H 'Authorization: Bearer {key or "KEY"}' -H 'Content-Type: application/json' \\
    -d '{{"model": "auto", "messages": [{{"role": "user", "content": "What is the capital of France?"}}]}}'

Ctrl-C stops everything.
""",
        flush=True,
    )
