"""Many chats at once through the gateway: both pools beside the throughput pool alone, on real engines.

    python -m bench.pools --python VLLM_ENV/bin/python --model FOLDER

Two servers of vLLM's CPU build: one drafts by n-grams, the latency pool, and one does not, the throughput
pool. A gateway serves one model from both and one from the latter alone; rounds take turns: so many chats of
both pools, as many of the throughput pool alone, and half as many of it. All continue a repetitive text.

Times of a clock say little here, as engines share cores with each other and with whatever else is at work:
two processes get more of them than one. So what counts is the processor time of the engines. The tokens of a
second of it are what an engine brings that has its core for itself, and pools are machines of their own, so
the rates of both pools add up. Half of the chats show what two machines of the throughput pool would bring.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from backends.engines.probes import free_port
from backends.engines.process import SupervisedProcess
from backends.http_client import HttpPool
from bench.gateway import state_in
from bench.load import process, processor_seconds, wait_for
from bench.replicas import usage_in
from bench.speculation import LINES, NAME, vllm
from policies.key_files import create_key
from policies.yaml_file import write_yaml

BAR: Final = 0.95
BOTH: Final = "both pools"
ALONE: Final = "throughput pool"
HALF: Final = "throughput pool, half"
MODELS: Final[Mapping[str, str]] = {BOTH: "flash", ALONE: "standard", HALF: "standard"}


@dataclass(slots=True)
class Round:
    """So many chats at once, each answered to the same length.

    Attributes:
        seconds: Until the last of them ended.
        tokens: Of the answers, by the pool that gave them.
        busy: Processor seconds of the engines of these pools.
    """

    seconds: float
    tokens: Counter[str]
    busy: dict[str, float]

    @property
    def rate(self) -> float:
        """Return the tokens a second of all pools together, each on a core of its own."""
        return sum(count / self.busy[pool] for pool, count in self.tokens.items())

    @property
    def shared(self) -> float:
        """Return the tokens a second of all pools together, on one core."""
        return self.tokens.total() / sum(self.busy.values())


def busy_seconds(group: int) -> float:
    """Return what all processes of a group have used of processors."""
    found = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # the name before it may hold blanks
        except OSError:
            continue  # it has just ended
        if int(fields[2]) == group:
            found += processor_seconds(int(stat.parent.name))
    return found


async def chat(pool: HttpPool, model: str, number: int, tokens: int) -> tuple[str, int]:
    """Have a repetitive text continued; return the pool that did it, and its tokens."""
    body = {
        "model": model,
        "messages": [
            {"role": "user", "content": f"Write list {number}."},
            {"role": "assistant", "content": LINES},
        ],
        "add_generation_prompt": False,
        "continue_final_message": True,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    response = await pool.request("POST", "/v1/chat/completions", body=json.dumps(body).encode())
    answer = (await response.read_all(2**22)).decode()
    name = response.headers.get("x-flashlane-pool", "")
    response.close()
    if response.status != 200:
        sys.exit(f"the gateway answered {response.status}: {answer[:500]}")
    return name, usage_in(answer)["completion_tokens"]


async def play(
    pool: HttpPool, engines: Mapping[str, SupervisedProcess], way: str, concurrency: int, tokens: int
) -> Round:
    """Have so many chats answered at once."""
    groups = {name: engine.status.pid or 0 for name, engine in engines.items()}
    count = concurrency // 2 if way == HALF else concurrency
    before = {name: busy_seconds(group) for name, group in groups.items()}
    since = time.perf_counter()
    answers = await asyncio.gather(*(chat(pool, MODELS[way], number, tokens) for number in range(count)))
    seconds = time.perf_counter() - since
    written = Counter[str]()
    for name, length in answers:
        written[name] += length
    busy = {name: busy_seconds(groups[name]) - before[name] for name in written}
    return Round(seconds, written, busy)


def config_of(ports: Mapping[str, int], gateway: int, most: int) -> dict[str, Any]:
    """Return the configuration of a gateway with one model over both pools, and one over the second."""

    def pool(name: str, **more: object) -> dict[str, Any]:
        replica = {"url": f"http://127.0.0.1:{ports[name]}", "engine": "vllm"}
        return {"name": name, "role": name, "replicas": [replica], **more}

    fast, other = pool("latency", speculation=True, max_concurrency=most), pool("throughput")
    models = {"flash": [fast, other], "standard": [other]}
    return {
        "server": {"port": gateway},
        "tenants": "tenants",
        "models": {name: {"served_name": NAME, "pools": pools} for name, pools in models.items()},
    }


async def measure(folder: Path, options: argparse.Namespace) -> dict[str, list[Round]]:
    """Return the rounds of each way, but the first, in which prompts are read."""
    ports, port = {"latency": free_port(), "throughput": free_port()}, free_port()
    async with AsyncExitStack() as stack:
        engines: dict[str, SupervisedProcess] = {}
        for name, at in ports.items():
            spec = vllm(options, at, folder, drafts=name == "latency")
            engines[name] = await stack.enter_async_context(SupervisedProcess(spec))
        write_yaml(folder / "flashlane.yaml", config_of(ports, port, options.latency))
        key = create_key(folder / "tenants", "acme", "bench")
        command = [sys.executable, "-m", "gateway", "serve", "--config", str(folder / "flashlane.yaml")]
        stack.enter_context(process(command, state_in(folder)))
        await asyncio.to_thread(wait_for, f"http://127.0.0.1:{port}")
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        pool = HttpPool(f"http://127.0.0.1:{port}", headers=headers)
        found: dict[str, list[Round]] = {way: [] for way in MODELS}
        for number in range(options.rounds + 1):
            for way, rounds in found.items():
                played = await play(pool, engines, way, options.concurrency, options.tokens)
                if number:
                    rounds.append(played)
                    say(way, played)
        pool.close()
    return found


def say(way: str, played: Round) -> None:
    """Print a line about a round."""
    parts = [
        f"{name} {count} tokens in {played.busy[name]:.1f} s" for name, count in sorted(played.tokens.items())
    ]
    print(f"{way:22}{played.seconds:6.1f} s by the clock; of a processor: {', '.join(parts)}", flush=True)


def show(found: Mapping[str, Sequence[Round]]) -> bool:
    """Print the medians, the bar and the JSON; return whether the bar is reached."""
    table = Table("way", "tokens/s, a core each", "tokens/s, one core", "tokens in the latency pool")
    for way, rounds in found.items():
        share = statistics.median(each.tokens["latency"] / each.tokens.total() for each in rounds)
        rate = statistics.median(each.rate for each in rounds)
        shared = statistics.median(each.shared for each in rounds)
        table.add_row(way, f"{rate:.1f}", f"{shared:.1f}", f"{share:.0%}")
    Console(width=110).print(table)
    triples = list(zip(found[BOTH], found[ALONE], found[HALF], strict=True))
    ratio = statistics.median(both.rate / alone.rate for both, alone, _ in triples)
    machines = statistics.median(both.rate / (2 * half.rate) for both, _, half in triples)
    shared = statistics.median(both.shared / alone.shared for both, alone, _ in triples)
    print(
        f"both pools bring {ratio:.2f} x the tokens of the throughput pool alone (bar {BAR}); "
        f"{machines:.2f} x those of two machines of it; {shared:.2f} x where both engines have one core"
    )
    print(json.dumps({"ratio": ratio, "ratio_two_machines": machines, "ratio_one_core": shared}))
    return ratio >= BAR


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", required=True, help="of vLLM's environment")
    parser.add_argument("--model", required=True, help="a model's folder")
    parser.add_argument("--concurrency", type=int, default=16, help="chats at once")
    parser.add_argument("--latency", type=int, default=4, help="max_concurrency of the latency pool")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--rounds", type=int, default=5, help="of each way, after one to warm up")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="flashlane-bench-") as name:
        found = asyncio.run(measure(Path(name), options))
    sys.exit(0 if show(found) else 1)


if __name__ == "__main__":
    main()
