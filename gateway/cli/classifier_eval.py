"""`flashlane classifier eval`: how well a model ranks, on any files of outcomes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from classifier.domain_evaluation import domain_figures, load_domain_prompts
from classifier.errors import DatasetInvalid
from classifier.model import Classifier
from gateway.cli.classifier_output import JsonOption, one_line_errors, print_json, progress_line

if TYPE_CHECKING:  # imports numpy, which `explain` does without
    from classifier.adapt_curve import Curve
    from classifier.dataset import Source as TrainingSource
    from classifier.figures import Figures
    from classifier.measured import Evaluation, Source
    from classifier.routellm_figures import SuiteFigures

DataOption = Annotated[
    list[Path] | None,
    typer.Option("--data", help="File of outcomes, or a folder of them; a file is a source. Repeatable."),
]
ModelOption = Annotated[
    Path | None, typer.Option("--model", help="Folder of weights or of versions; the shipped weights.")
]
TaskOption = Annotated[
    str | None, typer.Option("--task-column", help="Column that names the task of a prompt.")
]
LosoOption = Annotated[
    bool, typer.Option("--loso", help="Train again without each source, on the others in its folder.")
]
CurveOption = Annotated[
    bool, typer.Option("--adapt-curve", help="Figures after adapting to 0 to 1000 pairs, many draws.")
]
FoldsOption = Annotated[
    bool, typer.Option("--five-fold", help="APGR after adapting to four fifths of each source.")
]
DomainsOption = Annotated[
    Path | None, typer.Option("--domains", help="Folder of prompts, a .jsonl file a domain.")
]
SuiteOption = Annotated[
    tuple[str, Path] | None,
    typer.Option("--suite", help="`routellm PATH`: RouteLLM's own files, in a checkout of it."),
]


_CURVE_FIGURES = {
    "APGR weighted": "apgr_weighted",
    "APGR": "apgr",
    "AUC weak fails": "weak_failure_auc",
    "ECE": "ece",
}


def evaluate(
    data: DataOption = None,
    *,
    model: ModelOption = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the cost-quality curve, as SVG.")] = None,
    task_column: TaskOption = None,
    loso: LosoOption = False,
    adapt_curve: CurveOption = False,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws of --adapt-curve.")] = 20,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Sentence encoder, as the second stage of --adapt-curve.")
    ] = None,
    five_fold: FoldsOption = False,
    suite: SuiteOption = None,
    domains: DomainsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a model beside prompt length and a random order; only --loso trains."""
    with one_line_errors():
        if domains is not None:
            _domains(domains, as_json=as_json)
            return
        _check(data, suite, plot)
        if suite is not None:
            _suite(suite[1], model, as_json=as_json)
        elif five_fold:
            _five_fold(data or [], model, task_column, loso=loso, as_json=as_json)
        elif adapt_curve:
            _adapt_curve(
                data or [], model, task_column, draws=draws, encoder=encoder, loso=loso, as_json=as_json
            )
        elif loso:
            _leave_one_out(data or [], as_json=as_json)
        else:
            _measure(data or [], model, task_column, plot, as_json=as_json)


def _check(data: list[Path] | None, suite: tuple[str, Path] | None, plot: Path | None) -> None:
    if suite is not None and suite[0] != "routellm":
        raise typer.BadParameter(f"{suite[0]!r} is no known suite; give: --suite routellm PATH")
    if suite is None and not data:
        raise typer.BadParameter("give files with --data, or --suite routellm PATH, or --domains FOLDER")
    if plot is not None and plot.suffix != ".svg":
        raise typer.BadParameter(f"--plot writes SVG; name the file {plot.with_suffix('.svg')}")


def _measure(
    data: list[Path], model: Path | None, task_column: str | None, plot: Path | None, *, as_json: bool
) -> None:
    with progress_line() as report:
        # These import numpy; the other commands must not wait for it.
        from classifier.curve_svg import curve_svg
        from classifier.measured import measure

        report("reading the prompts")
        found = measure(Classifier.load(model), _sources(data, task_column), progress=report)
    if plot is not None:
        plot.write_text(curve_svg("Gap recovered, mean over sources", found.macro.curves), encoding="utf-8")
    if as_json:
        print_json(found.as_json())
    else:
        _print_evaluation(found)


def _sources(data: list[Path], task_column: str | None) -> "list[Source]":
    from classifier.measured import load_measurable

    found = [source for path in data for source in load_measurable(path, task_column)]
    names = [source.name for source in found]
    for name in names:
        if names.count(name) > 1:
            raise DatasetInvalid(f"two files are named {name}; a file's name is its source's, so rename one")
    return found


def _leave_one_out(data: list[Path], *, as_json: bool) -> None:
    with progress_line() as report:
        from classifier.dataset import iterate_sources, source_files
        from classifier.evaluation import evaluate as leave_one_source_out

        report("reading the prompts")
        sources = list(iterate_sources([file for folder in data for file in source_files(folder)]))
        found = leave_one_source_out(sources, lambda name: report(f"leaving out {name}")).as_json()
    if as_json:
        print_json(found)
    else:
        Console().print(_loso_table(found))


def _adapt_curve(
    data: list[Path],
    model: Path | None,
    task_column: str | None,
    *,
    draws: int,
    encoder: str | None,
    loso: bool,
    as_json: bool,
) -> None:
    with progress_line() as report:
        from classifier.adapt_curve import adapt_curves, macro
        from classifier.encoders import load_encoder

        report("reading the prompts")
        training = _training(data) if loso else []
        sources = _sources(data, task_column)
        curves = adapt_curves(
            Classifier.load(model).prior,
            sources,
            training,
            encoder=None if encoder is None else load_encoder(encoder),
            draws=draws,
            progress=report,
        )
        mean = macro(curves)
    if as_json:
        named = {**curves, "macro": mean}
        print_json({
            name: {str(size): point.as_json() for size, point in curve.items()}
            for name, curve in named.items()
        })  # fmt: skip
        return
    Console().print(_curve_table({**curves, "macro": mean}, draws))


def _curve_table(curves: "dict[str, Curve]", draws: int) -> Table:
    table = Table(title=f"After adapting to n pairs, {draws} draws")
    table.add_column("source", no_wrap=True)
    table.add_column("figure", no_wrap=True)
    sizes = sorted({size for curve in curves.values() for size in curve})
    for size in sizes:
        table.add_column(f"n={size}", justify="right", no_wrap=True)
    for name, curve in curves.items():
        points = [curve[size].as_json() if size in curve else {} for size in sizes]
        for title, figure in _CURVE_FIGURES.items():
            shown = name if figure == "apgr_weighted" else ""
            table.add_row(shown, title, *(_three(point.get(figure)) for point in points))
        table.add_section()
    return table


def _training(data: list[Path]) -> "list[TrainingSource]":
    """The labelled prompts in `data` that a prior may be trained on."""
    from classifier.dataset import CLOSED_FOLDERS, load_sources

    folders = dict.fromkeys(path.parent if path.is_file() else path for path in data)
    folders = [folder for folder in folders if folder.resolve().name not in CLOSED_FOLDERS]
    return [source for folder in folders for source in load_sources(folder)]


def _five_fold(
    data: list[Path], model: Path | None, task_column: str | None, *, loso: bool, as_json: bool
) -> None:
    with progress_line() as report:
        from classifier.adapt_curve import five_fold

        report("reading the prompts")
        training = _training(data) if loso else []
        sources = _sources(data, task_column)
        found = five_fold(Classifier.load(model).prior, sources, training, progress=report)
    if as_json:
        print_json({name: round(area, 4) for name, area in found.items()})
    else:
        for name, area in found.items():
            typer.echo(f"{name} {area:.3f}")


def _suite(checkout: Path, model: Path | None, *, as_json: bool) -> None:
    with progress_line() as report:
        from classifier.routellm_figures import suite_figures
        from classifier.routellm_suite import load_suite

        report("reading RouteLLM's files")
        found = suite_figures(Classifier.load(model), load_suite(checkout), progress=report)
    if as_json:
        print_json({name: figures.as_json() for name, figures in found.items()})
    else:
        Console().print(_suite_table(found))


def _suite_table(found: "dict[str, SuiteFigures]") -> Table:
    table = Table(title="RouteLLM's evaluation files, ten bins: CPT50 % / CPT80 % / APGR")
    for name in ("benchmark", "prompts", "this model", "prompt length", "RouteLLM's best", "exact curve"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, figures in found.items():
        table.add_row(
            name,
            str(figures.prompts),
            *(
                f"{each.cpt50:.1f} / {each.cpt80:.1f} / {each.apgr:.3f}"
                for each in (figures.score, figures.length, figures.published, figures.exact)
            ),
        )
    return table


def _print_evaluation(found: "Evaluation") -> None:
    console = Console()
    table = Table(title="APGR: 0.5 is random; CPT: less is better; bins: APGR off RouteLLM's ten bins")
    table.add_column("source", no_wrap=True)
    for name in ("", "APGR", "weighted", "CPT50", "CPT80", "AUC", "weak fails", "ECE", "bins"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, measured in (*found.sources.items(), ("macro", found.macro)):
        style = "bold" if name == "macro" else None
        bins, ece = f"{measured.binned.apgr:.3f}", _three(measured.ece)
        table.add_row(name, "score", *_cells(measured.score), ece, bins, style=style)
        table.add_row(f"  {measured.rows} rows", "length", *_cells(measured.length))
        table.add_row("", "random", *_cells(measured.random), end_section=True)
    console.print(table)
    latency = found.latency
    console.print(
        f"an estimate takes {latency.p50:.3f} ms (p50), {latency.p99:.3f} ms (p99); "
        f"{latency.per_second:.0f} a second on one core"
    )


def _cells(figures: "Figures") -> list[str]:
    return [
        f"{figures.apgr:.3f}",
        f"{figures.apgr_weighted:.3f}",
        f"{figures.cpt50:.1f}",
        f"{figures.cpt80:.1f}",
        _three(figures.auc),
        _three(figures.weak_failure_auc),
    ]


def _three(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


class _LosoFigures(msgspec.Struct, frozen=True, kw_only=True):
    apgr: float
    apgr_weighted: float
    cpt80: float
    weak_failure_auc: float | None


class _LosoSource(_LosoFigures, frozen=True, kw_only=True):
    rows: int
    failure_head_auc: float | None
    length: _LosoFigures
    random: _LosoFigures


def _domains(folder: Path, *, as_json: bool) -> None:
    figures = domain_figures(load_domain_prompts(folder))
    if as_json:
        print_json(figures)
        return
    table = Table(title="Domains: precision, recall, prompts")
    for name in ("domain", "language", "precision", "recall", "prompts"):
        table.add_column(name, justify="left" if name in {"domain", "language"} else "right")
    for each in figures:
        table.add_row(
            each.domain, each.lang, f"{each.precision:.2f}", f"{each.recall:.2f}", str(each.prompts)
        )
    Console().print(table)


def _loso_table(found: dict[str, Any]) -> Table:
    sources = msgspec.convert({**found["sources"], "macro": found["macro"]}, dict[str, _LosoSource])
    table = Table(title="Leave one source out: score / length / random")
    table.add_column("source", no_wrap=True)
    for name in ("rows", "APGR", "APGR weighted", "CPT80 %", "AUC weak fails", "its own head"):
        table.add_column(name, justify="right")
    for name, figures in sources.items():
        three = (figures, figures.length, figures.random)
        table.add_row(
            name,
            str(figures.rows),
            " / ".join(f"{each.apgr:.3f}" for each in three),
            " / ".join(f"{each.apgr_weighted:.3f}" for each in three),
            " / ".join(f"{each.cpt80:.1f}" for each in three),
            " / ".join(_three(each.weak_failure_auc) for each in three),
            _three(figures.failure_head_auc),
            style="bold" if name == "macro" else None,
        )
    return table
