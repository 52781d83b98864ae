"""The order of eviction beside LRU on a trace, at capacities evenly spaced by their logarithm.

python -m bench.gsm_order TRACE.jsonl [--belady]

Prints one line a capacity: groups of room, share of groups hit in percent by LRU and by GSM, groups that GSM
hit more. Ends with status 1 when LRU was better at one of them.
"""

import argparse
import sys
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from backends.gsm.simulation import chains_of, simulate
from backends.gsm.traces import read_trace


def main() -> None:
    """Compare, and print as it goes."""
    parser = argparse.ArgumentParser(description="Compare GSM's order of eviction with LRU on a trace.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--least", type=int, default=1000, help="groups of room")
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--belady", action="store_true", help="print the optimum as well")
    arguments = parser.parse_args()
    with arguments.trace.open("rb") as lines:
        requests = list(read_trace(lines, str(arguments.trace)))
    distances = stack_distances(chains_of(requests))
    groups = sum(len(request.groups) for request in requests)
    behind: list[int] = []
    for capacity in spaced(arguments.least, arguments.most, arguments.points):
        lru = bisect_right(distances, capacity)
        gsm = simulate(requests, capacity=capacity, policy="gsm").hits
        line = f"{capacity:7} LRU {lru / groups:7.2%} GSM {gsm / groups:7.2%} {gsm - lru:+6}"
        if arguments.belady:
            belady = simulate(requests, capacity=capacity, policy="belady").hits
            line += f" Belady {belady / groups:7.2%}"
        print(line, flush=True)
        if gsm < lru:
            behind.append(capacity)
    print(f"behind LRU at {len(behind)} of {arguments.points} capacities {behind or ''}".rstrip())
    sys.exit(bool(behind))


def spaced(least: int, most: int, points: int) -> list[int]:
    """Return capacities from the least to the most, each larger than the last by the same factor."""
    return [round(least * (most / least) ** (point / max(1, points - 1))) for point in range(points)]


def stack_distances(chains: Sequence[Sequence[int]]) -> list[int]:
    """Return, in ascending order, the room that LRU needs to hit each use of a group that was used before.

    That is how many groups were used since, itself included (Mattson et al., Evaluation techniques for
    storage hierarchies, 1970). LRU (leaves first) is a stack: of a request the deepest group counts as used
    first, so a group is never younger than the one in front of it. True of rooms no smaller than the longest
    request. Used and counted by a binary indexed tree over the uses (Fenwick, 1994).
    """
    uses = sum(map(len, chains))
    tree = [0] * (uses + 1)
    last: dict[int, int] = {}
    distances: list[int] = []
    at = 0
    for chain in chains:
        distances += [len(last) - _counted(tree, last[group] - 1) for group in chain if group in last]
        for group in reversed(chain):
            if group in last:
                _add(tree, last[group], -1)
            at += 1
            last[group] = at
            _add(tree, at, 1)
    return sorted(distances)


def _add(tree: list[int], place: int, amount: int) -> None:
    while place < len(tree):
        tree[place] += amount
        place += place & -place


def _counted(tree: list[int], place: int) -> int:
    total = 0
    while place:
        total += tree[place]
        place &= place - 1
    return total


if __name__ == "__main__":
    main()
