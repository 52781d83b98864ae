"""`flashlane models`: fetch and list the model files of embedded engines."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Column, Table

from backends.errors import EngineError
from backends.models.store import ModelStore
from backends.models.types import ModelSource, ProgressCallback, PullProgress
from gateway.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Fetch and list the model files of embedded engines.")


@app.command()
def pull(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="All when left out.")] = None,
    source: Annotated[ModelSource, typer.Option(help="Where the bytes come from.")] = ModelSource.INDEX,
) -> None:
    """Fetch models, verify them and keep them; go on where a broken-off pull ended."""
    store = ModelStore(Settings.from_env().models_dir)
    console = Console(stderr=True)
    try:
        pull_all(store, names or [model.name for model in store.catalogue], source, console)
    except EngineError as error:
        console.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        console.print("interrupted; what was fetched is kept for the next pull")
        raise typer.Exit(130) from None


@app.command("list")
def list_models(*, as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False) -> None:
    """List the models that can be pulled, and what is there of them."""
    store = ModelStore(Settings.from_env().models_dir)
    rows = [
        {
            "name": model.name,
            "state": store.state(model.name).value,
            "size": model.size,
            "licence": model.licence,
            "file": str(store.folder / model.file_name),
        }
        for model in store.catalogue
    ]
    if as_json:
        json.dump(rows, sys.stdout, indent=2)
        print()
        return
    table = Table(Column("name", no_wrap=True), "state", Column("size", justify="right"), "licence")
    for row in rows:
        size = f"{int(row['size']) / 1e6:,.0f} MB"
        table.add_row(str(row["name"]), str(row["state"]), size, str(row["licence"]))
    console = Console()
    console.print(table)
    console.print(f"in {store.folder}", highlight=False, soft_wrap=True)


def pull_all(store: ModelStore, names: list[str], source: ModelSource, console: Console) -> None:
    """Pull models one after the other: a bar each on a terminal, else a line for every tenth.

    Raises:
        ModelUnavailable: One is unknown or cannot be fetched; those before it are there.
        ModelCorrupt: The source serves other bytes than the pinned ones.
    """
    for name in names:
        with _bar(console) if console.is_terminal else _lines(console) as progress:
            path = store.pull(name, source, progress)
        console.print(f"{name}: {path}", highlight=False, soft_wrap=True)


@contextmanager
def _bar(console: Console) -> Generator[ProgressCallback]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task: TaskID | None = None

        def show(step: PullProgress) -> None:
            nonlocal task
            note = f"{_amount(step)}, {step.activity}"
            if task is None or step.done == 0:  # a bar that begins at what is here shows the true speed
                if task is not None:
                    bar.remove_task(task)
                task = bar.add_task(step.model, total=step.total, completed=step.done, note=note)
            bar.update(task, completed=step.done, note=note)

        yield show


@contextmanager
def _lines(console: Console) -> Generator[ProgressCallback]:
    shown: object = None

    def show(step: PullProgress) -> None:
        nonlocal shown
        key = 10 * step.done // step.total if step.done else step.activity
        if key == shown:
            return
        shown = key
        text = f"{step.model}: {_amount(step)}, {step.activity}"
        console.print(text, highlight=False, soft_wrap=True)

    yield show


def _amount(step: PullProgress) -> str:
    return f"{step.done / 1e6:,.0f} of {step.total / 1e6:,.0f} MB"
