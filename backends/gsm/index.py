"""Which replica holds which groups: a compressed prefix tree a replica, bounded in bytes.

A node of the tree is a run of groups that came together, as one string of their fingerprints, the first 8
bytes of each name. That is enough to place requests by; whoever loads a group compares its whole name. Runs
are split where sequences part. Names have to be chain hashes (`naming.py`): an equal fingerprint stands for
an equal prefix.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from sys import getsizeof
from typing import NamedTuple

FINGERPRINT_BYTES = 8

_OVERHEAD = 4096
"""Bytes that a shard takes when it is empty: its own attributes, its statistics, its root."""


@dataclass(slots=True)
class IndexStatistics:
    """What a shard has seen since it was made. Groups, unless said otherwise.

    Attributes:
        asked: Whole groups of the requests that were looked up.
        hits: Of these, those held in an unbroken prefix.
        peak_bytes: The most bytes the shard has taken.
        evicted: Taken out, by cause: `bytes` for room, `engine` as told by the engine, `cleared` with all
            others.
        refused: Not taken in, by cause: `bytes` when no room could be made, `max_groups` beyond the most of a
            sequence.
    """

    asked: int = 0
    hits: int = 0
    peak_bytes: int = 0
    evicted: dict[str, int] = field(default_factory=lambda: {"bytes": 0, "engine": 0, "cleared": 0})
    refused: dict[str, int] = field(default_factory=lambda: {"bytes": 0, "max_groups": 0})

    @property
    def hit_rate(self) -> float:
        """Return the share of groups asked for that were hits, in [0, 1]."""
        return self.hits / self.asked if self.asked else 0.0

    def reused_tokens(self, group_size: int) -> int:
        """Return the tokens in all hits."""
        return self.hits * group_size


class _Run:
    """Groups one behind the other, without a branch between them."""

    __slots__ = ("children", "newer", "older", "parent", "prints", "seen")

    def __init__(self, prints: bytes, seen: float) -> None:
        self.prints = prints
        self.parent = self  # the root stays its own
        self.seen = seen
        self.children: list[_Run] | None = None  # by their fingerprints
        self.older = self
        self.newer = self

    def child(self, first: bytes) -> "_Run | None":
        if self.children is None:
            return None
        place = bisect_left(self.children, first, key=_prints_of)
        child = self.children[place] if place < len(self.children) else None
        return child if child is not None and child.prints.startswith(first) else None

    def adopt(self, child: "_Run") -> None:
        child.parent = self
        if self.children is None:
            self.children = [child]
        else:
            insort(self.children, child, key=_prints_of)

    def disown(self, child: "_Run") -> None:
        if self.children is None or len(self.children) == 1:
            self.children = None
        else:
            del self.children[bisect_left(self.children, child.prints, key=_prints_of)]

    def weight(self) -> int:
        """Return the bytes it takes."""
        weight = _NODE + _allocated(getsizeof(self.prints))
        return weight if self.children is None else weight + _allocated(getsizeof(self.children))


def _allocated(size: int) -> int:
    """Return what Python's allocator gives for a request of this size: multiples of 16 bytes."""
    return (size + 15) // 16 * 16


_prints_of = attrgetter("prints")
_NODE = _allocated(getsizeof(_Run(b"", 0.0))) + _allocated(getsizeof(0.0)) + _allocated(getsizeof(b""))
_PIN = _allocated(getsizeof(bytes(FINGERPRINT_BYTES))) + 256
"""An entry of a dictionary: 8 bytes of key, and what the table sets aside when it grows."""


class Shard:
    """The groups of one replica."""

    def __init__(self, max_bytes: int, *, max_groups: int = 64, min_ttl: float = 2.0) -> None:
        """Begin with nothing held.

        Args:
            max_bytes: Never taken more than, at least 8 KiB.
            max_groups: The most groups held of one sequence; those at its head.
            min_ttl: Seconds after its use within which a group does not make room for others.

        Raises:
            ValueError: `max_bytes` leaves no room for anything.
        """
        if max_bytes < 2 * _OVERHEAD:
            raise ValueError(
                f"an index of {max_bytes} bytes holds nothing; give each replica {2 * _OVERHEAD} at least"
            )
        self.statistics = IndexStatistics()
        self._max_bytes = max_bytes
        self._max_groups = max_groups
        self._min_ttl = min_ttl
        self._pins: dict[bytes, int] = {}
        self._reset()

    @property
    def size(self) -> int:
        """Return the bytes that it takes now."""
        return self._bytes + len(self._pins) * _PIN

    def __len__(self) -> int:
        """Return how many groups are held."""
        return self._groups

    def match(self, names: Sequence[bytes]) -> int:
        """Return how many groups at the head of a sequence are held. Changes nothing."""
        return self._walk(_prints(names)).matched // FINGERPRINT_BYTES

    def look_up(self, names: Sequence[bytes]) -> int:
        """Do as `match`, and count it in the statistics: for the replica that a request is sent to."""
        matched = self.match(names)
        self.statistics.asked += len(names)
        self.statistics.hits += matched
        return matched

    def add(self, names: Sequence[bytes], now: float) -> int:
        """Hold a sequence, as used now.

        Args:
            names: Its groups from the first on.
            now: Seconds of a clock that never goes back.

        Returns:
            How many groups at its head are held now: all but those beyond `max_groups`, or for which there
            was no room.
        """
        self.statistics.refused["max_groups"] += max(0, len(names) - self._max_groups)
        prints = _prints(names[: self._max_groups])
        end = self._walk(prints)
        missing = prints[end.matched :]
        more = missing[: self._make_room(end, len(missing), now)] if missing else b""
        self.statistics.refused["bytes"] += (len(missing) - len(more)) // FINGERPRINT_BYTES
        run = self._extend(self._part(end.run, end.offset), more, now) if more else end.run
        self._touch(run, now)
        self.statistics.peak_bytes = max(self.statistics.peak_bytes, self.size)
        return (end.matched + len(more)) // FINGERPRINT_BYTES

    def remove(self, names: Sequence[bytes]) -> None:
        """Take out the last group of a sequence and all behind it: the engine holds them no more."""
        prints = _prints(names)
        end = self._walk(prints)
        if not prints or end.matched < len(prints):
            return
        self.statistics.evicted["engine"] += self._cut_behind(end.run, end.offset - FINGERPRINT_BYTES)

    def clear(self) -> None:
        """Take out all, pins too: the engine was started anew."""
        self.statistics.evicted["cleared"] += self._groups
        self._pins.clear()
        self._reset()

    def pin(self, names: Sequence[bytes]) -> bool:
        """Keep a sequence, until `unpin` was called as often, from making room for others.

        Returns:
            Whether it is held as a whole, and so pinned now.
        """
        prints = _prints(names)
        last = prints[-FINGERPRINT_BYTES:]
        room = self._max_bytes - self.size
        if not prints or self._walk(prints).matched < len(prints) or (last not in self._pins and room < _PIN):
            return False
        self._pins[last] = self._pins.get(last, 0) + 1
        return True

    def unpin(self, names: Sequence[bytes]) -> None:
        """Take one pin off a sequence; nothing happens when it has none."""
        last = _prints(names)[-FINGERPRINT_BYTES:]
        pins = self._pins.pop(last, 0)
        if pins > 1:
            self._pins[last] = pins - 1

    def _reset(self) -> None:
        self._root = _Run(b"", 0.0)
        # The root closes the ring of runs: on its newer side the one that was used the longest ago.
        self._bytes = _OVERHEAD + self._root.weight()
        self._groups = 0

    def _walk(self, prints: bytes) -> "_End":
        run, offset, matched = self._root, 0, 0
        while matched < len(prints):
            child = run.child(prints[matched : matched + FINGERPRINT_BYTES])
            if child is None:
                break
            run, offset = child, _common(child.prints, prints, matched)
            matched += offset
            if offset < len(child.prints):
                break
        return _End(run, offset, matched)

    def _part(self, run: _Run, offset: int) -> _Run:
        """Split a run so that one ends at `offset`; return that one."""
        if offset == len(run.prints):
            return run
        above = run.parent
        before = run.weight() + above.weight()
        above.disown(run)
        head = _Run(run.prints[:offset], run.seen)
        run.prints = run.prints[offset:]
        above.adopt(head)
        head.adopt(run)
        self._bytes += head.weight() + run.weight() + above.weight() - before
        _link(head, run, run.newer)
        return head

    def _extend(self, run: _Run, prints: bytes, now: float) -> _Run:
        """Hold more groups behind a run: in it where nothing else is, else in one of their own."""
        self._groups += len(prints) // FINGERPRINT_BYTES
        before = run.weight()
        if run.children is None and run is not self._root:
            run.prints += prints
            self._bytes += run.weight() - before
            return run
        child = _Run(prints, now)
        run.adopt(child)
        self._bytes += run.weight() + child.weight() - before
        _link(child, run.older, run)
        return child

    def _touch(self, run: _Run, now: float) -> None:
        """Make the runs from here to the root the newest, each newer than those behind it."""
        while run is not self._root:
            run.seen = now
            _unlink(run)
            _link(run, self._root.older, self._root)
            run = run.parent

    def _make_room(self, end: "_End", wanted: int, now: float) -> int:
        """Evict old leaves, so that fingerprints fit in behind `end`; return how many bytes of them do."""
        above = end.run.parent
        # Two more runs at the most, and what lists of children set aside as they grow (an eighth, and a few).
        fixed = 2 * _NODE + _most_growth(end.run) + _most_growth(above)
        run = self._root.newer
        while self.size + fixed + wanted > self._max_bytes and run is not self._root:
            newer = run.newer
            kept = self._pinned(run)
            if (
                not run.children
                and run is not end.run
                and run.seen <= now - self._min_ttl
                and kept < len(run.prints)
            ):
                parent = run.parent
                self.statistics.evicted["bytes"] += self._cut_behind(run, kept)
                if parent.children is None:
                    newer = self._root.newer  # it is a leaf now, and may stand before where we are
            run = newer
        fitting = max(0, self._max_bytes - self.size - fixed)
        return min(wanted, fitting - fitting % FINGERPRINT_BYTES)

    def _pinned(self, run: _Run) -> int:
        """Return the bytes of a run up to the end of its last pinned group."""
        if self._pins:
            for end in range(len(run.prints), 0, -FINGERPRINT_BYTES):
                if run.prints[end - FINGERPRINT_BYTES : end] in self._pins:
                    return end
        return 0

    def _cut_behind(self, run: _Run, offset: int) -> int:
        """Take out what stands behind `offset` in a run, and behind the run; return how many groups."""
        gone = (len(run.prints) - offset) // FINGERPRINT_BYTES
        for child in tuple(run.children or ()):
            gone += self._cut_behind(child, 0)
        for start in range(offset, len(run.prints), FINGERPRINT_BYTES):
            self._pins.pop(run.prints[start : start + FINGERPRINT_BYTES], None)
        self._groups -= (len(run.prints) - offset) // FINGERPRINT_BYTES
        above = run.parent
        before = above.weight() + run.weight()
        if offset:
            run.prints = run.prints[:offset]
            self._bytes += above.weight() + run.weight() - before
        else:
            above.disown(run)
            self._bytes += above.weight() - before
            _unlink(run)
        return gone


class _End(NamedTuple):
    """Where a sequence leaves the tree: `offset` bytes into a run, `matched` bytes into its own prints."""

    run: _Run
    offset: int
    matched: int


def _prints(names: Sequence[bytes]) -> bytes:
    return b"".join([name[:FINGERPRINT_BYTES] for name in names])


def _common(run: bytes, prints: bytes, start: int) -> int:
    """Return the bytes of whole fingerprints that a run has in common with `prints[start:]`."""
    if prints.startswith(run, start):
        return len(run)
    common = 0
    while (
        run[common : common + FINGERPRINT_BYTES]
        == prints[start + common : start + common + FINGERPRINT_BYTES]
    ):
        common += FINGERPRINT_BYTES
    return common


def _link(run: _Run, older: _Run, newer: _Run) -> None:
    run.older, run.newer = older, newer
    older.newer = newer.older = run


def _unlink(run: _Run) -> None:
    run.older.newer = run.newer
    run.newer.older = run.older


def _most_growth(run: _Run) -> int:
    return 128 + getsizeof(run.children or ()) // 4


class PrefixIndex:
    """One shard a replica; what happens to one has no part in another."""

    def __init__(
        self, replicas: Sequence[str], max_bytes: int, *, max_groups: int = 64, min_ttl: float = 2.0
    ) -> None:
        """Begin with nothing held.

        Args:
            replicas: Their names.
            max_bytes: The bound of all shards together; each has an equal part of it.
            max_groups: The most groups held of one sequence.
            min_ttl: Seconds after its use within which a group does not make room for others.

        Raises:
            ValueError: That part leaves no room for anything.
        """
        self._shards = {
            replica: Shard(max_bytes // len(replicas), max_groups=max_groups, min_ttl=min_ttl)
            for replica in replicas
        }

    def __getitem__(self, replica: str) -> Shard:
        """Return the shard of a replica."""
        return self._shards[replica]

    def match(self, names: Sequence[bytes]) -> dict[str, int]:
        """Return, for each replica, how many groups at the head of a sequence it holds."""
        return {replica: shard.match(names) for replica, shard in self._shards.items()}

    @property
    def size(self) -> int:
        """Return the bytes that all shards take now."""
        return sum(shard.size for shard in self._shards.values())
