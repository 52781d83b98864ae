"""The core of GSM: bytes of the index beside a flat hash map, look-ups a second, the order's own speed.

python bench/gsm_core.py TRACE.jsonl
"""

import argparse
import gc
import json
import tracemalloc
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from time import process_time
from typing import TypeVar

from backends.gsm.index import Shard
from backends.gsm.naming import NAME_BYTES
from backends.gsm.simulation import simulate
from backends.gsm.traces import TracedRequest, read_trace

Made = TypeVar("Made")


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description="Measure the core of GSM on a trace.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--capacity", type=int, default=10_000)
    arguments = parser.parse_args()
    with arguments.trace.open("rb") as lines:
        requests = list(read_trace(lines, str(arguments.trace)))
    # Objects of their own for every request, as names come from a request's tokens.
    named = [_names(request) for request in requests]
    flat, flat_bytes = _traced(lambda: _flat_map([_names(request) for request in requests]))
    shard, shard_bytes = _traced(lambda: _shard([_names(request) for request in requests]))
    groups = sum(map(len, named))
    started = process_time()
    hits = sum(map(shard.match, named))
    looked_up = process_time() - started
    started = process_time()
    simulate(requests, capacity=arguments.capacity, policy="gsm")
    simulated = process_time() - started
    figures = {
        "groups": groups,
        "names": len(flat),
        "names_in_index": len(shard),
        "flat_map_bytes": flat_bytes,
        "index_bytes": shard_bytes,
        "index_bytes_counted": shard.size,
        "index_to_flat_map": round(shard_bytes / flat_bytes, 3),
        "bytes_a_name": round(shard_bytes / len(shard), 1),
        "matched_groups": hits,
        "look_ups_of_groups_a_second": round(groups / looked_up),
        "simulated_groups_a_second": round(groups / simulated),
    }
    print(json.dumps(figures, indent=2))


def _names(request: TracedRequest) -> list[bytes]:
    """Name the groups by their ids, as the chain of hashes of tokens would."""
    parent, names = b"", list[bytes]()
    for group in request.groups:
        parent = blake2b(parent + group.to_bytes(8, "little"), digest_size=NAME_BYTES).digest()
        names.append(parent)
    return names


def _flat_map(requests: Sequence[Sequence[bytes]]) -> dict[bytes, float]:
    """Hold each name with the time of its last use, as a map without a tree would."""
    held: dict[bytes, float] = {}
    for number, names in enumerate(requests):
        now = float(number)
        for name in names:
            held[name] = now
    return held


def _shard(requests: Sequence[Sequence[bytes]]) -> Shard:
    shard = Shard(1 << 30, max_groups=1 << 20)
    for number, names in enumerate(requests):
        shard.add(names, float(number))
    return shard


def _traced(make: Callable[[], Made]) -> tuple[Made, int]:
    """Return what is made, and the bytes that are allocated for as long as it lives."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return made, taken


if __name__ == "__main__":
    main()
