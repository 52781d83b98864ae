"""What a policy of eviction would have hit on a trace of requests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal, Protocol

from backends.gsm.order import EvictionOrder
from backends.gsm.traces import GROUP_TOKENS, TracedRequest

Policy = Literal["gsm", "lru", "lfu", "belady"]

_NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of a simulation.

    Attributes:
        requests: Requests of the trace.
        groups: Groups that they asked for.
        hits: Of these, those in an unbroken prefix that was held.
        reused_tokens: Input tokens in these.
        evictions: Groups that were given up for others.
        peak_groups: The most groups that were held at once, over all replicas.
    """

    requests: int
    groups: int
    hits: int
    reused_tokens: int
    evictions: int
    peak_groups: int

    @property
    def hit_rate(self) -> float:
        """Return the share of groups that were hits, in [0, 1]."""
        return self.hits / self.groups if self.groups else 0.0


def simulate(
    requests: Iterable[TracedRequest], *, capacity: int, policy: Policy, replicas: int = 1
) -> Simulated:
    """Serve a trace from caches of groups.

    A request goes to the replica that holds the longest prefix of it, if that is half of it or more, and else
    to the one that was asked for the fewest groups so far. There, after the hits are counted, all of it is
    stored as far as there is room, or room can be made without giving up groups of its own.

    Args:
        requests: In the order in which they came.
        capacity: Groups that a replica has room for, at least 1.
        policy: What makes room. `gsm` is `EvictionOrder`; `lru` and `lfu` give up the leaf that was used the
            longest ago, or the fewest times while it was held; `belady` the leaf whose next use is the
            farthest, known from the future, and may choose among the groups of the request as well: the most
            that any order can reach.
        replicas: Caches of this capacity, at least 1.
    """
    served = list(requests)
    chains = chains_of(served)
    if policy == "belady":
        caches: list[_Cache] = [_Farthest(capacity) for _ in range(replicas)]
    elif policy == "gsm":
        caches = [_Gsm(capacity) for _ in range(replicas)]
    else:
        caches = [_Least(capacity, by_uses=policy == "lfu") for _ in range(replicas)]
    asked = [0] * replicas
    hits = reused = peak = 0
    for request, chain, next_uses in zip(served, chains, _next_uses(chains), strict=True):
        held = [_prefix(cache, chain) for cache in caches]
        replica = max(range(replicas), key=lambda each: (held[each], -asked[each]))
        if 2 * held[replica] < len(chain):
            replica = min(range(replicas), key=lambda each: asked[each])
        asked[replica] += len(chain)
        hits += held[replica]
        reused += min(held[replica] * GROUP_TOKENS, request.input_tokens)
        caches[replica].store(chain, held[replica], next_uses)
        peak = max(peak, sum(len(cache) for cache in caches))
    return Simulated(
        requests=len(served),
        groups=sum(asked),
        hits=hits,
        reused_tokens=reused,
        evictions=sum(cache.evictions for cache in caches),
        peak_groups=peak,
    )


def chains_of(requests: Sequence[TracedRequest]) -> list[list[int]]:
    """Number the groups by their ids and all ids before them, as a chain hash would name them."""
    numbers: dict[tuple[int, int], int] = {}
    chains: list[list[int]] = []
    for request in requests:
        chain: list[int] = []
        number = -1
        for group in request.groups:
            number = numbers.setdefault((number, group), len(numbers))
            chain.append(number)
        chains.append(chain)
    return chains


def _next_uses(chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return, for each group of each request, the number of the request that uses it next."""
    following: dict[int, int] = {}
    rows: list[list[int]] = []
    for number in reversed(range(len(chains))):
        rows.append([following.get(group, _NEVER) for group in chains[number]])
        following.update(dict.fromkeys(chains[number], number))
    rows.reverse()
    return rows


class _Cache(Protocol):
    evictions: int

    def __len__(self) -> int: ...

    def __contains__(self, name: object, /) -> bool: ...

    def store(self, chain: Sequence[int], held: int, next_uses: Sequence[int]) -> None:
        """Store what is missing behind the first `held` groups of a request, and count its use."""
        ...


def _prefix(cache: _Cache, chain: Sequence[int]) -> int:
    for place, name in enumerate(chain):
        if name not in cache:
            return place
    return len(chain)


class _Gsm:
    """Room for groups that `EvictionOrder` shares out."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._order: EvictionOrder[int] = EvictionOrder(capacity)
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, name: object, /) -> bool:
        return name in self._order

    def store(self, chain: Sequence[int], held: int, next_uses: Sequence[int]) -> None:
        del next_uses
        # What a request longer than the whole room leaves over is not stored.
        fitting = min(len(chain), self._capacity)
        short = fitting - held + len(self._order) - self._capacity
        if short > 0:
            evicted = self._order.evict(short, set(chain), 0.0)
            self.evictions += len(evicted or ())
        parent = chain[held - 1] if held else None
        for name in chain[held:fitting]:
            self._order.insert(name, parent, 0.0)
            parent = name
        self._order.use(chain, 0.0)


class _Leaves:
    """Groups in a tree, and its leaves by a key that the policy gives: the least one goes first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.evictions = 0
        self._parents: dict[int, int | None] = {}
        self._children: dict[int, int] = {}
        self._keys: dict[int, tuple[int, ...]] = {}
        self._leaves: list[tuple[tuple[int, ...], int]] = []

    def __len__(self) -> int:
        return len(self._parents)

    def __contains__(self, name: object, /) -> bool:
        return name in self._parents

    def add(self, name: int, parent: int | None) -> None:
        self._parents[name] = parent
        self._children[name] = 0
        if parent is not None:
            self._children[parent] += 1

    def rank(self, name: int, key: tuple[int, ...]) -> None:
        self._keys[name] = key
        if not self._children[name]:
            heappush(self._leaves, (key, name))

    def drop_least(self, protected: Sequence[int] | set[int]) -> bool:
        """Evict the leaf of the least key; False when no leaf may go."""
        kept: list[tuple[tuple[int, ...], int]] = []
        dropped = False
        while self._leaves and not dropped:
            key, name = heappop(self._leaves)
            if self._keys.get(name) != key or self._children[name]:
                continue
            if name in protected:
                kept.append((key, name))
                continue
            self._drop(name)
            dropped = True
        for leaf in kept:
            heappush(self._leaves, leaf)
        return dropped

    def _drop(self, name: int) -> None:
        parent = self._parents.pop(name)
        del self._children[name], self._keys[name]
        self.evictions += 1
        if parent is not None:
            self._children[parent] -= 1
            if not self._children[parent]:
                heappush(self._leaves, (self._keys[parent], parent))


class _Least(_Leaves):
    """LRU, or LFU with LRU among what was used as often."""

    def __init__(self, capacity: int, *, by_uses: bool) -> None:
        super().__init__(capacity)
        self._by_uses = by_uses
        self._uses: dict[int, int] = {}
        self._requests = 0

    def store(self, chain: Sequence[int], held: int, next_uses: Sequence[int]) -> None:
        del next_uses
        protected = set(chain)
        self._requests += 1
        stored = held
        for name in chain[held:]:
            if len(self) >= self.capacity and not self.drop_least(protected):
                break
            self.add(name, chain[stored - 1] if stored else None)
            self._uses[name] = 0
            self.rank(name, (0, 0, 0))
            stored += 1
        for place in range(stored):
            name = chain[place]
            self._uses[name] += 1
            uses = self._uses[name] if self._by_uses else 0
            self.rank(name, (uses, self._requests, -place))


class _Farthest(_Leaves):
    """Belady's optimum among leaves."""

    def store(self, chain: Sequence[int], held: int, next_uses: Sequence[int]) -> None:
        for place in range(held, len(chain)):
            self.add(chain[place], chain[place - 1] if place else None)
        for place, name in enumerate(chain):
            self.rank(name, (-next_uses[place], -place))
        while len(self) > self.capacity:
            self.drop_least(())
