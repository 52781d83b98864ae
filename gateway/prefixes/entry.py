"""One prefix on one replica, as this process knows it, and when it is looked at again."""

from dataclasses import dataclass

from backends.fleet import Member
from gateway.prefixes.shared import Residency
from gateway.prefixes.warm_up import WarmUp

CHECK_SECONDS = 60.0
"""Between two looks at a prefix that no request has shown to be there; looking costs one token."""

LONGEST_CHECK = 3600.0
"""A prefix that is evicted again and again is one too many: each time, it is looked at half as often."""

FIRST_RETRY = 5.0
LONGEST_RETRY = 300.0
"""Seconds after an engine failed on it; doubled each time."""

START = "start"
RESTART = "restart"
EVICTED = "evicted"
CHANGED = "changed"
HOT = "hot"
ASKED = "asked"


@dataclass(slots=True, eq=False)
class Entry:
    """A prefix on a replica. All times are monotonic seconds.

    Attributes:
        member: The replica.
        warm_up: What it is asked for.
        residency: How it stands.
        due: When it is to be looked at.
        why: Why it would then be computed.
        since: When that came up: whoever has looked after that has looked for us, too.
        ask: The wish that is to be followed; "" for none.
        hits: Requests that found it since they were last told to Redis.
        misses: Requests that did not.
        all_hits: The same since the start.
        all_misses: The same since the start.
        gained_seconds: By which first tokens came sooner, in all, since the start.
        errors: Times that the engine failed on it, since the start.
        evictions: In a row.
        failures: In a row.
    """

    member: Member
    warm_up: WarmUp
    residency: Residency
    due: float
    why: str
    since: float
    ask: str = ""
    hits: int = 0
    misses: int = 0
    all_hits: int = 0
    all_misses: int = 0
    gained_seconds: float = 0.0
    errors: int = 0
    evictions: int = 0
    failures: int = 0

    def needed(self, now: float, why: str, ask: str = "") -> None:
        """Note that it has to be looked at, now."""
        self.due, self.why, self.since, self.ask, self.failures = now, why, now, ask or self.ask, 0

    def looked_at(self, now: float) -> None:
        """Note that how it stands is known."""
        wait = min(LONGEST_CHECK, CHECK_SECONDS * 2.0**self.evictions)
        self.due, self.why, self.since, self.ask, self.failures = now + wait, EVICTED, now, "", 0

    def failed(self, now: float, wait: float | None) -> None:
        """Note that the engine failed on it; `wait` is for how long it asked to be left alone."""
        backoff = min(LONGEST_RETRY, FIRST_RETRY * 2.0**self.failures)
        self.due = now + (backoff if wait is None else max(backoff, min(wait, LONGEST_RETRY)))
        self.failures = min(self.failures + 1, 16)
        self.errors += 1

    def answered(self, cached: int, now: float) -> None:
        """Note that a client's request that begins so was answered."""
        if self.residency.expected == 0:
            return
        if self.residency.has(cached):
            self.hits, self.all_hits = self.hits + 1, self.all_hits + 1
            self.gained_seconds += self.residency.gain_seconds or 0.0
            if self.why == EVICTED and self.due > now:
                self.evictions = 0
                self.looked_at(now)
        else:
            self.misses, self.all_misses = self.misses + 1, self.all_misses + 1
            if self.due > now:
                self.needed(now, EVICTED)
