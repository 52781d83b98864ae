"""What speculation gains for few requests and loses for many, on a real engine, and what pools make of it.

    python -m bench.speculation --python VLLM_ENV/bin/python --model FOLDER

starts vLLM's CPU build twice, one after the other: without drafts, and with n-gram drafts. Both continue a
repetitive text greedily, at some concurrencies. The last lines are the figures beside their bars. Without
`--python` the engine is llama.cpp, which comes with Flashlane.
"""

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from backends.engines.llama import LlamaOptions, llama_spec
from backends.engines.probes import free_port
from backends.engines.process import SupervisedProcess
from backends.engines.profiles import VllmProfile, profile_of
from backends.engines.types import ProcessSpec
from backends.engines.vllm import vllm_spec
from backends.http_client import HttpPool
from backends.models.catalogue import SMOLLM2
from backends.models.store import ModelStore
from backends.pools.engine_metrics import read_counts
from backends.pools.speculation import Pace, low_water, next_threshold
from backends.types import EngineFlavour
from gateway.settings import Settings

LINES = "".join(f"{n}. The red fox jumps over the lazy dog near the river bank.\n" for n in range(1, 13))
NAME = "model"
GAIN_BAR = 1.5
THROUGHPUT_BAR = 0.95


@dataclass(frozen=True, slots=True)
class Measured:
    """An engine at one concurrency: tokens a second of all answers together, and of each."""

    total: float
    each: float


async def ask(pool: HttpPool, tokens: int, number: int) -> float:
    """Continue the text; return the seconds it took."""
    body = {"model": NAME, "prompt": f"List {number}\n{LINES}", "max_tokens": tokens, "temperature": 0}
    since = time.perf_counter()
    response = await pool.request(
        "POST", "/v1/completions", body=json.dumps({**body, "ignore_eos": True}).encode()
    )
    answer = json.loads(await response.read_all(2**20))
    response.close()
    if answer["usage"]["completion_tokens"] != tokens:
        raise SystemExit(f"the engine wrote {answer['usage']['completion_tokens']} tokens, not {tokens}")
    return time.perf_counter() - since


async def measure(pool: HttpPool, concurrency: int, tokens: int) -> Measured:
    """Ask so many at once, once to warm the prefixes and once for the clock."""
    await asyncio.gather(*(ask(pool, 1, number) for number in range(concurrency)))
    since = time.perf_counter()
    took = await asyncio.gather(*(ask(pool, tokens, number) for number in range(concurrency)))
    wall = time.perf_counter() - since
    return Measured(concurrency * tokens / wall, tokens * len(took) / sum(took))


def vllm(options: argparse.Namespace, port: int, logs: Path, *, drafts: bool) -> ProcessSpec:
    """Return vLLM's CPU build, with or without drafts."""
    profile = profile_of("vllm-cpu", [f"model={options.model}", f"served_name={NAME}", "max_num_seqs=32"])
    if not isinstance(profile, VllmProfile):
        raise TypeError("the profile is vLLM's")
    profile = replace(profile, kv_gib=1, kv_events=0, speculation="ngram" if drafts else "none")
    log = logs / f"vllm-{'drafts' if drafts else 'plain'}.log"
    return vllm_spec(profile, python=options.python, host="127.0.0.1", port=port, log_file=log)


def llama(options: argparse.Namespace, port: int, logs: Path, *, drafts: bool) -> ProcessSpec:
    """Return llama.cpp, with or without drafts."""
    store = ModelStore(Settings.from_env().models_dir)
    slots = max(options.concurrency)
    settings = LlamaOptions(context=1024, slots=slots, threads=1, draft_tokens=8 if drafts else 0)
    return llama_spec(NAME, store.locate(SMOLLM2.name), port, logs / f"llama-{drafts}.log", settings)


async def table(options: argparse.Namespace, *, drafts: bool) -> dict[int, Measured]:
    """Run an engine and measure it at every concurrency."""
    port, found = free_port(), dict[int, Measured]()
    make, flavour = (vllm, EngineFlavour.VLLM) if options.python else (llama, EngineFlavour.LLAMA_CPP)
    with tempfile.TemporaryDirectory() as logs:
        async with SupervisedProcess(make(options, port, Path(logs), drafts=drafts)):
            pool = HttpPool(f"http://127.0.0.1:{port}", headers={"content-type": "application/json"})
            await ask(pool, 4, 0)
            for concurrency in options.concurrency:
                found[concurrency] = await measure(pool, concurrency, options.tokens)
                show(concurrency, found[concurrency], drafts=drafts)
            page = await pool.request("GET", "/metrics")
            counts = read_counts(await page.read_all(2**22), flavour)
            pool.close()
    if counts.drafts and counts.drafted and counts.accepted is not None:
        rate, step = counts.accepted / counts.drafted, 1.0 + counts.accepted / counts.drafts
        print(f"{'':10}drafts accepted {rate:.0%}, {step:.2f} tokens a step with a draft", flush=True)
    return found


def show(concurrency: int, found: Measured, *, drafts: bool) -> None:
    """Print a row."""
    kind = "drafts" if drafts else "plain"
    print(
        f"{kind:10}{concurrency:4} at once  {found.total:8.1f} tokens/s  {found.each:8.1f} each", flush=True
    )


def between(known: dict[int, Measured], concurrency: float) -> float:
    """Return the total tokens a second at a concurrency, on straight lines between those measured."""
    points = [(0, 0.0), *((at, found.total) for at, found in sorted(known.items()))]
    for (low, less), (high, more) in pairwise(points):
        if concurrency <= high:
            return less + (more - less) * (concurrency - low) / (high - low)
    return points[-1][1]


def learned(drafts: dict[int, Measured], plain: dict[int, Measured], busy: int) -> int:
    """Return the threshold that the gateway would learn beside a throughput pool with `busy` requests."""
    latency, throughput, threshold = Pace(), Pace(), max(drafts)
    for _ in range(20):
        for at, found in drafts.items():
            latency.saw(at, 1.0 / found.each)
        throughput.saw(busy, 1.0 / plain[busy].each)
    for _ in range(max(drafts)):
        threshold = next_threshold(threshold, max(drafts), latency, throughput)
    return threshold


def verdict(drafts: dict[int, Measured], plain: dict[int, Measured]) -> None:
    """Print the figures beside their bars."""
    gain = drafts[1].each / plain[1].each
    print(f"one request: {gain:.2f} x as fast with drafts (bar {GAIN_BAR})")
    most = max(plain)
    for busy in sorted(plain):
        print(f"threshold beside a throughput pool at {busy}: {learned(drafts, plain, busy)}")
    threshold = learned(drafts, plain, most)
    ratios: list[float] = []
    for at in range(1, most + 1):
        inside = min(at, threshold)
        both = between(drafts, inside) + between(plain, at - inside)
        ratios.append(both / between(plain, at))
    print(
        f"{most} at once, {threshold} of them in the latency pool: {ratios[-1]:.2f} x the total of the "
        f"throughput pool alone (bar {THROUGHPUT_BAR})"
    )
    print(
        f"the least over 1 to {most} at once: {min(ratios):.2f} x; drafts for all at {most}: "
        f"{drafts[most].total / plain[most].total:.2f} x"
    )
    print(f"a full pool of {threshold} takes chats again at {low_water(threshold)}")


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", help="of vLLM's environment; llama.cpp when left out")
    parser.add_argument("--model", help="a model's folder, with --python")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    options = parser.parse_args()
    plain = await table(options, drafts=False)
    verdict(await table(options, drafts=True), plain)


if __name__ == "__main__":
    asyncio.run(main())
