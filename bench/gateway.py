"""What the gateway adds, beside a plain pass-through: latency at concurrency 1, requests a second at 32.

Keys, policy, ledger and metrics are on. The gateway has one core, the load and the upstream another.
All targets are measured in turn, several rounds over, and compared within the same run: machines are
noisy, ratios are not.
"""

import argparse
import os
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from backends.engines.probes import free_port
from bench.load import GATEWAY_CORE, Load, median, need, nginx, pinned, post_script, process, wait_for, wrk
from policies.key_files import create_key
from policies.yaml_file import write_yaml

MESSAGES = [
    {"role": "system", "content": "You are the assistant of a travel agency. Answer in one short sentence."},
    {"role": "user", "content": "We plan a week in Europe in May."},
    {"role": "assistant", "content": "Lovely. Which countries do you have in mind?"},
    {"role": "user", "content": "France, for a start. What is its capital, and what should we see there?"},
]
PASSTHROUGH = "FastAPI + aiohttp pass-through"
BARS = {"forced model": 1.2, "auto": 0.8}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2, help="of one run of wrk")
    arguments = parser.parse_args()
    need("wrk", "nginx")
    with TemporaryDirectory(prefix="flashlane-bench-") as name:
        show(measure(Path(name), arguments.rounds, arguments.seconds))


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of one target, a pair a round.

    Attributes:
        alone: At concurrency 1.
        many: At concurrency 32.
    """

    alone: list[Load] = field(default_factory=list[Load])
    many: list[Load] = field(default_factory=list[Load])


def measure(folder: Path, rounds: int, seconds: int) -> dict[str, Measured]:
    """Return the runs by target."""
    ports = {"nginx": free_port(), "passthrough": free_port(), "gateway": free_port()}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    key = write_config(folder, urls["nginx"], ports["gateway"])
    gateway = [sys.executable, "-m", "gateway", "serve", "--config", str(folder / "flashlane.yaml")]
    passthrough = [sys.executable, "-m", "bench.passthrough", "--upstream", urls["nginx"]]
    with (
        nginx(folder, ports["nginx"]),
        process([*pinned(GATEWAY_CORE), *passthrough, "--port", str(ports["passthrough"])]),
        process([*pinned(GATEWAY_CORE), *gateway], state_in(folder)),
    ):
        wait_for(urls["passthrough"])
        wait_for(urls["gateway"])
        targets = {
            "direct": (urls["nginx"], "flash"),
            PASSTHROUGH: (urls["passthrough"], "flash"),
            "forced model": (urls["gateway"], "flash"),
            "auto": (urls["gateway"], "auto"),
        }
        scripts = {model: script(folder, model, key) for model in ("flash", "auto")}
        found = {target: Measured() for target in targets}
        for _ in range(rounds):
            for target, (url, model) in targets.items():
                for loads, concurrency in ((found[target].alone, 1), (found[target].many, 32)):
                    chat = f"{url}/v1/chat/completions"
                    loads.append(wrk(chat, scripts[model], concurrency=concurrency, seconds=seconds))
    return found


def show(found: dict[str, Measured]) -> None:
    """Print the table, and each bar beside what was reached."""
    table = Table("target", "added p50 ms", "added p99 ms", "requests/s", "x pass-through", "(range)")
    direct = median(found["direct"].alone)
    for target, runs in found.items():
        alone, many, ratios = median(runs.alone), median(runs.many), ratios_of(found, target)
        table.add_row(
            target,
            "-" if target == "direct" else f"{alone.p50 - direct.p50:.2f}",
            "-" if target == "direct" else f"{alone.p99 - direct.p99:.2f}",
            f"{many.rate:,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}-{max(ratios):.2f}",
        )
    console = Console(width=110)
    console.print(table)
    console.print(
        "Latency at concurrency 1, requests a second on one core at concurrency 32: medians of all rounds."
    )
    for target, bar in BARS.items():
        ratio = statistics.median(ratios_of(found, target))
        console.print(f"{target}: {ratio:.2f} x the pass-through (bar: {bar} x)", highlight=False)


def ratios_of(found: dict[str, Measured], target: str) -> list[float]:
    """Return, round by round, the requests a second as a multiple of the pass-through's."""
    pairs = zip(found[target].many, found[PASSTHROUGH].many, strict=True)
    return [run.rate / base.rate for run, base in pairs]


def write_config(folder: Path, upstream: str, port: int) -> str:
    """Write a configuration over one upstream for both models; return a tenant's key."""
    pool = {"name": "main", "replicas": [{"url": upstream}]}
    prices = {"hit": "0.003", "miss": "0.15", "output": "0.60"}
    model: dict[str, Any] = {"served_name": "bench", "context": 131072, "prices": prices, "pools": [pool]}
    models = {"flash": model, "standard": dict(model)}
    write_yaml(folder / "flashlane.yaml", {"server": {"port": port}, "models": models, "tenants": "tenants"})
    write_yaml(folder / "tenants" / "acme.yaml", {"tenant": "acme", "output": {"max_tokens": 4096}})
    return create_key(folder / "tenants", "acme", "bench")


def state_in(folder: Path) -> dict[str, str]:
    """Return the environment of a gateway that keeps its state in a folder."""
    return {**os.environ, "FLASHLANE_STATE": str(folder / "state")}  # noqa: TID251 - of a child


def script(folder: Path, model: str, key: str) -> Path:
    """Return the wrk script that asks for a model."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    return post_script(folder / f"{model}.lua", {"model": model, "messages": MESSAGES}, headers)


if __name__ == "__main__":
    main()
