"""Which pages a tier holds, and in which order they go: GSM's order of eviction over the pages of vLLM.

Used by both tiers. Pages are held here by name only; whoever owns an order holds the bytes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from backends.gsm.order import EvictionOrder


@dataclass(slots=True)
class _Page:
    parent: bytes | None
    busy: int


class PageOrder:
    """The pages of a tier.

    A page goes only when no page behind it is held, no transfer uses it, it is not pinned, and its last use
    is at least `min_ttl` seconds ago. Behind a page that is not held in this tier, for it is in another one
    or in the engine, a page begins a sequence of its own.
    """

    def __init__(self, capacity: int, min_ttl: float, clock: Callable[[], float]) -> None:
        self._capacity = capacity
        self._min_ttl = min_ttl
        self._clock = clock
        self._pages: dict[bytes, _Page] = {}
        self._pinned: set[bytes] = set()
        self._followers = Counter[bytes]()
        self._order = EvictionOrder[bytes](capacity, min_ttl=min_ttl)

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pages)

    def __contains__(self, key: object) -> bool:
        return key in self._pages

    @property
    def pinned(self) -> int:
        """How many pages are pinned."""
        return len(self._pinned)

    def add(self, key: bytes, parent: bytes | None, *, busy: bool = False, used: float | None = None) -> None:
        """Hold a new page.

        Args:
            key: Its name.
            parent: The page before it in its sequence, held or not; None for the first.
            busy: Whether a transfer uses it from the start; `release` ends that.
            used: When it was used last, on the clock of this order; now if left out.
        """
        self._pages[key] = _Page(parent, int(busy))
        if parent is not None:
            self._followers[parent] += 1
        self._insert(key, self._clock() if used is None else used)

    def use(self, keys: Iterable[bytes]) -> None:
        """Count one request.

        Args:
            keys: Its pages in the order of the sequence; those that are not held are passed over.
        """
        self._order.use([key for key in keys if key in self._pages], self._clock())

    def discard(self, key: bytes) -> None:
        """Hold a page no longer that was lost; not there is as well. Pages behind it stay."""
        if key not in self._pages:
            return
        self._forget(key)
        self._pinned.discard(key)
        for orphan in reversed(self._order.remove(key)):
            if orphan != key:
                self._insert(orphan, self._clock())

    def hold(self, key: bytes) -> None:
        """Keep a page while a transfer uses it."""
        self._pages[key].busy += 1
        self._order.pin(key)

    def release(self, key: bytes) -> None:
        """End one `hold`; a page that was lost in between has none."""
        page = self._pages.get(key)
        if page is not None and page.busy:
            page.busy -= 1
            self._order.unpin(key)

    def pin(self, keys: Iterable[bytes]) -> None:
        """Never evict these pages until `unpin`; those that are not held are passed over."""
        for key in keys:
            if key in self._pages and key not in self._pinned:
                self._pinned.add(key)
                self._order.pin(key)

    def unpin(self, keys: Iterable[bytes]) -> None:
        """Let these pages go again; those that are not pinned are passed over."""
        for key in self._pinned.intersection(keys):
            self._pinned.remove(key)
            self._order.unpin(key)

    def is_followed(self, key: bytes) -> bool:
        """Say whether a page behind this one is held."""
        return self._followers[key] > 0

    def is_pinned(self, key: bytes) -> bool:
        """Say whether a page is pinned."""
        return key in self._pinned

    def evict(self, most: int, protected: Collection[bytes] = ()) -> list[bytes]:
        """Give up pages, as many as may go up to `most`, but none of `protected` (a set, or the like)."""
        gone: list[bytes] = []
        while len(gone) < most and (page := self._order.evict(1, protected, self._clock())):
            self._forget(page[0])
            gone += page
        return gone

    def clear(self) -> None:
        """Hold nothing, pins included."""
        self._pages.clear()
        self._pinned.clear()
        self._followers.clear()
        self._order = EvictionOrder[bytes](self._capacity, min_ttl=self._min_ttl)

    def _forget(self, key: bytes) -> None:
        parent = self._pages.pop(key).parent
        if parent is not None:
            self._followers[parent] -= 1
            if not self._followers[parent]:
                del self._followers[parent]

    def _insert(self, key: bytes, used: float) -> None:
        page = self._pages[key]
        self._order.insert(key, page.parent if page.parent in self._pages else None, used)
        for _ in range(page.busy + (key in self._pinned)):
            self._order.pin(key)
