"""What the gateway adds, beside a plain pass-through: latency at concurrency 1, requests a second at 32.

Keys, policy, ledger and metrics are on. The gateway has one core, the load and the upstream another.
All targets are measured in turn, several rounds over, and compared within the same run: machines are
noisy, ratios are not. The steadiest ratio is that of the processor time of a request, which other programs
on the machine change least; it does not count waiting.
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
WITH_DOMAINS = "auto, standard_domains"
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
    domains_key = add_tenant(folder, "domains", routing={"standard_domains": ["legal", "medical"]})
    gateway = [sys.executable, "-m", "gateway", "serve", "--config", str(folder / "flashlane.yaml")]
    passthrough = [sys.executable, "-m", "bench.passthrough", "--upstream", urls["nginx"]]
    with (
        nginx(folder, ports["nginx"]),
        process([*pinned(GATEWAY_CORE), *passthrough, "--port", str(ports["passthrough"])]) as passing,
        process([*pinned(GATEWAY_CORE), *gateway], state_in(folder)) as routing,
    ):
        wait_for(urls["passthrough"])
        wait_for(urls["gateway"])
        targets = {
            "direct": (urls["nginx"], "flash", None),
            PASSTHROUGH: (urls["passthrough"], "flash", passing),
            "forced model": (urls["gateway"], "flash", routing),
            "auto": (urls["gateway"], "auto", routing),
            WITH_DOMAINS: (urls["gateway"], WITH_DOMAINS, routing),
        }
        scripts = {model: script(folder, model, key) for model in ("flash", "auto")}
        (folder / "domains").mkdir()
        scripts[WITH_DOMAINS] = script(folder / "domains", "auto", domains_key)
        found = {target: Measured() for target in targets}
        for _ in range(rounds):
            for target, (url, wanted, server) in targets.items():
                for loads, concurrency in ((found[target].alone, 1), (found[target].many, 32)):
                    load = wrk(
                        f"{url}/v1/chat/completions",
                        scripts[wanted],
                        concurrency=concurrency,
                        seconds=seconds,
                        server=server,
                    )
                    loads.append(load)
    return found


def show(found: dict[str, Measured]) -> None:
    """Print the table, and each bar beside what was reached."""
    table = Table(
        "target", "added p50 ms", "added p99 ms", "requests/s", "x (range)", "CPU us", "x by CPU (range)"
    )
    direct = median(found["direct"].alone)
    for target, runs in found.items():
        alone, many = median(runs.alone), median(runs.many)
        is_direct = target == "direct"
        table.add_row(
            target,
            "-" if is_direct else f"{alone.p50 - direct.p50:.2f}",
            "-" if is_direct else f"{alone.p99 - direct.p99:.2f}",
            f"{many.rate:,.0f}",
            _shown(rate_ratios(found, target)),
            "-" if is_direct else f"{many.cpu:.0f}",
            "-" if is_direct else _shown(cpu_ratios(found, target)),
        )
    console = Console(width=110)
    console.print(table)
    console.print(
        "Latency at concurrency 1; requests a second, and processor time of a request, on one core at "
        f"concurrency 32: medians of all rounds. x: as a multiple of the {PASSTHROUGH}."
    )
    for target, bar in BARS.items():
        rate = statistics.median(rate_ratios(found, target))
        cpu = statistics.median(cpu_ratios(found, target))
        console.print(f"{target}: {rate:.2f} x, by CPU {cpu:.2f} x (bar: {bar} x)", highlight=False)


def rate_ratios(found: dict[str, Measured], target: str) -> list[float]:
    """Return, round by round, the requests a second as a multiple of the pass-through's."""
    return [
        run.rate / base.rate for run, base in zip(found[target].many, found[PASSTHROUGH].many, strict=True)
    ]


def cpu_ratios(found: dict[str, Measured], target: str) -> list[float]:
    """Return, round by round, how often a request's processor time goes into the pass-through's."""
    return [base.cpu / run.cpu for run, base in zip(found[target].many, found[PASSTHROUGH].many, strict=True)]


def _shown(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def write_config(folder: Path, upstream: str, port: int) -> str:
    """Write a configuration over one upstream for both models; return a tenant's key."""
    pool = {"name": "main", "replicas": [{"url": upstream}]}
    prices = {"hit": "0.003", "miss": "0.15", "output": "0.60"}
    model: dict[str, Any] = {"served_name": "bench", "context": 131072, "prices": prices, "pools": [pool]}
    models = {"flash": model, "standard": dict(model)}
    write_yaml(folder / "flashlane.yaml", {"server": {"port": port}, "models": models, "tenants": "tenants"})
    return add_tenant(folder, "acme")


def add_tenant(folder: Path, name: str, **settings: object) -> str:
    """Write a tenant; return a key of its own."""
    file = {"tenant": name, "output": {"max_tokens": 4096}, **settings}
    write_yaml(folder / "tenants" / f"{name}.yaml", file)
    return create_key(folder / "tenants", name, "bench")


def state_in(folder: Path) -> dict[str, str]:
    """Return the environment of a gateway that keeps its state in a folder."""
    return {**os.environ, "FLASHLANE_STATE": str(folder / "state")}  # noqa: TID251 - of a child


def script(folder: Path, model: str, key: str) -> Path:
    """Return the wrk script that asks for a model."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    return post_script(folder / f"{model}.lua", {"model": model, "messages": MESSAGES}, headers)


if __name__ == "__main__":
    main()
