"""`flashlane classifier adapt`, `versions` and `rollback`: a model of one's own pairs, and the way back."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from classifier.model import Classifier
from classifier.versions import roll_back, version_folder
from classifier.versions import versions as versions_in
from gateway.cli.classifier_output import JsonOption, one_line_errors, print_json, progress_line
from gateway.cli.classifier_tenant import ConfigOption, PairsOption, TaskColumnOption, tenant_place
from gateway.cli.console import errors_end_the_command

if TYPE_CHECKING:  # imports numpy, which `explain` does without
    from classifier.adapted import AdaptationReport, Interval
    from classifier.adapted_file import AdaptedCard
    from classifier.encoders import Encoder

FolderArgument = Annotated[Path, typer.Argument(help="Folder of the versions.")]
FolderOption = Annotated[
    Path | None, typer.Option("--out", help="Folder of the versions, in place of --tenant.")
]
ForTenantOption = Annotated[
    str | None, typer.Option("--tenant", help="Whose pairs they are; running gateways serve it the version.")
]


EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder", help="Sentence encoder to try as a second stage; the configuration's, with --tenant."
    ),
]


def adapt(
    pairs: PairsOption,
    out: FolderOption = None,
    tenant: ForTenantOption = None,
    config_file: ConfigOption = None,
    *,
    encoder: EncoderOption = None,
    task_column: TaskColumnOption = "task",
    as_json: JsonOption = False,
) -> None:
    """Refit the shipped weights to pairs of your own two models, and keep the result as a new version.

    Shows the ranking before and after on held-out pairs. Refused when the pairs say nothing that the shipped
    weights did not say; nothing is written then.
    """
    with errors_end_the_command(), one_line_errors(), progress_line() as report:
        # These import numpy; the other commands must not wait for it.
        from classifier.adaptation import adapt as adapt_to
        from classifier.adapted_file import save_adapted
        from classifier.pairs import load_pairs
        from classifier.versions import add_version

        to = _destination(out, tenant, config_file)
        report("reading the pairs")
        found = load_pairs(pairs, task_column)
        classifier = Classifier.load()
        report("adapting")
        adapted = adapt_to(classifier.prior, found, encoder=_encoder(encoder or to.encoder))
        created = datetime.now(UTC).isoformat(timespec="seconds")
        number = add_version(
            to.folder,
            lambda new: save_adapted(
                new, adapted, prior=classifier.card.version, created=created, models=to.models
            ),
        )
        version = Classifier.load(version_folder(to.folder, number)).version
    if as_json:
        print_json({"number": number, "version": version, "report": adapted.report})
        return
    Console().print(_report_table(adapted.report))
    typer.echo(f"version {number} ({version}) written to {to.folder} and served from now on")


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a version goes, and what the gateway there has; "" where nobody says."""

    folder: Path
    models: str = ""
    encoder: str = ""


def _destination(out: Path | None, tenant: str | None, config_file: Path | None) -> _Destination:
    if tenant is not None and out is None:
        place = tenant_place(tenant, config_file)
        section = place.config.encoder
        return _Destination(place.versions, place.models, "" if section is None else section.model)
    if out is None or tenant is not None:
        raise typer.BadParameter("give either --tenant, whom the version is for, or --out, a folder")
    return _Destination(out)


def _encoder(model: str) -> "Encoder | None":
    if not model:
        return None
    from classifier.encoders import load_encoder  # numpy, and what runs the encoder

    return load_encoder(model)


def versions(
    folder: Annotated[Path, typer.Argument(help="Folder of the versions.")], *, as_json: JsonOption = False
) -> None:
    """List the versions in a folder; the one that is served is marked."""
    with one_line_errors():
        from classifier.adapted_file import load_card  # numpy

        found = versions_in(folder)
        cards = {number: load_card(version_folder(folder, number)) for number in found.numbers}
    if as_json:
        print_json(
            {"current": found.current, "versions": {str(number): card for number, card in cards.items()}}
        )
        return
    Console().print(_versions_table(found.current, cards))


def rollback(
    folder: FolderArgument,
    to: Annotated[int | None, typer.Option("--to", help="Number to serve; the one before.")] = None,
) -> None:
    """Serve an earlier version again, by default the one before the current one."""
    with one_line_errors():
        number = roll_back(folder, to)
    typer.echo(f"version {number} is served from now on")


def _report_table(report: "AdaptationReport") -> Table:
    table = Table(title=f"{report.pairs} pairs, {report.tasks} tasks; held-out folds, 90% intervals")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, interval in (
        ("APGR before", report.before),
        ("APGR after", report.after),
        ("difference", report.difference),
    ):
        table.add_row(name, _with_bounds(interval))
    table.add_row("better in", f"{report.better:.0%} of resamples")
    table.add_row("mean gain of standard", f"{report.gap:+.3f}")
    table.add_row("AUC Flash ok", "-" if report.flash_auc is None else f"{report.flash_auc:.3f}")
    stated = (
        "not stated: too few pairs" if report.calibration_error is None else f"{report.calibration_error:.3f}"
    )
    table.add_row("calibration error of p_flash_ok", stated)
    if report.second_stage is not None:
        second = report.second_stage
        table.add_row("encoder", second.encoder)
        table.add_row("  adds to APGR", _with_bounds(second.difference))
        table.add_row("  better in", f"{second.better:.0%} of resamples")
        table.add_row("  second stage", "kept" if second.kept else "not kept: it adds too little")
    return table


def _versions_table(current: int, cards: "dict[int, AdaptedCard]") -> Table:
    table = Table()
    for name in ("", "number", "created", "pairs", "APGR before", "APGR after", "version"):
        table.add_column(name, no_wrap=True)
    for number, card in cards.items():
        table.add_row(
            "*" if number == current else "",
            str(number),
            card.created,
            str(card.report.pairs),
            f"{card.report.before.value:.3f}",
            f"{card.report.after.value:.3f}",
            card.version,
        )
    return table


def _with_bounds(interval: "Interval") -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
