"""`flashlane gsm`: what the memory of groups would do, and does."""

import json
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from backends.gsm.errors import TraceInvalid
from backends.gsm.simulation import Policy, Simulated, simulate
from backends.gsm.traces import TracedRequest, read_trace
from gateway.cli.console import errors_end_the_command
from gateway.cli.gsm_show import show

app = typer.Typer(
    no_args_is_help=True,
    help="Grouped Sequential Memory: what it holds in running engines and on disk; its order on a trace.",
)

_POLICIES = get_args(Policy)


app.command(name="show")(show)


@app.command(name="simulate")
def simulate_trace(
    trace: Annotated[Path, typer.Option(help="Requests in Mooncake's form, one JSON object a line.")],
    capacity: Annotated[int, typer.Option(min=1, help="Groups of 512 tokens that a replica has room for.")],
    replicas: Annotated[int, typer.Option(min=1, max=1024, help="Replicas of that capacity.")] = 1,
    policy: Annotated[str, typer.Option(help="What makes room.", metavar="|".join(_POLICIES))] = "gsm",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Serve a trace of requests from a cache of groups, and say how many of them it would have hit."""
    if policy not in _POLICIES:
        raise typer.BadParameter(f"{policy!r} is none of {', '.join(_POLICIES)}", param_hint="--policy")
    with errors_end_the_command():
        requests = _read(trace)
        result = simulate(requests, capacity=capacity, policy=cast("Policy", policy), replicas=replicas)
    settings = {"trace": str(trace), "policy": policy, "capacity": capacity, "replicas": replicas}
    if as_json:
        print(json.dumps(settings | _figures(result)))
    else:
        _print(settings | _figures(result))


def _read(trace: Path) -> list[TracedRequest]:
    try:
        with trace.open("rb") as lines:
            requests = list(read_trace(lines, str(trace)))
    except OSError as error:
        raise TraceInvalid(f"{trace}: cannot be read ({error.strerror})") from error
    if not requests:
        raise TraceInvalid(f"{trace}: holds no requests")
    return requests


def _figures(result: Simulated) -> dict[str, int | float]:
    return {
        "hit_rate": result.hit_rate,
        "requests": result.requests,
        "groups": result.groups,
        "hits": result.hits,
        "reused_tokens": result.reused_tokens,
        "evictions": result.evictions,
        "peak_groups": result.peak_groups,
    }


def _print(figures: dict[str, str | int | float]) -> None:
    for name, value in figures.items():
        shown = f"{value:.1%}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<14} {shown}")
