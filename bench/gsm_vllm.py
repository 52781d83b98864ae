"""GSM against no GSM on a real vLLM on the CPU, with SmolLM2: `python -m bench.gsm_vllm`.

Two servers run at the same time, one with GSM and one without, and are asked in turn, so that what else the
machine does falls on both. Only ratios are judged. "Without reuse" is the server without GSM whose own cache
was dropped; that is what a restart, or other traffic in between, does to it.
"""

import argparse
import json
import platform
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.gsm_server import BLOCK, CONTEXT, ROOT, Answer, VllmServer, what_is_missing
from bench.gsm_svg import panels_svg

CONTEXTS: Final = (
    2048 + 32,
    4096 + 32,
    CONTEXT - 64,
)  # whole groups and a rest; the last leaves room to answer
TURNS: Final = 20
TURN_TOKENS: Final = 400
ANSWER_TOKENS: Final = 8
QUESTION_AFTER: Final = 8  # turns
CONCURRENT: Final = 8
FEW_GROUPS: Final = 8

_WARM_ROUNDS: Final = 10
_GB: Final = 10**9

HOST: Final = {"gsm_host_bytes": 4 * _GB}
DISK: Final = {"gsm_disk_bytes": 8 * _GB}


@dataclass(slots=True)
class Results:
    """What was measured; seconds, tokens and bytes.

    Attributes:
        ttft: By context, by where the prefix came from.
        warm: TTFT from the engine's own cache with GSM / without, one a round.
        turns: Of the conversation, one row a turn.
        question: A new question after eight turns, without reuse and with GSM.
        concurrent: Mean TTFT of eight requests that share a prefix, without reuse and with GSM.
        peak: Bytes that the longest context takes in the host tier, by max_groups.
        bars: What was to be reached: name -> (measured, bar, whether it holds).
        machine: Where.
        seconds: How long it took.
    """

    ttft: dict[int, dict[str, float]] = field(default_factory=dict[int, dict[str, float]])
    warm: list[float] = field(default_factory=list[float])
    turns: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    question: dict[str, float] = field(default_factory=dict[str, float])
    concurrent: dict[str, float] = field(default_factory=dict[str, float])
    peak: dict[str, float] = field(default_factory=dict[str, float])
    bars: dict[str, tuple[float, str, bool]] = field(default_factory=dict[str, tuple[float, str, bool]])
    machine: str = ""
    seconds: float = 0.0


class Pair:
    """The two servers, and texts that neither has seen."""

    def __init__(self, off: VllmServer, on: VllmServer) -> None:
        self.off = off
        self.on = on
        self._salts = 0
        texts = sorted((ROOT / "docs").glob("**/*.md"))
        self.material = on.tokens("".join(path.read_text(encoding="utf-8") for path in texts)[:120_000])

    def new_salt(self) -> str:
        """Return a salt under which nothing was asked: the same text is new under it."""
        self._salts += 1
        return f"bench-{self._salts}"


def main() -> int:
    """Measure, write the results, and return 0 when every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    parser.add_argument("--every", type=int, default=1, help="ask without reuse only every so many turns")
    arguments = parser.parse_args()
    if (missing := what_is_missing()) is not None:
        sys.exit(missing)
    signal.signal(signal.SIGTERM, _stop)
    began = time.monotonic()
    results = Results(machine=f"{platform.machine()}, {_cores()}, load {_load():.1f} at the start")
    folder = Path(tempfile.mkdtemp(prefix="gsm-bench-"))
    try:
        _measure(results, folder, arguments.every)
    finally:
        results.seconds = time.monotonic() - began
        _write(results, arguments.out)
        print(f"the logs of the servers are in {folder}" if not results.bars else "", flush=True)
    shutil.rmtree(folder)
    for name, (value, bar, holds) in results.bars.items():
        print(f"{'ok  ' if holds else 'FAIL'} {name}: {value:.3f} ({bar})")
    return 0 if all(holds for _, _, holds in results.bars.values()) else 1


def _stop(*_: object) -> None:
    """End the servers, too."""
    sys.exit("stopped")


def _measure(results: Results, folder: Path, every: int) -> None:
    disk = {"gsm_disk_path": str(folder / "pages"), **DISK}
    with ExitStack() as servers:
        off = servers.enter_context(VllmServer(folder / "off.log"))
        with VllmServer(folder / "on.log", gsm=HOST | disk) as on:
            pair = Pair(off, on)
            _warm_up(pair)
            _measure_contexts(results, pair)
            _measure_conversation(results, pair, every)
            _measure_question(results, pair)
            _measure_concurrent(results, pair)
            _wait_for_disk(on, folder / "pages")
        with VllmServer(folder / "on.log", gsm=HOST | disk | {"gsm_max_groups": FEW_GROUPS}) as on:
            pair.on = on
            _warm_up(pair)
            _measure_restart(results, pair)
    _judge(results)


def _warm_up(pair: Pair) -> None:
    """The first prompts of a process pay for what later ones do not."""
    for server in (pair.off, pair.on):
        server.ask(pair.material[: CONTEXTS[0]], tokens=2, cache_salt="warm-up")


def _measure_contexts(results: Results, pair: Pair) -> None:
    off, on = pair.off, pair.on
    for length in CONTEXTS:
        prompt = pair.material[:length]
        salt = f"context-{length}"  # asked again after the restart
        row = results.ttft[length] = {}
        row["without GSM, cold"] = off.ask(prompt, cache_salt=salt).ttft
        before = _held(on)
        row["GSM, cold"] = on.ask(prompt, cache_salt=salt).ttft
        warm = list(_in_turn(pair, prompt, salt, rounds=_WARM_ROUNDS))
        row["without GSM, engine's cache"] = statistics.median(without for without, _ in warm)
        row["GSM, engine's cache"] = statistics.median(with_ for _, with_ in warm)
        results.warm += [with_ / without for without, with_ in warm]
        row["GSM, host tier"] = statistics.median(_restored(on, prompt, salt, rounds=3))
        results.peak["max_groups 64"] = _held(on) - before
        _tell(f"context {length}", row)


def _measure_conversation(results: Results, pair: Pair, every: int) -> None:
    """A conversation of 400 tokens more a turn; between turns other traffic takes the engine's cache."""
    salt = pair.new_salt()
    for turn in range(1, TURNS + 1):
        prompt = pair.material[: turn * TURN_TOKENS]
        row: dict[str, float] = {"turn": turn, "tokens": len(prompt)}
        if turn % every == 0 or turn == 1:
            pair.off.forget_engine_cache()
            row |= _named("without reuse", pair.off.ask(prompt, tokens=ANSWER_TOKENS, cache_salt=salt))
        pair.on.forget_engine_cache()
        answer = pair.on.ask(prompt, tokens=ANSWER_TOKENS, cache_salt=salt)
        row |= _named("GSM", answer) | {"reused": answer.cached}
        results.turns.append(row)
        _tell(f"turn {turn}", row)


def _measure_question(results: Results, pair: Pair) -> None:
    """Eight turns, then a new question on the same material."""
    salt = pair.new_salt()
    talk = pair.material[: QUESTION_AFTER * TURN_TOKENS]
    question = pair.material[-60:]
    for server in (pair.off, pair.on):
        server.ask(talk, cache_salt=salt)
    rounds: list[tuple[float, float]] = []
    for number in range(3):
        prompt = [*talk, *question[number * 20 :], *question[: number * 20]]
        for server in (pair.off, pair.on):
            server.forget_engine_cache()
        rounds.append((pair.off.ask(prompt, cache_salt=salt).ttft, pair.on.ask(prompt, cache_salt=salt).ttft))
    results.question = {
        "without reuse": statistics.median(off for off, _ in rounds),
        "GSM": statistics.median(on for _, on in rounds),
    }
    _tell("question", results.question)


def _measure_concurrent(results: Results, pair: Pair) -> None:
    """Eight at once that share 2,048 tokens, which were asked for before and have left the engine's cache."""
    salt = pair.new_salt()
    prefix = pair.material[:2048]
    prompts = [
        [*prefix, *pair.material[3000 + 40 * number : 3040 + 40 * number]] for number in range(CONCURRENT)
    ]
    for name, server in (("without reuse", pair.off), ("GSM", pair.on)):
        server.ask(prefix, cache_salt=salt)
        server.forget_engine_cache()
        with ThreadPoolExecutor(CONCURRENT) as threads:
            asked = [threads.submit(server.ask, prompt, tokens=4, cache_salt=salt) for prompt in prompts]
            results.concurrent[name] = statistics.mean(each.result().ttft for each in asked)
    _tell("concurrent", results.concurrent)


def _measure_restart(results: Results, pair: Pair) -> None:
    """A new process over the same folder; and how much a sequence may take with few groups."""
    for length in CONTEXTS:
        # The second time it would come from the host tier; the cold one is measured again beside it.
        prompt = pair.material[:length]
        pair.off.forget_engine_cache()
        results.ttft[length]["without GSM, cold again"] = pair.off.ask(
            prompt, cache_salt=f"context-{length}"
        ).ttft
        answer = pair.on.ask(prompt, cache_salt=f"context-{length}")
        results.ttft[length]["GSM, disk after restart"] = answer.ttft
        _tell(f"restart {length}, {answer.cached} tokens from disk", results.ttft[length])
    before = _held(pair.on)
    pair.on.ask(pair.material[: CONTEXTS[-1]], cache_salt=pair.new_salt())
    results.peak[f"max_groups {FEW_GROUPS}"] = _held(pair.on) - before
    _tell("peak", results.peak)


def _judge(results: Results) -> None:
    middle = results.ttft[CONTEXTS[1]]
    disk = middle["GSM, disk after restart"] / middle["without GSM, cold again"]
    warm = statistics.median(results.warm)
    question = 1 - results.question["GSM"] / results.question["without reuse"]
    concurrent = 1 - results.concurrent["GSM"] / results.concurrent["without reuse"]
    few = results.peak[f"max_groups {FEW_GROUPS}"] / results.peak["max_groups 64"]
    results.bars = {
        "4K context restored from disk / cold": (disk, "<= 0.25", disk <= 0.25),
        "engine's cache, with GSM / without": (warm, "<= 1.05", warm <= 1.05),
        "TTFT saved on a new question after 8 turns": (question, ">= 0.37", question >= 0.37),
        "TTFT saved with eight at once": (concurrent, "> 0", concurrent > 0),
        "peak KV memory with 8 groups / with 64": (few, "< 1", few < 1),
    }


def _in_turn(pair: Pair, prompt: Sequence[int], salt: str, *, rounds: int) -> Iterator[tuple[float, float]]:
    """Ask both servers, each as the first every other time; yields TTFT without and with GSM."""
    for number in range(rounds):
        first, second = (pair.off, pair.on) if number % 2 else (pair.on, pair.off)
        times = {server: server.ask(prompt, tokens=2, cache_salt=salt).ttft for server in (first, second)}
        yield times[pair.off], times[pair.on]


def _restored(server: VllmServer, prompt: Sequence[int], salt: str, *, rounds: int) -> Iterator[float]:
    for _ in range(rounds):
        server.forget_engine_cache()
        yield server.ask(prompt, cache_salt=salt).ttft


def _held(server: VllmServer) -> float:
    return server.metrics()['vllm:gsm_held_bytes{tier="host"}']


def _wait_for_disk(server: VllmServer, pages: Path) -> None:
    """Writing goes on after the answers; a restart would cut it short."""
    wanted = _held(server) // (BLOCK * 46_080)
    deadline = time.monotonic() + 300
    while len(list(pages.glob("*/*.page"))) < wanted and time.monotonic() < deadline:
        time.sleep(0.2)


def _named(name: str, answer: Answer) -> dict[str, float]:
    return {f"{name}, TTFT": answer.ttft, f"{name}, ITL": statistics.median(answer.gaps)}


def _tell(what: str, values: Mapping[str, float]) -> None:
    print(what, {name: round(value, 3) for name, value in values.items()}, flush=True)


def _write(results: Results, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = asdict(results)
    (folder / "gsm_vllm.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if results.turns and len(results.ttft) == len(CONTEXTS):
        (folder / "gsm_vllm.svg").write_text(_plot(results), encoding="utf-8")


def _plot(results: Results) -> str:
    sources = ("without GSM, cold", "GSM, disk after restart", "GSM, host tier", "GSM, engine's cache")
    return panels_svg(
        {
            "TTFT by where the prefix comes from": {
                name: _points((length, row.get(name)) for length, row in results.ttft.items())
                for name in sources
            },
            "TTFT of a conversation, turn by turn": {
                name: _points((row["tokens"], row.get(f"{name}, TTFT")) for row in results.turns)
                for name in ("without reuse", "GSM")
            },
        }
    )


def _points(pairs: Iterator[tuple[float, float | None]]) -> Sequence[tuple[float, float]]:
    return [(x, y) for x, y in pairs if y is not None]


def _cores() -> str:
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return f"{len(models)} cores of {models[0].partition(': ')[2]}" if models else platform.processor()


def _load() -> float:
    return float(Path("/proc/loadavg").read_text().split()[0])


if __name__ == "__main__":
    sys.exit(main())
