"""How much is asked of the replicas of a model: measured as it comes, forgotten as it ages."""

import math

MEMORY_SECONDS = 300.0
"""What is this old counts e^-1."""

FIRST_SECONDS = 30.0
"""So long a past is assumed at the start: rates of a shorter one are chance."""

HIGHEST_LOAD = 0.95
"""The delay that work causes grows as 1 / (1 - load); more than 20 requests' worth is never believed."""


class Demand:
    """Requests and work of the recent past."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._seconds = 0.0
        self._requests = 0.0
        self._work: dict[str, float] = {}

    def age(self, now: float) -> None:
        """Let what is known fade up to `now`, seconds on a clock that does not go back."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        if passed == 0.0:
            return
        kept = math.exp(-passed / MEMORY_SECONDS)
        self._seconds = self._seconds * kept + MEMORY_SECONDS * (1 - kept)
        self._requests *= kept
        for replica in self._work:
            self._work[replica] *= kept

    def add(self, replica: str, work: float) -> None:
        """Note that a replica was given work, in seconds."""
        self._requests += 1
        self._work[replica] = self._work.get(replica, 0.0) + work

    def recent(self, replica: str) -> float:
        """Return the seconds of work that a replica was given lately, as of the last `age`."""
        return self._work.get(replica, 0.0)

    def crowding(self, replicas: int) -> float:
        """Return how many requests a second of work keeps waiting, for each second that the queue is long.

        lambda / (1 - rho) of the M/G/1 queue, with the mean over the replicas.
        """
        seconds = max(self._seconds, FIRST_SECONDS) * replicas
        load = min(HIGHEST_LOAD, sum(self._work.values()) / seconds)
        return self._requests / seconds / (1 - load)
