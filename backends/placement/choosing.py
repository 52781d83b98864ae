"""From replicas to the one that gets a request: filters, scorers in [0, 1], and one picker."""

from collections.abc import Sequence
from operator import itemgetter

from backends.placement.types import ReplicaView

EQUAL_SECONDS = 0.001
"""Costs that differ by less are the same: nothing that is measured is known better."""

FULL = 0.95
"""A KV cache that is used so far makes the engine preempt, or wait."""


def with_room(running: Sequence[int], slots: Sequence[int | None]) -> list[int]:
    """Filter out replicas that have as many requests as they take at once; of full ones all are left.

    Args:
        running: Requests on each of the N replicas.
        slots: The most that each takes; None where that is not known.

    Returns:
        Indices of those that are left, rising; all of them when none has room.
    """
    left = [i for i, (n, most) in enumerate(zip(running, slots, strict=True)) if most is None or n < most]
    return left or list(range(len(running)))


def with_memory(views: Sequence[ReplicaView], indices: Sequence[int]) -> list[int]:
    """Filter out replicas whose KV cache is full with running requests; of full ones all are left."""
    return [i for i in indices if views[i].kv_usage < FULL] or list(indices)


def score_session(views: Sequence[ReplicaView]) -> list[float]:
    """Prefer the replica that the conversation was on last: 1 for it, 0 for the others."""
    return [1.0 if view.session else 0.0 for view in views]


def score_prefix(views: Sequence[ReplicaView], tokens: int) -> list[float]:
    """Prefer replicas that hold more of the prompt: the share of its tokens that they hold."""
    return [min(1.0, view.cached / tokens) if tokens else 0.0 for view in views]


def score_idle(views: Sequence[ReplicaView]) -> list[float]:
    """Prefer replicas that were given less work lately: 1 for none, 0 for the most.

    That keeps a load evenly spread that leaves replicas idle, and caches equally old.
    """
    most = max(view.recent for view in views)
    return [1 - view.recent / most if most else 1.0 for view in views]


def score_memory(views: Sequence[ReplicaView]) -> list[float]:
    """Prefer replicas with room in their KV cache: the share that is free."""
    return [1 - view.kv_usage for view in views]


def score_health(views: Sequence[ReplicaView]) -> list[float]:
    """Prefer replicas whose last request went well: 1, else 0."""
    return [1.0 if view.well else 0.0 for view in views]


TIE_WEIGHTS = (4.0, 2.0, 1.0, 1.0, 1.0)
"""Of health, session, prefix, idleness and memory, where costs are equal."""


def pick(costs: Sequence[float], views: Sequence[ReplicaView], indices: Sequence[int], tokens: int) -> int:
    """Return the index of the cheapest replica; among equals of that with the highest sum of scores.

    Args:
        costs: Of the N replicas, seconds.
        views: Of the N replicas.
        indices: Those that the filters left; at least one.
        tokens: Of the prompt.
    """
    least = min([costs[i] for i in indices]) + EQUAL_SECONDS
    equal = [i for i in indices if costs[i] <= least]
    if len(equal) == 1:
        return equal[0]
    among = [views[i] for i in equal]
    scores = zip(
        score_health(among),
        score_session(among),
        score_prefix(among, tokens),
        score_idle(among),
        score_memory(among),
        strict=True,
    )
    sums = [sum(w * s for w, s in zip(TIE_WEIGHTS, row, strict=True)) for row in scores]
    return max(zip(equal, sums, strict=True), key=itemgetter(1))[0]
