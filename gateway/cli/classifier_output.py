"""What the commands of `flashlane classifier` share: one-line errors, a progress line, JSON."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from classifier.errors import ClassifierError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def print_json(value: object) -> None:
    """Print `value` as indented JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value)))


@contextmanager
def one_line_errors() -> Generator[None]:
    """End with status 2 and one line on standard error where a file or its content is at fault."""
    try:
        yield
    except ClassifierError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        typer.echo(f"error: {error.strerror}: {error.filename}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def progress_line() -> Generator[Callable[[str], None]]:
    """Show what is being worked on, on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("starting", total=None)

        def report(step: str) -> None:
            shown.update(task, description=step)

        yield report
