"""The decision for the replicas of one model: the counts that it rests on, and the line through its steps."""

import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from backends.placement.choosing import pick, with_memory, with_room
from backends.placement.cost import costs, expected_ttft, reading_seconds
from backends.placement.demand import MEMORY_SECONDS, Demand
from backends.placement.types import Choice, ReplicaView

MOST_BRANCHES = 16384
"""Prefixes of which it is known how often requests went on from them; the longest unused is forgotten."""


class Branches:
    """How often requests went on from a prefix lately: often from a system prompt, once from a turn."""

    def __init__(self) -> None:
        self._uses: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def uses(self, name: Hashable | None, now: float) -> float:
        """Return how often requests went on from the prefix that ends with this group; fades with time."""
        found = self._uses.get(name)
        return 0.0 if found is None else found[0] * math.exp((found[1] - now) / MEMORY_SECONDS)

    def add(self, name: Hashable, now: float) -> None:
        """Count one that does."""
        self._uses[name] = self.uses(name, now) + 1, now
        self._uses.move_to_end(name)
        if len(self._uses) > MOST_BRANCHES:
            self._uses.popitem(last=False)


class Placer:
    """Chooses among the replicas of one model. `choose` changes nothing; what is done is told to `placed`."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self.demand = Demand()
        self._branches = Branches()

    def choose(
        self,
        views: Sequence[ReplicaView],
        tokens: int,
        *,
        now: float,
        branch: Hashable | None = None,
        slots: Sequence[int | None] | None = None,
    ) -> Choice:
        """Choose a replica.

        Args:
            views: The N replicas that take requests; at least one.
            tokens: Of the prompt.
            now: Seconds.
            branch: The deepest group of the prompt that any replica holds; None when none holds any.
            slots: The most requests that each replica takes at once; None where it is not known.
        """
        self.demand.age(now)
        if len(views) == 1:  # nothing to weigh
            return _choice(0, views, reading_seconds(views, tokens)[0], tokens, _state(views[0], tokens))
        crowding = self.demand.crowding(len(views))
        reuse = 1 + self._branches.uses(branch, now) / len(views)
        works = reading_seconds(views, tokens)
        weighed = costs(views, works, crowding=crowding, reuse=reuse)
        left = range(len(views))
        if slots is not None and any(slots):
            left = with_room([view.running for view in views], slots)
        index = pick(weighed, views, with_memory(views, left), tokens)
        return _choice(index, views, works[index], tokens, _why(weighed, index, views[index], tokens))

    def placed(self, replica: str, work: float, *, now: float, branch: Hashable | None = None) -> None:
        """Note that a request went to a replica, on which it is `work` seconds of reading."""
        self.demand.age(now)
        self.demand.add(replica, work)
        if branch is not None:
            self._branches.add(branch, now)


def _choice(index: int, views: Sequence[ReplicaView], work: float, tokens: int, reason: str) -> Choice:
    chosen = views[index]
    cached = min(tokens, chosen.cached)
    return Choice(index, expected_ttft(chosen, work), cached, tokens - cached, work, len(views), reason)


def _why(weighed: Sequence[float], index: int, chosen: ReplicaView, tokens: int) -> str:
    following = min([cost for i, cost in enumerate(weighed) if i != index])
    return f"{_state(chosen, tokens)}, cost {weighed[index]:.2f} s, next {following:.2f} s"


def _state(chosen: ReplicaView, tokens: int) -> str:
    return f"placement:holds {min(tokens, chosen.cached)} of {tokens} tokens, queue {chosen.queue:.2f} s"
