"""In which pool a conversation is at home: the one that answered it last, as long as that is not long ago."""

from typing import Final

HOME_SECONDS: Final = 600.0
"""After a silence of that length an engine under load has given the prefix away."""

MOST: Final = 50_000


class Homes:
    """The homes of recent conversations, bounded; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._homes: dict[int, tuple[str, float]] = {}

    def find(self, conversation: int, now: float) -> str | None:
        """Return a conversation's pool; None when it has none, or was silent for too long."""
        pool, since = self._homes.get(conversation, (None, now))
        return pool if now - since <= HOME_SECONDS else None

    def note(self, conversation: int, pool: str, now: float) -> None:
        """Note the pool that answers a conversation."""
        self._homes.pop(conversation, None)
        self._homes[conversation] = (pool, now)
        if len(self._homes) > MOST:
            del self._homes[next(iter(self._homes))]
