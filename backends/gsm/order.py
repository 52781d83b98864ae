"""In which order groups are given up when room is short. It knows names only, not where bytes live.

Whoever owns the bytes tells the order of every group that it stores (`insert`) and once of every request
(`use`), and asks it which groups to give up (`evict`). Only leaves are given up, so a group that is held
always has all groups before it. Among leaves the one of least worth goes first: see `worth.py`. Where LRU
hits more, the order is LRU: see `guard.py`.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

from backends.gsm.errors import GroupUnknown
from backends.gsm.guard import LruGuard
from backends.gsm.worth import AGES, BIN_ENDS, ReturnTimes, age_bin

Name = TypeVar("Name", bound=Hashable)

_MOST_USES = 6
_ENDS = 3
_KINDS = _MOST_USES * _ENDS
_QUEUES = _KINDS * AGES
_QUEUE_ENDS = BIN_ENDS * _KINDS
_GHOSTS = 4
_WATCHED = 8192
_LEARN_EVERY = 50
_TOO_FEW = 20


def _kind(uses: int, to_end: int) -> int:
    """Groups of one kind were used as often, and stood as near to the end of their last request."""
    return (min(max(uses, 1), _MOST_USES) - 1) * _ENDS + min(to_end, _ENDS - 1)


class _Group(Generic[Name]):
    """A group that is held."""

    __slots__ = ("at", "children", "depth", "kind", "name", "new", "parent", "pins", "seen", "ticket", "uses")

    def __init__(self, name: Name, parent: "_Group[Name] | None", uses: int, at: int, seen: float) -> None:
        self.name = name
        self.parent = parent
        self.children: set[_Group[Name]] | None = None
        self.uses = uses
        self.at = at
        self.seen = seen
        self.kind = 0
        self.new = True  # until its first use since it is held
        self.pins = 0
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.ticket = 0  # of its entry in a queue; 0 for what may not go


# When a group was last used, in requests and in seconds, its depth below zero, and its ticket: the least
# recently used first, and of groups used together the deepest. An entry whose ticket is not its group's any
# more counts for nothing.
_Entry = tuple[int, float, int, int, _Group[Name]]
_Queue = list[_Entry[Name]]


class EvictionOrder(Generic[Name]):
    """The order of eviction of GSM.

    Names may be anything that hashes. Times are seconds of a clock of the caller's that never goes back.
    """

    def __init__(self, capacity: int, *, min_ttl: float = 0.0) -> None:
        """Begin with nothing held.

        Args:
            capacity: Groups that the owner has room for. The order does not hold it to that: it remembers as
                many names of evicted groups as four times this, and as many as this of those used last.
            min_ttl: Seconds after its use within which a group is not evicted.
        """
        self._min_ttl = min_ttl
        self._groups: dict[Name, _Group[Name]] = {}
        # Leaves that may go, by kind and age, AGES to a kind; each queue is a heap.
        self._queues: list[_Queue[Name]] = [[] for _ in range(_QUEUES)]
        self._tickets = 0
        self._uses_of_evicted: OrderedDict[Name, int] = OrderedDict()
        self._capacity = capacity
        self._requests = 0
        self._watch = _Watch[Name]()
        self._guard = LruGuard[Name](capacity)
        # Queues by worth, those of the same worth at one place; the place of each queue; a heap of the places
        # that may have an entry, and whether a place is in it.
        self._by_worth: list[list[_Queue[Name]]] = []
        self._places = [0] * _QUEUES
        self._filled: list[int] = []
        self._is_filled: list[bool] = []
        self._learn()

    def __len__(self) -> int:
        """Return how many groups are held."""
        return len(self._groups)

    def __contains__(self, name: object) -> bool:
        """Say whether a group is held."""
        return name in self._groups

    @property
    def remembered(self) -> int:
        """Return how many names are kept of groups that need not be held."""
        return len(self._uses_of_evicted) + len(self._watch) + len(self._guard)

    def use(self, names: Sequence[Name], now: float) -> None:
        """Count one request.

        To be called once a request, after what it stored was inserted. Groups that are not held are passed
        over.

        Args:
            names: All groups of the request in the order of the sequence, from its first on.
            now: The time.
        """
        self._requests += 1
        last = len(names) - 1
        used: list[Name] = []
        hits = 0
        # From the end, so that of groups used together the deepest is the least recently used.
        for place in range(last, -1, -1):
            group = self._groups.get(names[place])
            if group is None:
                continue
            used.append(group.name)
            hits += not group.new
            group.new = False
            group.uses += 1
            group.at = self._requests
            group.seen = now
            group.kind = _kind(group.uses, last - place)
            self._watch.see(group.name, group.kind, self._requests, new=group.uses == 1)
            if group.ticket:
                self._queue(group)
        self._grow_old()
        departed = self._guard.departs
        self._guard.count(used, hits)
        due = self._requests % _LEARN_EVERY == 0
        if due:
            self._watch.fade()
        if due or self._guard.departs != departed:
            self._learn()

    def insert(self, name: Name, parent: Name | None, now: float) -> None:
        """Hold a group. It counts as used only once `use` names it.

        Args:
            name: The group; it is not held.
            parent: The group before it; None for the first of a sequence.
            now: The time.

        Raises:
            GroupUnknown: `parent` is not held: the group would stand behind a hole.
        """
        above = None if parent is None else self._held(parent)
        if name in self._groups:
            raise ValueError(f"group {name!r} is held")
        group = _Group(name, above, self._uses_of_evicted.pop(name, 0), self._requests, now)
        group.kind = _kind(group.uses, _ENDS)
        self._groups[name] = group
        if above is not None:
            if above.children is None:
                above.children = set()
            above.children.add(group)
            above.ticket = 0
        self._queue(group)

    def evict(self, n: int, protected: Collection[Name], now: float) -> list[Name] | None:
        """Give up `n` groups, or none.

        Args:
            n: How many.
            protected: Groups that stay; a set, when there are many.
            now: The time.

        Returns:
            The names, each before those of the groups in front of it; None when fewer than `n` may go, and
            then nothing has changed.
        """
        evicted: list[_Group[Name]] = []
        kept: list[_Group[Name]] = []
        too_young: list[int] = []
        before = now - self._min_ttl
        while len(evicted) < n and self._filled:
            place = self._filled[0]
            group = self._oldest(self._by_worth[place])
            if group is None:
                heappop(self._filled)
                self._is_filled[place] = False
            elif group.seen > before:
                too_young.append(heappop(self._filled))
            elif group.name in protected:
                group.ticket = 0
                kept.append(group)
            else:
                self._take(group)
                evicted.append(group)
        for place in too_young:
            heappush(self._filled, place)
        for group in kept:
            self._queue(group)
        if len(evicted) < n:
            for group in reversed(evicted):
                self._put_back(group)
            return None
        self._remember(evicted)
        return [group.name for group in evicted]

    def remove(self, name: Name) -> list[Name]:
        """Take out a group that was lost, with all that stand behind it, pinned or not.

        Returns:
            The names taken out, each before those of the groups in front of it; none when it is not held.
        """
        group = self._groups.get(name)
        if group is None:
            return []
        below = [group]
        for each in below:  # grows while it is walked
            below.extend(each.children or ())
        below.reverse()
        for each in below:
            self._take(each)
        return [each.name for each in below]

    def pin(self, name: Name) -> None:
        """Keep a group, and so all before it, from eviction, until `unpin` was called as often.

        Raises:
            GroupUnknown: It is not held.
        """
        group = self._held(name)
        group.pins += 1
        group.ticket = 0

    def unpin(self, name: Name) -> None:
        """Take one pin off a group; nothing happens when it is not held."""
        group = self._groups.get(name)
        if group is None or group.pins == 0:
            return
        group.pins -= 1
        self._queue(group)

    def _held(self, name: Name) -> _Group[Name]:
        group = self._groups.get(name)
        if group is None:
            raise GroupUnknown(f"group {name!r} is not held")
        return group

    def _oldest(self, queues: Sequence[_Queue[Name]]) -> _Group[Name] | None:
        """Return the least recently used of several queues."""
        oldest: _Entry[Name] | None = None
        for queue in queues:
            while queue and queue[0][4].ticket != queue[0][3]:
                heappop(queue)
            if queue and (oldest is None or queue[0] < oldest):
                oldest = queue[0]
        return None if oldest is None else oldest[4]

    def _take(self, group: _Group[Name]) -> None:
        """Take out a leaf. The group before it may become one."""
        group.ticket = 0
        del self._groups[group.name]
        above = group.parent
        if above is not None and above.children is not None:
            above.children.discard(group)
            self._queue(above)

    def _put_back(self, group: _Group[Name]) -> None:
        self._groups[group.name] = group
        above = group.parent
        if above is not None and above.children is not None:
            above.children.add(group)
            above.ticket = 0
        self._queue(group)

    def _remember(self, evicted: Sequence[_Group[Name]]) -> None:
        for group in evicted:
            self._uses_of_evicted[group.name] = group.uses
        while len(self._uses_of_evicted) > _GHOSTS * self._capacity:
            self._uses_of_evicted.popitem(last=False)

    def _queue(self, group: _Group[Name]) -> None:
        """Queue a group if it may go; an older entry of it is void from here on."""
        if group.children or group.pins:
            return
        self._tickets += 1
        group.ticket = self._tickets
        number = group.kind * AGES + age_bin(self._requests - group.at)
        heappush(self._queues[number], (group.at, group.seen, -group.depth, group.ticket, group))
        place = self._places[number]
        if not self._is_filled[place]:
            self._is_filled[place] = True
            heappush(self._filled, place)

    def _grow_old(self) -> None:
        """Move groups on to the queue of their age, and drop void entries on the way."""
        requests = self._requests
        for queue, end in zip(self._queues, _QUEUE_ENDS, strict=True):
            while queue and queue[0][0] <= requests - end:
                _, _, _, ticket, group = heappop(queue)
                if group.ticket == ticket:
                    self._queue(group)

    def _learn(self) -> None:
        """Put the queues in order, those of least worth first; those worth the same stand together."""
        worth = self._watch.worth(self._capacity, self._requests) if self._guard.departs else None
        if worth is None:
            order = [list(range(age, _QUEUES, AGES)) for age in reversed(range(AGES))]
        else:
            flat = [each for row in worth for each in row]
            order = [[number] for number in sorted(range(_QUEUES), key=flat.__getitem__)]
        self._by_worth = [[self._queues[number] for number in numbers] for numbers in order]
        for place, numbers in enumerate(order):
            for number in numbers:
                self._places[number] = place
        self._is_filled = [any(queues) for queues in self._by_worth]
        self._filled = [
            place for place, filled in enumerate(self._is_filled) if filled
        ]  # in order, so a heap


class _Watch(Generic[Name]):
    """A sample of groups that are watched, held or not, for when they are used again. Bounded."""

    def __init__(self) -> None:
        self._last_use: dict[Name, tuple[int, int]] = {}
        self._times = ReturnTimes(_MOST_USES, _ENDS)
        self._every = 1
        self._passed = 0

    def __len__(self) -> int:
        return len(self._last_use)

    def see(self, name: Name, kind: int, request: int, *, new: bool) -> None:
        """Note a use; one in `_every` of the new groups is watched from then on."""
        before = self._last_use.get(name)
        if before is not None:
            self._times.add_use(before[0], request - before[1])
            self._last_use[name] = (kind, request)
        elif new:
            self._passed += 1
            if self._passed >= self._every:
                self._passed = 0
                self._last_use[name] = (kind, request)
                self._thin_out(request)

    def worth(self, capacity: int, request: int) -> list[list[float]] | None:
        """Return the worth of each kind at each age; None where LRU is as good.

        LRU keeps what is younger than the age at which the groups used since fill the room. As long as next
        to no uses have been seen beyond that age, there is nothing to be won, and nothing to learn from.
        """
        waiting = Counter(self._last_use.values())
        youngest_first = sorted(((request - at, count) for (_, at), count in waiting.items()))
        room = capacity / self._every
        for age, count in youngest_first:
            room -= count
            if room < 0:
                if self._times.uses_older(age) < _TOO_FEW:
                    return None
                return self._times.worth((kind, request - at, many) for (kind, at), many in waiting.items())
        return None

    def fade(self) -> None:
        """Let what was seen weigh less than what will be."""
        self._times.fade()

    def _thin_out(self, request: int) -> None:
        if len(self._last_use) <= _WATCHED:
            return
        self._every *= 2
        for name in list(self._last_use)[::2]:
            kind, at = self._last_use.pop(name)
            self._times.add_loss(kind, request - at)
