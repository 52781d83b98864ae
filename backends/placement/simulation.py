"""A discrete-event replay of a trace over simulated replicas, to compare ways of placement.

A replica reads prompts one after the other at a fixed rate, and keeps the groups that it read in a cache of
its own, least recently used leaves given up first, as engines do. Answers are not simulated: TTFT is what
placement decides. Work is counted in whole groups.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from backends.gsm.traces import TracedRequest
from backends.placement.held import SentGroups
from backends.placement.placer import Placer
from backends.placement.types import ReplicaView

GROUP_TOKENS = 512
"""Tokens a group of the traces."""


class SimulatedReplica:
    """One replica: a queue, a rate, and a cache."""

    def __init__(self, name: str, rate: float, groups: int) -> None:
        """Make an idle replica with an empty cache.

        Args:
            name: Of the replica.
            rate: Tokens of prompt a second.
            groups: Room of its cache.
        """
        self.name = name
        self.rate = rate
        self.cache = SentGroups(groups)
        self.work = 0.0
        self._free_at = 0.0

    def queue(self, now: float) -> float:
        """Return the seconds until it would begin with a new request."""
        return max(0.0, self._free_at - now)

    def take(self, request: TracedRequest) -> tuple[int, float]:
        """Take a request.

        Returns:
            How many of its groups were held, and its TTFT in seconds.
        """
        hits = self.cache.longest(request.groups, request.at)
        work = (len(request.groups) - hits) * GROUP_TOKENS / self.rate
        ttft = self.queue(request.at) + work
        self._free_at = max(request.at, self._free_at) + work
        self.work += work
        self.cache.sent(request.groups, request.at)
        return hits, ttft


Placement = Callable[[TracedRequest, Sequence[SimulatedReplica]], int]
"""Chooses the index of a replica."""


def round_robin() -> Placement:
    """One after the other."""
    turns = itertools.count()
    return lambda _, replicas: next(turns) % len(replicas)


def least_loaded() -> Placement:
    """The shortest queue."""
    return lambda request, replicas: min(
        range(len(replicas)), key=lambda index: replicas[index].queue(request.at)
    )


def prefix_only() -> Placement:
    """The longest prefix, whatever the queue."""
    return lambda request, replicas: max(
        range(len(replicas)), key=lambda index: replicas[index].cache.longest(request.groups, request.at)
    )


def flashlane() -> Placement:
    """As the gateway does it."""
    placer = Placer()

    def place(request: TracedRequest, replicas: Sequence[SimulatedReplica]) -> int:
        held = [replica.cache.longest(request.groups, request.at) for replica in replicas]
        views = [
            ReplicaView(
                cached=groups * GROUP_TOKENS,
                queue=replica.queue(request.at),
                rate=replica.rate,
                recent=placer.demand.recent(replica.name),
            )
            for replica, groups in zip(replicas, held, strict=True)
        ]
        branch = request.groups[max(held) - 1] if max(held) else None
        choice = placer.choose(views, len(request.groups) * GROUP_TOKENS, now=request.at, branch=branch)
        placer.placed(replicas[choice.index].name, choice.work, now=request.at, branch=branch)
        return choice.index

    return place


PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "flashlane": flashlane,
    "round_robin": round_robin,
    "least_loaded": least_loaded,
    "prefix_only": prefix_only,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a way of placement.

    Attributes:
        hit_rate: Groups that were held, of all groups.
        hit_share_of_single: That rate, of the rate of one LRU cache as big as all together.
        imbalance: Seconds of work of the busiest replica, of the mean.
        ttft_p50: Seconds.
        ttft_p99: Seconds.
    """

    hit_rate: float
    hit_share_of_single: float
    imbalance: float
    ttft_p50: float
    ttft_p99: float


def hit_rate_of_single(requests: Iterable[TracedRequest], capacity: int) -> float:
    """Return the hit rate of one LRU cache of `capacity` groups that gets every request."""
    cache, hits, total = SentGroups(capacity), 0, 0
    for request in requests:
        hits += cache.longest(request.groups, request.at)
        total += len(request.groups)
        cache.sent(request.groups, request.at)
    return hits / total if total else 0.0


def simulate(
    requests: Sequence[TracedRequest], placement: Placement, *, replicas: int, capacity: int, rate: float
) -> Outcome:
    """Replay a trace.

    Args:
        requests: At least one, in the order of time.
        placement: Fresh: it may remember what it did.
        replicas: How many.
        capacity: Groups that all caches together hold; each holds its part, rounded down.
        rate: Tokens of prompt a second of each.
    """
    fleet = [SimulatedReplica(f"replica/{i}", rate, capacity // replicas) for i in range(replicas)]
    hits = groups = 0
    times: list[float] = []
    for request in requests:
        held, ttft = fleet[placement(request, fleet)].take(request)
        hits += held
        groups += len(request.groups)
        times.append(ttft)
    times.sort()
    rate_of_hits = hits / groups if groups else 0.0
    single = hit_rate_of_single(requests, capacity)
    mean = sum(replica.work for replica in fleet) / replicas
    return Outcome(
        hit_rate=rate_of_hits,
        hit_share_of_single=rate_of_hits / single if single else 0.0,
        imbalance=max(replica.work for replica in fleet) / mean if mean else 1.0,
        ttft_p50=times[len(times) // 2],
        ttft_p99=times[int(len(times) * 0.99)],
    )
