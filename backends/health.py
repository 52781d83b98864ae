"""Whether a replica should get requests: what it answers when asked, and how the last requests went.

Active: a probe of its health page says whether it is there. Passive: a replica that takes requests
and brings no token, while its health page smiles, is taken out after a few of them (the circuit
breaker of Nygard, "Release It!": closed, open, half open). One that is busy says so itself, and when to
come again; until then it is left alone.
"""

from dataclasses import dataclass, field

FAILURES = 3
"""Requests in a row without a token, or probes in a row without an answer, that take a replica out."""

FIRST_REST = 5.0
LONGEST_REST = 60.0
"""Seconds for which it stays out: the first time, and at most; each failed trial doubles it."""

LONGEST_WAIT = 60.0
"""Seconds for which a replica that asks to be left alone is believed; then it is asked again."""

RAMP_SECONDS = 10.0
"""How long a replica that has just come (back) takes to get its full share: its caches are cold."""

RAMP_START = 0.1


@dataclass(slots=True)
class Health:
    """The state of one replica. All times are monotonic seconds.

    Attributes:
        probes_missed: Probes in a row without an answer; `FAILURES` when it said that it cannot serve.
        failures: Requests in a row that brought no token.
        rests_until: When a replica that was taken out may try again; None while it is in.
        rest: How long its next rest will be, seconds.
        trying: Whether its one trial request is under way.
        joined: When it last came (back) in.
        last_token: When it last brought a token, or more of an answer.
        busy_until: Until when it asked to be left alone; that is no fault of it.
        busy_status: With which status it did, 429 or 503.
        draining: Whether it is to leave once what is on it has ended.
    """

    probes_missed: int = 0
    failures: int = 0
    rests_until: float | None = None
    rest: float = FIRST_REST
    trying: bool = False
    joined: float = field(default=float("-inf"))
    last_token: float = field(default=float("-inf"))
    busy_until: float = field(default=float("-inf"))
    busy_status: int = 503
    draining: bool = False

    def takes_requests(self, now: float) -> bool:
        """Tell whether it should get a request now."""
        if self.draining or self.probes_missed >= FAILURES or now < self.busy_until:
            return False
        return self.rests_until is None or (now >= self.rests_until and not self.trying)

    def share(self, now: float) -> float:
        """Return how much of its share of requests it should get, in (0, 1]."""
        grown = (now - self.joined) / RAMP_SECONDS
        return 1.0 if grown >= 1.0 else max(RAMP_START, grown)

    def asked(self) -> None:
        """Note that it gets a request; one that was out is on trial with it."""
        if self.rests_until is not None:
            self.trying = True

    def brought_token(self, now: float) -> None:
        """Note that a request brought its first token, or a whole answer."""
        if self.rests_until is not None:
            self.joined = now
        self.failures, self.rests_until, self.rest, self.trying = 0, None, FIRST_REST, False
        self.last_token = now

    def progressed(self, now: float) -> None:
        """Note that an answer goes on."""
        self.last_token = now

    def brought_nothing(self, now: float) -> None:
        """Note that a request failed before its first token; that of a client that left does not count.

        While it is out, the requests that were on it as it went out say nothing new: were each of them
        taken for a failed trial, a busy replica would be out for the longest rest at once.
        """
        if self.rests_until is not None and not self.trying:
            return
        self.failures += 1
        if self.trying or self.failures >= FAILURES:
            self.rests_until, self.trying = now + self.rest, False
            self.rest = min(LONGEST_REST, 2 * self.rest)

    def answered_4xx(self) -> None:
        """Note that it refused us as one does that is well: of equals it is chosen last, and stays in."""
        self.failures, self.trying = max(1, self.failures), False

    def left_alone(self) -> None:
        """Note that a request ended without telling anything of the replica; a trial may be made again."""
        self.trying = False

    def asked_to_wait(self, now: float, seconds: float, status: int) -> None:
        """Note that it answered 429 or 503 and said when to come again."""
        self.busy_until = max(self.busy_until, now + min(seconds, LONGEST_WAIT))
        self.busy_status = status

    def busy_for(self, now: float) -> float:
        """Return for how many seconds a replica that is there wants to be left alone; 0.0 if it does not."""
        return max(0.0, self.busy_until - now) if self.probes_missed < FAILURES else 0.0

    def was_probed(self, now: float, *, ready: bool | None, since: float) -> None:
        """Note the answer to a probe that was sent at `since`; see `Backend.is_ready`.

        One that says that it cannot serve is out at once: it drains, and its streams end in peace. One
        that says nothing may be busy; a token in the meantime outweighs that.
        """
        if ready:
            if self.probes_missed >= FAILURES:
                self.joined = now
            self.probes_missed = 0
        elif ready is False:
            self.probes_missed = FAILURES
        elif self.last_token < since:
            self.probes_missed += 1
