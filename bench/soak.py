"""A soak: many requests through a real gateway, with clients that leave and engines that die or hang.

At the end nothing may be left of them: nothing in flight, no task, no connection, no memory; and every
request of a known tenant has its record. Prints a table; the exit status is 1 when a bar is missed.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from backends.engines.probes import free_port
from bench.gateway import state_in
from bench.load import process, wait_for
from bench.soak_clients import SHARES, Client, End, Visit, visits
from policies.key_files import create_key
from policies.yaml_file import write_yaml

REPLICAS = {"flash": 3, "standard": 3}
TIMEOUTS = {"connect": 2, "peek": 0.2, "first_token": 1, "idle": 1, "total": 5}
WARM_UP = 0.25
"""Share of the requests after which memory is first looked at: by then every path has been taken often."""

SAMPLES = 200
"""Looks at the memory during a run, evenly spread over its requests."""

RSS_BAR = 0.05
WELL_BAR = 0.95
PATIENCE_SECONDS = 30.0
"""How long what is left may take to go once the last client is gone."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What must hold at the end."""

    what: str
    found: str
    wanted: str
    held: bool


@dataclass(slots=True)
class Found:
    """What a run saw.

    Attributes:
        ends: (kind of the request, how it ended) -> how often.
        rss: Bytes of the gateway, `SAMPLES` times.
        known: Requests whose tenant the gateway knows.
        tasks: asyncio tasks of the gateway, before the first request and after the last.
        files: Its open files, likewise.
    """

    ends: Counter[tuple[str, End]] = field(default_factory=Counter[tuple[str, End]])
    rss: list[int] = field(default_factory=list[int])
    known: int = 0
    seconds: float = 0.0
    tasks: tuple[list[str], list[str]] = ([], [])
    files: tuple[int, int] = (0, 0)
    in_flight: float = 0.0
    at_work: int = 0
    counted: float = 0.0
    records: int = 0
    status: int = 0


def main() -> None:
    """Run the soak, print the table, and exit with 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="flashlane-soak-") as name:
        found = soak(Path(name), arguments.requests, arguments.concurrency, arguments.seed)
    held = show(found, arguments.concurrency)
    sys.exit(0 if held else 1)


def soak(folder: Path, requests: int, concurrency: int, seed: int) -> Found:
    """Run the gateway and its engines in processes of their own, and make the requests from this one."""
    ports = [free_port() for _ in range(sum(REPLICAS.values()))]
    port = free_port()
    key = write_config(folder, ports, port)
    found, every = Found(), max(1, requests // SAMPLES)
    with process([sys.executable, "-m", "bench.soak_upstream", *map(str, ports)]):
        engines = f"http://127.0.0.1:{ports[0]}/health"
        wait_for(engines)
        with gateway(folder) as child:
            before = child.tasks(), child.files()
            since = time.monotonic()
            plan = visits(requests, random.Random(seed))  # noqa: S311 - the same requests each time
            uvloop.run(_make_all(found, child, plan, every, [Client(port, key) for _ in range(concurrency)]))
            found.seconds = time.monotonic() - since
            _look(found, child, f"http://127.0.0.1:{port}/metrics", engines)
            found.tasks = before[0], _settled(child, len(before[0]))
            found.files = before[1], child.files()
        found.status = child.process.returncode
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        (found.records,) = ledger.execute("SELECT count(*) FROM requests").fetchone()
    return found


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway's process."""

    process: subprocess.Popen[str]
    log: Path

    def tasks(self) -> list[str]:
        """Ask for the names of all tasks; the first answer comes without being asked, at the start."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            sys.exit(f"The gateway ended:\n{self.log.read_text()[-2000:]}")
        return json.loads(line)["tasks"]

    def ask_tasks(self) -> list[str]:
        """Ask for the names of all tasks."""
        self.process.send_signal(signal.SIGUSR1)
        return self.tasks()

    def files(self) -> int:
        """Count its open files."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def rss(self) -> int:
        """Return its resident memory, bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


@contextmanager
def gateway(folder: Path) -> Generator[Gateway]:
    """Run the gateway; its log is in the folder."""
    command = [sys.executable, "-m", "bench.soak_gateway", "--config", str(folder / "flashlane.yaml")]
    with (
        (folder / "gateway.log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=state_in(folder)
        ) as child,
    ):
        try:
            yield Gateway(child, folder / "gateway.log")
        finally:
            child.terminate()
            child.wait(timeout=60)


def write_config(folder: Path, ports: list[int], port: int) -> str:
    """Write a configuration over all engines; return a tenant's key."""
    left: Iterator[int] = iter(ports)
    models: dict[str, Any] = {}
    for name, count in REPLICAS.items():
        replicas = [{"url": f"http://127.0.0.1:{next(left)}"} for _ in range(count)]
        pools = [{"name": "main", "replicas": replicas}]
        models[name] = {"served_name": "soak", "timeouts": TIMEOUTS, "pools": pools}
    ledger = {"url": f"sqlite:///{folder / 'ledger.db'}"}
    config = {"server": {"port": port}, "ledger": ledger, "models": models, "tenants": "tenants"}
    write_yaml(folder / "flashlane.yaml", config)
    write_yaml(folder / "tenants" / "acme.yaml", {"tenant": "acme"})
    return create_key(folder / "tenants", "acme", "soak")


async def _make_all(
    found: Found, child: Gateway, plan: Iterator[Visit], every: int, clients: Sequence[Client]
) -> None:
    """Let all clients make the requests of a plan, and look at the memory after `every` so many."""

    async def one_after_the_other(client: Client) -> None:
        try:
            for visit in plan:
                end = await client.make(visit)
                found.ends[visit.kind, end] += 1
                found.known += visit.has_tenant
                if found.ends.total() % every == 0:
                    found.rss.append(child.rss())
        finally:
            client.close()

    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(one_after_the_other(client))


def _look(found: Found, child: Gateway, metrics: str, engines: str) -> None:
    """Wait until nothing is in flight, and note what the gateway and the engines say then."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        page = _get(metrics)
        found.in_flight = _total(page, "flashlane_in_flight")
        found.counted = _total(page, "flashlane_requests_total")
        found.at_work = json.loads(_get(engines))["at_work"]
        still = found.in_flight or found.at_work or found.counted < found.known
        if not still or time.monotonic() > end or child.process.poll() is not None:
            return
        time.sleep(0.1)


def _settled(child: Gateway, wanted: int) -> list[str]:
    """Return the tasks that are left; a job of the gateway may have some of its own for a moment."""
    end = time.monotonic() + PATIENCE_SECONDS
    while len(tasks := child.ask_tasks()) > wanted and time.monotonic() < end:
        time.sleep(0.1)
    return tasks


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as page:  # noqa: S310 - a loopback URL of ours
        return page.read().decode()


def _total(page: str, name: str) -> float:
    """Add up the series of a metric."""
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", page, re.MULTILINE))


def growth(rss: list[int]) -> tuple[float, float, float]:
    """Return the memory after the warm-up and at the end, bytes, and by which share it grew.

    Each is the median of a tenth of all samples: what one request holds comes and goes.
    """
    tenth, warm = max(1, len(rss) // 10), int(len(rss) * WARM_UP)
    first, last = statistics.median(rss[warm : warm + tenth]), statistics.median(rss[-tenth:])
    return first, last, last / first - 1


def bars(found: Found, concurrency: int) -> list[Bar]:
    """Return what must hold at the end of a run."""
    before, after = map(len, found.tasks)
    opened = found.files[1] - found.files[0]
    first, last, grown = growth(found.rss)
    nothing = sum(count for (_, end), count in found.ends.items() if end is End.NOTHING)
    well = {end: count for (kind, end), count in found.ends.items() if kind == "well"}
    share = well.get(End.WHOLE, 0) / max(1, sum(well.values()))
    memory = f"{first / 2**20:.1f} -> {last / 2**20:.1f} MiB: {grown:+.1%}"
    known = f"{found.known:,}"
    return [
        Bar("requests in flight", f"{found.in_flight:g}", "0", found.in_flight == 0),
        Bar("requests that engines still work on", f"{found.at_work}", "0", found.at_work == 0),
        Bar("asyncio tasks, before and after", f"{before}, {after}", "no more", after <= before),
        Bar("files opened and kept", f"{opened}", f"<= {concurrency}", opened <= concurrency),
        Bar("memory after the warm-up and at the end", memory, f"< {RSS_BAR:.0%}", grown < RSS_BAR),
        Bar("records in the ledger", f"{found.records:,}", known, found.records == found.known),
        Bar("requests in the metrics", f"{found.counted:,.0f}", known, found.counted == found.known),
        Bar("clients that stayed and got no answer", f"{nothing}", "0", nothing == 0),
        Bar("of engines that were well: answered", f"{share:.1%}", f">= {WELL_BAR:.0%}", share >= WELL_BAR),
        Bar("exit status of the gateway", f"{found.status}", "0", found.status == 0),
    ]


def show(found: Found, concurrency: int) -> bool:
    """Print how requests ended, and each bar beside what was found; tell whether all held."""
    console = Console(width=110)
    total = found.ends.total()
    ends = Table("request", "share", *End, title=f"{total:,} requests in {found.seconds:.0f} s")
    for kind in ("well", *SHARES):
        counts = [found.ends[kind, end] for end in End]
        ends.add_row(kind, f"{sum(counts) / total:.1%}", *(f"{count:,}" if count else "" for count in counts))
    console.print(ends)
    table = Table("at the end", "found", "wanted", "")
    checked = bars(found, concurrency)
    for bar in checked:
        table.add_row(bar.what, bar.found, bar.wanted, "held" if bar.held else "MISSED")
    console.print(table)
    console.print(
        f"The warm-up is the first {WARM_UP:.0%} of the requests; memory is the median of a tenth of "
        f"{len(found.rss)} samples."
    )
    for task in found.tasks[1] if len(found.tasks[1]) > len(found.tasks[0]) else ():
        console.print(f"left: {task}", highlight=False)
    return all(bar.held for bar in checked)


if __name__ == "__main__":
    main()
