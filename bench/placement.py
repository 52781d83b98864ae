"""How long a placement takes: `python -m bench.placement`. 64 replicas, 100,000 groups in their indexes.

On a busy machine the lowest figure is the one that is about the code.
"""

import random
import statistics
import time

from backends.fleet import Fleet
from backends.openai_server import OpenAIServer
from backends.placement.naming import ByteNamer, PromptText
from backends.placement.prompts import Prompt
from backends.types import Pool, Replica, ReplicaKind

REPLICAS, GROUPS, ROUNDS, TOGETHER = 64, 100_000, 300, 20
CHAIN = 100
"""Groups of a prompt: some 50,000 tokens."""


def main() -> None:
    """Print the percentiles."""
    draw = random.Random(1)  # noqa: S311 - the same at every run
    replicas = [Replica(f"m/p/{i}", ReplicaKind.OPENAI, "http://x", "m") for i in range(REPLICAS)]
    fleet = Fleet(
        {"m": [Pool("p", "any", replicas)]},
        monotonic=time.monotonic,
        make=lambda replica, _: OpenAIServer(replica, 1.0),
    )
    system = [draw.randbytes(16) for _ in range(20)]
    prompts = [
        Prompt(CHAIN * 512, [*system, *(draw.randbytes(16) for _ in range(CHAIN - 20))])
        for _ in range(GROUPS // (CHAIN - 20))
    ]
    members = [member for _, member in fleet.members()]
    for prompt in prompts:
        draw.choice(members).standing.held.sent(prompt.names, time.monotonic())
    indexed = sum(len(member.standing.held) for member in members)  # pyright: ignore[reportArgumentType]
    times: list[float] = []
    for _ in range(ROUNDS):
        some = draw.sample(prompts, TOGETHER)
        since = time.perf_counter()
        for prompt in some:
            fleet.place("m", (), prompt)
        times.append((time.perf_counter() - since) / TOGETHER)
        placed = fleet.place("m", (), some[0])
        if placed is None:
            raise RuntimeError("no replica takes requests")
        placed.member.standing.queue.drop(fleet.send("m", placed), time.monotonic())
    _show(f"place, {REPLICAS} replicas, {indexed} groups", times)
    text = PromptText([draw.randbytes(2000) for _ in range(100)], 50_000)
    namer, naming = ByteNamer("m", 512), list[float]()
    for _ in range(200):
        since = time.perf_counter()
        namer.name(text)
        naming.append(time.perf_counter() - since)
    _show("name 200 KB by bytes", naming)


def _show(what: str, times: list[float]) -> None:
    cuts = statistics.quantiles(times, n=100)
    print(
        f"{what}: lowest {min(times) * 1e6:.0f} us, P50 {cuts[49] * 1e6:.0f} us, P99 {cuts[98] * 1e6:.0f} us"
    )


if __name__ == "__main__":
    main()
