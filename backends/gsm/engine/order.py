"""In which order pages go: leaves before their parents, the least recently used first.

Used by both tiers. Pages are held here by name only; whoever owns the order holds the bytes.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(slots=True)
class _Page:
    parent: bytes | None
    group: int
    used: float
    rank: int
    busy: int = 0


class PageOrder:
    """The pages of a tier and the order of their eviction.

    A page is evicted only when no page behind it is held, no transfer uses it, it is not pinned, and its last
    use is at least `min_ttl` seconds ago.
    """

    def __init__(self, min_ttl: float, clock: Callable[[], float]) -> None:
        self.pinned: set[bytes] = set()
        self._min_ttl = min_ttl
        self._clock = clock
        self._pages: dict[bytes, _Page] = {}
        # Counted for parents that are not held, too: a page may come back from disk before the one before it.
        self._children: dict[bytes, int] = {}
        self._heap: list[tuple[int, bytes]] = []
        self._next_rank = 0

    def __len__(self) -> int:
        return len(self._pages)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pages)

    def __contains__(self, key: bytes) -> bool:
        return key in self._pages

    def add(
        self, key: bytes, parent: bytes | None, group: int, *, busy: bool = False, used: float | None = None
    ) -> None:
        """Hold a new page.

        Args:
            key: Its name.
            parent: The page before it in its sequence, held or not; None for the first.
            group: The number of its GSM group in the sequence.
            busy: Whether a transfer uses it from the start; `release` ends that.
            used: When it was used last, on the clock of this order; now if left out.
        """
        self._next_rank += 1
        used = self._clock() if used is None else used
        self._pages[key] = _Page(parent, group, used, self._next_rank, busy=int(busy))
        if parent is not None:
            self._children[parent] = self._children.get(parent, 0) + 1
        self._offer(key)

    def discard(self, key: bytes) -> None:
        """Hold a page no longer; not there is as well."""
        page = self._pages.pop(key, None)
        if page is not None:
            self._leave(page.parent)

    def touch(self, keys: Iterable[bytes]) -> None:
        """Note a use of pages, given in the order of the sequence."""
        now = self._clock()
        for key in reversed(list(keys)):  # what is nearer to the root is the more recent
            if (page := self._pages.get(key)) is not None:
                self._next_rank += 1
                page.used, page.rank = now, self._next_rank
                self._offer(key)
        self._compact()

    def hold(self, key: bytes) -> None:
        """Keep a page while a transfer uses it."""
        self._pages[key].busy += 1

    def release(self, key: bytes) -> None:
        """End one `hold`; a page that went in between is none."""
        if (page := self._pages.get(key)) is not None:
            page.busy -= 1
            self._offer(key)

    def pin(self, keys: Iterable[bytes]) -> None:
        """Never evict these pages, held or not yet, until `unpin`."""
        self.pinned.update(keys)

    def unpin(self, keys: Iterable[bytes]) -> None:
        """Let these pages go again."""
        for key in keys:
            self.pinned.discard(key)
            if key in self._pages:
                self._offer(key)

    def clear(self) -> None:
        """Hold nothing, pins included."""
        self._pages.clear()
        self._children.clear()
        self._heap.clear()
        self.pinned.clear()

    def evict(self, count: int, protected: AbstractSet[bytes] = frozenset()) -> list[bytes]:
        """Give up pages.

        The last group that is cut into goes whole as far as it can: its head alone would seldom be used.

        Args:
            count: How many to give up, at least.
            protected: Pages that stay.

        Returns:
            The pages given up, in that order; fewer than `count` when no others may go.
        """
        horizon = self._clock() - self._min_ttl
        gone: list[bytes] = []
        put_off: list[tuple[int, bytes]] = []
        last: _Page | None = None
        while len(gone) < count and self._heap:
            rank, key = heapq.heappop(self._heap)
            page = self._pages.get(key)
            if page is None or page.rank != rank or not self._is_leaf(key, page):
                continue  # an old entry; the page has another, or will have when it can go
            if page.used > horizon:
                put_off.append((rank, key))
                break  # the others were used even later
            if key in protected:
                put_off.append((rank, key))
                continue
            self._remove(key, page, gone)
            last = page
        while last is not None and (parent := last.parent) is not None:
            page = self._pages.get(parent)
            if (
                page is None
                or page.group != last.group
                or parent in protected
                or page.used > horizon
                or not self._is_leaf(parent, page)
            ):
                break
            self._remove(parent, page, gone)
            last = page
        for entry in put_off:
            heapq.heappush(self._heap, entry)
        return gone

    def _remove(self, key: bytes, page: _Page, gone: list[bytes]) -> None:
        del self._pages[key]
        self._leave(page.parent)
        gone.append(key)

    def _leave(self, parent: bytes | None) -> None:
        if parent is None:
            return
        left = self._children[parent] - 1
        if left:
            self._children[parent] = left
            return
        del self._children[parent]
        if parent in self._pages:
            self._offer(parent)

    def _is_leaf(self, key: bytes, page: _Page) -> bool:
        return not page.busy and key not in self._children and key not in self.pinned

    def _offer(self, key: bytes) -> None:
        page = self._pages[key]
        if self._is_leaf(key, page):
            heapq.heappush(self._heap, (page.rank, key))

    def _compact(self) -> None:
        if len(self._heap) > 64 + 4 * len(self._pages):
            self._heap = [(page.rank, key) for key, page in self._pages.items() if self._is_leaf(key, page)]
            heapq.heapify(self._heap)
