"""Which groups a replica holds, as far as is known."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Protocol


class HeldGroups(Protocol):
    """What is known of one replica's groups."""

    def longest(self, names: Sequence[Hashable], now: float, guess: int = 0) -> int:
        """Return how many groups of a prompt, from its first on, the replica holds without a hole.

        Args:
            names: Of the prompt's groups, in their order.
            now: Seconds.
            guess: What it may be, such as what it is for another replica; a good one saves time.
        """
        ...

    def sent(self, names: Sequence[Hashable], now: float) -> None:
        """Note that the replica got a prompt with these groups."""
        ...

    def clear(self) -> None:
        """Forget all: the replica holds nothing."""
        ...


NEVER = float("-inf")
A_YEAR = 3.2e7


class SentGroups:
    """Groups that were sent to a replica: a model of its cache, least recently used ones given up first.

    A request uses its groups from the last to the first, so that leaves go before their parents and no hole
    comes up.
    """

    def __init__(self, capacity: int, *, ttl: float = A_YEAR) -> None:
        """Hold at most `capacity` groups, and none that was not used for `ttl` seconds."""
        self._capacity = capacity
        self._ttl = ttl
        self._used: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """Return how many groups are held."""
        return len(self._used)

    def longest(self, names: Sequence[Hashable], now: float, guess: int = 0) -> int:
        """See `HeldGroups`; by halving, as all before a group that is held are held."""
        last_use, oldest = self._used.get, now - self._ttl
        low, high = 0, len(names)
        # The guess, and the group after it, are looked at first.
        middle, after = (guess, guess + 1) if 0 < guess <= high else (1, 1)
        while low < high:
            if last_use(names[middle - 1], NEVER) >= oldest:
                low = middle
            else:
                high = middle - 1
            middle = after if low < after <= high else (low + high + 1) // 2
        return low

    def sent(self, names: Sequence[Hashable], now: float) -> None:
        """See `HeldGroups`; of a prompt longer than the cache its head is held."""
        used = self._used
        for name in reversed(names[: self._capacity]):
            used[name] = now
            used.move_to_end(name)
        while len(used) > self._capacity:
            used.popitem(last=False)

    def clear(self) -> None:
        """See `HeldGroups`."""
        self._used.clear()
