"""In which order groups are given up when room is short. It knows names only, not where bytes live.

Whoever owns the bytes tells the order of every group that it stores (`insert`) and once of every request
(`use`), and asks it which groups to give up (`evict`). Only leaves are given up, so a group that is held
always has all groups before it. Among leaves the one of least worth goes first: see `worth.py`.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from typing import Generic, TypeVar

from backends.gsm.errors import GroupUnknown
from backends.gsm.worth import AGES, ReturnTimes, age_bin, bin_end

Name = TypeVar("Name", bound=Hashable)

_MOST_USES = 6
_ENDS = 3
_KINDS = _MOST_USES * _ENDS
_GHOSTS = 4
_WATCHED = 8192
_LEARN_EVERY = 50
_NEGLIGIBLE = 0.01


def _kind(uses: int, to_end: int) -> int:
    """Groups of one kind were used as often, and stood as near to the end of their last request."""
    return (min(max(uses, 1), _MOST_USES) - 1) * _ENDS + min(to_end, _ENDS - 1)


class _Group(Generic[Name]):
    """A group that is held."""

    __slots__ = ("at", "children", "kind", "name", "parent", "pins", "queue", "seen", "uses")

    def __init__(self, name: Name, parent: "_Group[Name] | None", uses: int, at: int, seen: float) -> None:
        self.name = name
        self.parent = parent
        self.children: set[_Group[Name]] | None = None
        self.uses = uses
        self.at = at
        self.seen = seen
        self.kind = 0
        self.pins = 0
        self.queue: OrderedDict[_Group[Name], None] | None = None


class EvictionOrder(Generic[Name]):
    """The order of eviction of GSM.

    Names may be anything that hashes. Times are seconds of a clock of the caller's that never goes back.
    """

    def __init__(self, capacity: int, *, min_ttl: float = 0.0) -> None:
        """Begin with nothing held.

        Args:
            capacity: Groups that the owner has room for. The order does not hold it to that: it remembers as
                many names of evicted groups as four times this.
            min_ttl: Seconds after its use within which a group is not evicted.
        """
        self._min_ttl = min_ttl
        self._groups: dict[Name, _Group[Name]] = {}
        # Leaves that may go, by kind and age; the least recently used of each first.
        self._queues: list[list[OrderedDict[_Group[Name], None]]] = [
            [OrderedDict() for _ in range(AGES)] for _ in range(_KINDS)
        ]
        self._uses_of_evicted: OrderedDict[Name, int] = OrderedDict()
        self._capacity = capacity
        self._requests = 0
        self._watch = _Watch[Name]()
        self._by_worth: list[list[OrderedDict[_Group[Name], None]]] = []
        self._rank = [[0] * AGES for _ in range(_KINDS)]
        self._learn()

    def __len__(self) -> int:
        """Return how many groups are held."""
        return len(self._groups)

    def __contains__(self, name: object) -> bool:
        """Say whether a group is held."""
        return name in self._groups

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
        # From the end, so that of groups used together the deepest is the least recently used.
        for place in range(last, -1, -1):
            group = self._groups.get(names[place])
            if group is None:
                continue
            group.uses += 1
            group.at = self._requests
            group.seen = now
            group.kind = _kind(group.uses, last - place)
            self._watch.see(group.name, group.kind, self._requests, new=group.uses == 1)
            if group.queue is not None:
                self._pull(group)
                self._push(group)
        self._grow_old()
        if self._requests % _LEARN_EVERY == 0:
            self._watch.fade()
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
            self._pull(above)
        self._push(group)

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
        before = now - self._min_ttl
        place = 0
        while len(evicted) < n and place < len(self._by_worth):
            group = self._oldest(self._by_worth[place], protected, before)
            if group is None:
                place += 1
                continue
            self._take(group)
            evicted.append(group)
            above = group.parent
            if above is not None and above.queue is not None:
                place = min(place, self._rank[above.kind][age_bin(self._requests - above.at)])
        if len(evicted) < n:
            for group in reversed(evicted):
                self._put_back(group)
            return None
        for group in evicted:
            self._uses_of_evicted[group.name] = group.uses
        while len(self._uses_of_evicted) > _GHOSTS * self._capacity:
            self._uses_of_evicted.popitem(last=False)
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
        self._pull(group)

    def unpin(self, name: Name) -> None:
        """Take one pin off a group; nothing happens when it is not held."""
        group = self._groups.get(name)
        if group is None or group.pins == 0:
            return
        group.pins -= 1
        self._push(group)

    def _held(self, name: Name) -> _Group[Name]:
        group = self._groups.get(name)
        if group is None:
            raise GroupUnknown(f"group {name!r} is not held")
        return group

    def _oldest(
        self, queues: Sequence[OrderedDict[_Group[Name], None]], protected: Collection[Name], before: float
    ) -> _Group[Name] | None:
        """Return the least recently used that may go, of several queues."""
        oldest: _Group[Name] | None = None
        for queue in queues:
            for group in queue:
                if group.seen <= before and group.name not in protected:
                    if oldest is None or group.at < oldest.at:
                        oldest = group
                    break
        return oldest

    def _take(self, group: _Group[Name]) -> None:
        """Take out a leaf. The group before it may become one."""
        self._pull(group)
        del self._groups[group.name]
        above = group.parent
        if above is not None and above.children is not None:
            above.children.discard(group)
            # In front: what is left of a sequence that is being given up goes on before another is begun.
            self._push(above, first=True)

    def _put_back(self, group: _Group[Name]) -> None:
        self._groups[group.name] = group
        above = group.parent
        if above is not None and above.children is not None:
            above.children.add(group)
            self._pull(above)
        self._push(group, first=True)

    def _push(self, group: _Group[Name], *, first: bool = False) -> None:
        """Queue a group if it may go."""
        if group.children or group.pins:
            return
        group.queue = self._queues[group.kind][age_bin(self._requests - group.at)]
        group.queue[group] = None
        if first:
            group.queue.move_to_end(group, last=False)

    def _pull(self, group: _Group[Name]) -> None:
        if group.queue is not None:
            del group.queue[group]
            group.queue = None

    def _grow_old(self) -> None:
        """Move groups on to the queue of their age."""
        for queues in self._queues:
            for age, queue in enumerate(queues):
                end = self._requests - bin_end(age)
                while queue:
                    group = next(iter(queue))
                    if group.at > end:
                        break
                    self._pull(group)
                    self._push(group)

    def _learn(self) -> None:
        """Put the queues in order, those of least worth first; queues that are worth the same stand together."""
        if self._watch.lru_suffices(self._capacity, self._requests):
            places = [[(kind, age) for kind in range(_KINDS)] for age in reversed(range(AGES))]
        else:
            worth = self._watch.worth(self._requests)
            pairs = [(kind, age) for kind in range(_KINDS) for age in range(AGES)]
            places = [[pair] for pair in sorted(pairs, key=lambda pair: worth[pair[0]][pair[1]])]
        self._by_worth = [[self._queues[kind][age] for kind, age in place] for place in places]
        for number, place in enumerate(places):
            for kind, age in place:
                self._rank[kind][age] = number


class _Watch(Generic[Name]):
    """A sample of groups that are watched, held or not, for when they are used again. Bounded."""

    def __init__(self) -> None:
        self._last_use: dict[Name, tuple[int, int]] = {}
        self._times = ReturnTimes(_MOST_USES, _ENDS)
        self._every = 1
        self._passed = 0

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

    def lru_suffices(self, capacity: int, request: int) -> bool:
        """Say whether LRU would lose next to nothing with this room.

        LRU keeps what is younger than the age at which the groups used since fill the room. As long as uses beyond
        that age are rare, or have not been seen yet, no order can do much better, and a learned one may do worse.
        """
        ages = sorted(request - at for _, at in self._last_use.values())
        room = capacity // self._every
        return room >= len(ages) or self._times.share_older(ages[room]) < _NEGLIGIBLE

    def worth(self, request: int) -> list[list[float]]:
        """Return the worth of each kind at each age, as known by now."""
        return self._times.worth((kind, request - at) for kind, at in self._last_use.values())

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
