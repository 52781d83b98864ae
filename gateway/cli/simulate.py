"""`flashlane simulate`: ways of placement beside each other, on a trace of requests."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from backends.gsm.errors import TraceInvalid
from backends.gsm.traces import TracedRequest, read_trace
from backends.placement.simulation import PLACEMENTS, Outcome, simulate
from gateway.cli.classifier_output import JsonOption, print_json, progress_line

TraceOption = Annotated[Path, typer.Option("--trace", help="Requests in Mooncake's JSONL form.")]
ReplicasOption = Annotated[int, typer.Option("--replicas", min=1, help="How many replicas.")]
CapacityOption = Annotated[
    int, typer.Option("--capacity", min=1, help="Groups that all replicas together hold.")
]
RateOption = Annotated[
    float, typer.Option("--rate", min=1.0, help="Tokens of prompt that each replica reads a second.")
]


def run(
    trace: TraceOption,
    replicas: ReplicasOption = 4,
    capacity: CapacityOption = 30_000,
    rate: RateOption = 8000.0,
    *,
    as_json: JsonOption = False,
) -> None:
    """Replay a trace over simulated replicas, to compare ways of choosing among them."""
    requests = _read(trace)
    outcomes: dict[str, Outcome] = {}
    with progress_line() as report:
        for name, placement in PLACEMENTS.items():
            report(name)
            outcomes[name] = simulate(requests, placement(), replicas=replicas, capacity=capacity, rate=rate)
    if as_json:
        print_json({"placements": {name: asdict(outcome) for name, outcome in outcomes.items()}})
    else:
        _show(outcomes)


def _read(trace: Path) -> list[TracedRequest]:
    """Return the requests of a trace; ends the command where there are none to read."""
    try:
        with trace.open("rb") as lines:
            requests = list(read_trace(lines, str(trace)))
    except (TraceInvalid, OSError) as error:
        text = f"{error.strerror}: {trace}" if isinstance(error, OSError) else str(error)
        typer.echo(f"error: {text}", err=True)
        raise typer.Exit(2) from error
    if not requests:
        typer.echo(f"error: {trace}: holds no requests", err=True)
        raise typer.Exit(2)
    return requests


def _show(outcomes: Mapping[str, Outcome]) -> None:
    table = Table("placement", "hits", "of one cache", "busiest / mean", "TTFT P50", "TTFT P99")
    for name, outcome in outcomes.items():
        table.add_row(
            name,
            f"{outcome.hit_rate:.1%}",
            f"{outcome.hit_share_of_single:.1%}",
            f"{outcome.imbalance:.3f}",
            f"{outcome.ttft_p50:.2f} s",
            f"{outcome.ttft_p99:.2f} s",
        )
    Console().print(table)
