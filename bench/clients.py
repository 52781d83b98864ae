"""Which HTTP client to reach engines with: each inside the same raw-ASGI pass-through.

`python -m bench.clients` needs wrk and nginx. The pass-throughs have one core, the load and the upstream
another; all clients are measured in turn, several rounds over, and compared by ratio within a round.
docs/decisions/0003 quotes what it prints.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from backends.engines.probes import free_port
from bench.client_app import CLIENTS, JSON, PLAIN, Events
from bench.load import (
    GATEWAY_CORE,
    LOAD_CORE,
    Load,
    median,
    need,
    nginx,
    pinned,
    post_script,
    process,
    wait_for,
    wrk,
)

BASE = "aiohttp"
DIRECT = "direct"
STREAM = "/v1/stream"
MESSAGES = [{"role": "user", "content": "What is the capital of France, and what should we see there?"}]
CASES = {"plain, c=1": (PLAIN, 1), "plain, c=32": (PLAIN, 32), "stream, c=128": (STREAM, 128)}

SETTLE = 1.0
"""Seconds for which a pass-through may still work on what wrk left unfinished."""

Found = Mapping[tuple[str, str], Sequence[Load]]
"""(case, client) -> the loads of all rounds."""


def main() -> None:
    """Measure, and print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3, help="of one run of wrk")
    arguments = parser.parse_args()
    need("wrk", "nginx")
    with TemporaryDirectory(prefix="flashlane-bench-") as name:
        found = measure(Path(name), arguments.rounds, arguments.seconds)
    for case in CASES:
        show(case, found)


def measure(folder: Path, rounds: int, seconds: int) -> Found:
    """Run every case over every client, round by round."""
    script = post_script(folder / "chat.lua", {"model": "bench", "messages": MESSAGES}, JSON)
    found: dict[tuple[str, str], list[Load]] = {}
    with ExitStack() as stack:
        plain = stack.enter_context(nginx(folder, free_port()))
        stream = _serve(stack, LOAD_CORE)
        urls = {
            (path, client): _serve(stack, GATEWAY_CORE, "--client", client, "--upstream", upstream)
            for path, upstream in ((PLAIN, plain), (STREAM, stream))
            for client in CLIENTS
        }
        urls |= {(PLAIN, DIRECT): plain, (STREAM, DIRECT): stream}
        for _ in range(rounds):
            for case, (path, concurrency) in CASES.items():
                for client in (DIRECT, *CLIENTS):
                    load = wrk(urls[path, client] + path, script, concurrency=concurrency, seconds=seconds)
                    found.setdefault((case, client), []).append(load)
                    time.sleep(SETTLE)
    return found


def show(case: str, found: Found) -> None:
    """Print one case: medians, and the median of the ratios to aiohttp of each round."""
    table = Table("client", "p50 ms", "p99 ms", "requests/s", f"x {BASE}", title=case)
    for client in (DIRECT, *CLIENTS):
        loads = found[case, client]
        ratios = [load.rate / base.rate for load, base in zip(loads, found[case, BASE], strict=True)]
        middle = median(loads)
        table.add_row(
            client,
            f"{middle.p50:.2f}",
            f"{middle.p99:.2f}",
            f"{middle.rate:,.0f}",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        )
    if case.startswith("stream"):
        table.caption = f"a stream has {Events.COUNT} events"
    Console().print(table)


def _serve(stack: ExitStack, core: str, *arguments: str) -> str:
    """Start `bench.client_app` for as long as the stack lasts; returns its URL."""
    port = free_port()
    command = [sys.executable, "-m", "bench.client_app", "--port", str(port), *arguments]
    stack.enter_context(process([*pinned(core), *command]))
    url = f"http://127.0.0.1:{port}"
    wait_for(url)
    return url


if __name__ == "__main__":
    main()
