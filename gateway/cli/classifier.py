"""`flashlane classifier`: train the complexity classifier, measure it, and ask it why."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from classifier.domain_evaluation import domain_figures, load_domain_prompts
from classifier.errors import ClassifierError
from classifier.model import Classifier
from classifier.types import ComplexityEstimate, Conversation, Turn

# Training and evaluation import numpy and scikit-learn; `explain` must not wait for them, so their modules
# are imported by the commands that need them.

app = typer.Typer(help="The complexity classifier: train, eval, explain.", no_args_is_help=True)

EXPLAINED_SHARE = 0.35

DataOption = Annotated[Path, typer.Option("--data", help="Folder of labelled .parquet files, one a source.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.command()
def train(
    data: DataOption,
    out: Annotated[Path, typer.Option("--out", help="Folder that the weights are written to.")],
) -> None:
    """Train on labelled prompts, measure by leaving out one source at a time, and write the weights."""
    with _one_line_errors(), _progress() as report:
        from classifier.release import train as train_weights

        card = train_weights(data, out, report)
    typer.echo(f"{card.version} written to {out}")


@app.command("eval")
def evaluate(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of labelled .parquet files, one a source.")
    ] = None,
    domains: Annotated[
        Path | None, typer.Option("--domains", help="Folder of prompts, a .jsonl file a domain.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Print leave-one-source-out figures beside prompt length and a random order, or those of the domains."""
    if (data is None) == (domains is None):
        typer.echo("error: give either --data or --domains", err=True)
        raise typer.Exit(2)
    if data is not None:
        _evaluate_scores(data, as_json=as_json)
    elif domains is not None:
        _evaluate_domains(domains, as_json=as_json)


def _evaluate_domains(folder: Path, *, as_json: bool) -> None:
    with _one_line_errors():
        figures = domain_figures(load_domain_prompts(folder))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(figures)))
        return
    table = Table(title="Domains: precision, recall, prompts")
    for name in ("domain", "language", "precision", "recall", "prompts"):
        table.add_column(name, justify="left" if name in {"domain", "language"} else "right")
    for each in figures:
        table.add_row(
            each.domain, each.lang, f"{each.precision:.2f}", f"{each.recall:.2f}", str(each.prompts)
        )
    Console().print(table)


def _evaluate_scores(data: Path, *, as_json: bool) -> None:
    with _one_line_errors(), _progress() as report:
        from classifier.dataset import load_sources
        from classifier.evaluation import evaluate as leave_one_source_out

        report("reading the prompts")
        sources = load_sources(data)
        found = leave_one_source_out(sources, lambda name: report(f"leaving out {name}")).as_json()
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        Console().print(_figures_table(msgspec.convert(found, _Report)))


@app.command()
def explain(
    prompt: Annotated[str, typer.Argument(help="The last user turn.")],
    *,
    system: Annotated[
        str, typer.Option("--system", help="The system prompt; names the task, moves no score.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Print the score of a prompt, where it would go, and what moved it."""
    with _one_line_errors():
        classifier = Classifier.load()
    estimate = classifier.estimate(Conversation(turns=[Turn("user", prompt)], system=system))
    cut = classifier.reference_cut(EXPLAINED_SHARE)
    moved = classifier.contributions(estimate.features)
    route = "standard" if estimate.score > cut else "flash"
    if as_json:
        explanation = _Explanation(
            score=round(estimate.score, 4),
            cut=round(cut, 4),
            standard_share=EXPLAINED_SHARE,
            route=route,
            domain=estimate.domain,
            task=estimate.task,
            model_version=estimate.model_version,
            features={
                name: _Feature(round(value, 4), round(moved[name], 4))
                for name, value in estimate.features.items()
            },
        )
        typer.echo(msgspec.json.format(msgspec.json.encode(explanation)))
        return
    console = Console()
    console.print(
        f"score {estimate.score:.3f}, cut at a standard share of {EXPLAINED_SHARE:.0%}: {cut:.3f}"
        f" -> [bold]{route}[/bold]"
    )
    console.print(f"domain {estimate.domain}, task {estimate.task or '-'}, weights {estimate.model_version}")
    console.print(_features_table(estimate, moved))


class _Feature(msgspec.Struct, frozen=True):
    value: float
    contribution: float


class _Explanation(msgspec.Struct, frozen=True, kw_only=True):
    score: float
    cut: float
    standard_share: float
    route: str
    domain: str
    task: str
    model_version: str
    features: dict[str, _Feature]


class _Figures(msgspec.Struct, frozen=True, kw_only=True):
    apgr: float
    apgr_weighted: float
    cpt80: float
    weak_failure_auc: float | None


class _SourceFigures(_Figures, frozen=True, kw_only=True):
    rows: int
    length: _Figures
    random: _Figures


class _Report(msgspec.Struct, frozen=True):
    sources: dict[str, _SourceFigures]
    macro: _SourceFigures


def _figures_table(report: _Report) -> Table:
    table = Table(
        title="Leave one source out: score / length / random (APGR: 0.5 is random; CPT80: less is better)"
    )
    table.add_column("source", no_wrap=True)
    for name in ("rows", "APGR", "APGR weighted", "CPT80 %", "AUC weak fails"):
        table.add_column(name, justify="right")
    for name, figures in (*report.sources.items(), ("macro", report.macro)):
        three = (figures, figures.length, figures.random)
        table.add_row(
            name,
            str(figures.rows),
            " / ".join(f"{each.apgr:.3f}" for each in three),
            " / ".join(f"{each.apgr_weighted:.3f}" for each in three),
            " / ".join(f"{each.cpt80:.1f}" for each in three),
            " / ".join(
                "-" if each.weak_failure_auc is None else f"{each.weak_failure_auc:.3f}" for each in three
            ),
            style="bold" if name == "macro" else None,
        )
    return table


def _features_table(estimate: ComplexityEstimate, moved: Mapping[str, float]) -> Table:
    table = Table(title="What moved the score, against the median of the reference (not additive)")
    table.add_column("feature")
    table.add_column("value", justify="right")
    table.add_column("contribution", justify="right")
    for name in sorted(moved, key=lambda name: -abs(moved[name])):
        table.add_row(name, f"{estimate.features[name]:.3f}", f"{moved[name]:+.3f}")
    return table


@contextmanager
def _one_line_errors() -> Generator[None]:
    try:
        yield
    except ClassifierError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        typer.echo(f"error: {error.strerror}: {error.filename}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def _progress() -> Generator[Callable[[str], None]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("starting", total=None)

        def report(step: str) -> None:
            shown.update(task, description=step)

        yield report
