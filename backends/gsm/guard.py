"""What plain LRU would have hit, counted beside an order that departs from it, and whether departing pays."""

from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

_DEVIATIONS = 2.0
_SHORTEST_PAUSE = 2
_LONGEST_PAUSE = 32
_REQUESTS = 32


class LruGuard(Generic[Name]):
    """Says when to go back to LRU.

    LRU (leaves first) holds the names used last, as many as there is room for; no bytes are needed to know
    what it would have hit. The lead over it is counted from request to request. The lead of an order that
    departs from LRU to no use wanders; of one that does harm it falls. When it has fallen below its peak by
    more than two standard deviations of such a wandering (of the differences since the peak, and of one
    request of usual size), departing is paused: until twice the room was asked for where the attempt had
    gained something, else for twice as long as the last time, up to 32 times the room. (A room of fewer than
    32 requests counts as one of 32 here.)

    So an attempt at departing by which each request loses about the same ends after about five requests.
    """

    def __init__(self, room: int) -> None:
        """Begin with nothing seen.

        Args:
            room: Groups that LRU would have room for.
        """
        self._room = room
        self._recent: OrderedDict[Name, None] = OrderedDict()
        self._requests = 0
        self._asked = 0  # groups
        self._squares = 0  # of groups a request
        self.lead = 0
        """Groups that were hit more than LRU would have."""
        self._lead_at_start = 0  # of this attempt
        self._peak = 0
        self._scatter = 0  # squares of differences since the peak
        self._pause = _SHORTEST_PAUSE
        self._paused_until: int | None = None

    def __len__(self) -> int:
        """Return how many names are kept."""
        return len(self._recent)

    @property
    def departs(self) -> bool:
        """Say whether an order may depart from LRU."""
        return self._paused_until is None

    def count(self, used: Collection[Name], hits: int) -> None:
        """Count one request.

        Args:
            used: The groups of it that are held now, the deepest first.
            hits: How many of them were held when it came.
        """
        difference = hits - sum(name in self._recent for name in used)
        for name in used:
            self._recent[name] = None
            self._recent.move_to_end(name)
        while len(self._recent) > self._room:
            self._recent.popitem(last=False)
        self._requests += 1
        self._asked += len(used)
        self._squares += len(used) ** 2
        self.lead += difference
        self._scatter += difference**2
        self._judge()

    def _judge(self) -> None:
        if self._paused_until is not None:
            if self._asked >= self._paused_until:
                self._paused_until = None
                self._lead_at_start = self._peak = self.lead
                self._scatter = 0
        elif self.lead >= self._peak:
            self._peak = self.lead
            self._scatter = 0
        elif self._peak - self.lead > _DEVIATIONS * self._deviation():
            gained = self.lead > self._lead_at_start
            self._pause = _SHORTEST_PAUSE if gained else min(2 * self._pause, _LONGEST_PAUSE)
            # A room of few requests is filled in no time, and attempts would follow on each other.
            self._paused_until = self._asked + self._pause * max(self._room, self._groups_of(_REQUESTS))

    def _groups_of(self, requests: int) -> int:
        return requests * self._asked // self._requests

    def _deviation(self) -> float:
        return (self._scatter + self._squares / self._requests) ** 0.5
