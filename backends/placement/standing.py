"""What is known of one replica: what it holds, what it has to do, and how far that is believed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from backends.placement.held import HeldGroups, SentGroups
from backends.placement.prompts import Prompt
from backends.placement.work import PrefillQueue, Ticket

SENT_GROUPS = 16384
"""Groups that a replica is taken to hold, of those that were sent to it, where it does not tell."""

SENT_SECONDS = 1800.0
"""How long it is taken to hold one that nobody used; a last resort."""

BELIEVED_STEP = 0.3
BELIEVED_LEAST = 0.4
"""What one answer counts in how far predictions are believed, and below what all is forgotten: after three
answers in a row of which nothing was held."""


@dataclass(slots=True, eq=False)
class Standing:
    """One replica.

    Attributes:
        held: The groups that it holds.
        queue: The prompts that it has to read.
        started: When its engine said that its process started, seconds since the epoch.
        kept_by_events: Whether its engine tells what it holds, a restart included.
    """

    held: HeldGroups = field(default_factory=lambda: SentGroups(SENT_GROUPS, ttl=SENT_SECONDS))
    queue: PrefillQueue = field(default_factory=PrefillQueue)
    started: float | None = None
    kept_by_events: bool = False
    _believed: float = 1.0
    _tells: bool = False

    def holds(self, prompt: Prompt, now: float, guess: int = 0) -> tuple[int, int]:
        """Return how many groups of a prompt it holds, and the tokens that are expected of that."""
        if not prompt.names:
            return 0, 0
        groups = self.held.longest(prompt.names, now, guess)
        return groups, int(groups * prompt.group_tokens * self._believed)

    def began(self, prompt: Prompt, uncached: int, now: float) -> Ticket:
        """Note that it got a prompt."""
        if prompt.names:
            self.held.sent(prompt.names, now)
        return self.queue.add(uncached, now)

    def told(self, predicted: int, actual: int) -> bool:
        """Compare what it was predicted to hold of a prompt with what its engine counted.

        The engine is right. One that never told of a cached token may not tell at all, and proves nothing.

        Args:
            predicted: Tokens, before belief: groups held, as known, times their size.
            actual: Tokens.

        Returns:
            Whether the engine tells, so that the two say something.
        """
        self._tells |= actual > 0
        if not self._tells or predicted <= 0:
            return self._tells
        share = min(1.0, actual / predicted)
        self._believed += BELIEVED_STEP * (share - self._believed)
        if self._believed < BELIEVED_LEAST and share < BELIEVED_LEAST:
            self.held.clear()
        return True

    def restarted(self) -> None:
        """Note that the engine began anew: it holds nothing, and is believed."""
        if not self.kept_by_events:
            self.held.clear()
        self._believed = 1.0
        self.started = None

    def saw_start(self, started: float | None) -> bool:
        """Note when its process started, if it says so.

        Returns:
            Whether that is another time than before: a restart that nobody had noticed.
        """
        if started is None:
            return False
        is_new = self.started is not None and started != self.started
        if is_new:
            self.restarted()
        self.started = started
        return is_new


def deepest(prompt: Prompt, held: Sequence[int]) -> bytes | None:
    """Return the deepest group of a prompt that any replica holds."""
    most = max(held, default=0)
    return prompt.names[most - 1] if most else None
