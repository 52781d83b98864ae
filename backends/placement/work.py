"""What a replica has to do, and how fast it is: learned from when first tokens come."""

import msgspec

FIRST_RATE = 8000.0
"""Tokens a second that a replica is taken to read before anything is known of it."""

FIRST_TOKENS = 512.0
"""Of a made-up request at that rate; few, as one of many would outweigh all that follow, of usual lengths."""

NOTHING = 4.0
"""Made-up requests that had nothing to read and took no time: where all are of about one length, what they
took is put down to reading."""

LEAST_SHARE = 0.1
"""Of what requests took, what is put down to reading at the least, even where long ones took no longer."""

SLOWEST, FASTEST = 50.0, 200_000.0
"""Bounds of what is believed."""

KEPT = 0.99
"""What a request counts, to the next one, in what is learned: some hundred requests count."""


class PrefillRate:
    """Tokens of prompt that a replica reads a second, in `tokens_per_second`.

    Least squares of seconds on tokens over the last requests, with a constant for what a request takes that
    has nothing to read.
    """

    def __init__(self) -> None:
        self._n, self._x, self._y = 1.0, FIRST_TOKENS, FIRST_TOKENS / FIRST_RATE
        self._xx, self._xy = self._x * self._x, self._x * self._y
        self.tokens_per_second = FIRST_RATE

    def learn(self, tokens: int, seconds: float) -> None:
        """Note that reading so many tokens, with nothing before them, took so long."""
        self._n = self._n * KEPT + 1
        self._x = self._x * KEPT + tokens
        self._y = self._y * KEPT + seconds
        self._xx = self._xx * KEPT + tokens * tokens
        self._xy = self._xy * KEPT + tokens * seconds
        n = self._n + NOTHING
        spread = n * self._xx - self._x * self._x
        slope = (n * self._xy - self._x * self._y) / spread if spread > 0 else 0.0
        slope = max(slope, LEAST_SHARE * self._y / self._x)
        self.tokens_per_second = min(FASTEST, max(SLOWEST, 1 / slope)) if slope > 0 else FASTEST


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """A prompt that a replica has to read.

    Attributes:
        tokens: What is expected not to be held there.
        work: Seconds that this takes.
        since: When it was sent.
    """

    tokens: int
    work: float
    since: float


class PrefillQueue:
    """The prompts that a replica has not read yet: those without a first token. Times are in seconds."""

    def __init__(self) -> None:
        self.rate = PrefillRate()
        self._waiting: dict[Ticket, None] = {}
        self._work = 0.0
        self._free_at = float("-inf")
        self._last_first_token = float("-inf")

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._waiting)

    def add(self, tokens: int, now: float) -> Ticket:
        """Put a prompt in; the ticket goes to `first_token` or to `drop`, or both."""
        work = tokens / self.rate.tokens_per_second
        ticket = Ticket(tokens, work, now)
        self._waiting[ticket] = None
        self._work += work
        self._free_at = max(now, self._free_at) + work
        return ticket

    def first_token(self, ticket: Ticket, now: float, *, read: int | None = None) -> None:
        """Note that the first token came: the prompt is read, and what is left is known anew.

        Args:
            ticket: Of the prompt.
            now: The time.
            read: Tokens that were not held, as the engine told; as expected, when it did not.
        """
        if ticket not in self._waiting:
            return
        began = max(ticket.since, self._last_first_token)
        self.rate.learn(ticket.tokens if read is None else read, max(0.0, now - began))
        self._last_first_token = now
        self._take_out(ticket)
        self._free_at = now + self._work

    def drop(self, ticket: Ticket, now: float) -> None:
        """Note that the request is over; that of one whose first token came is out already."""
        if ticket in self._waiting:
            self._take_out(ticket)
            self._free_at = min(self._free_at, now + self._work)

    def seconds(self, now: float) -> float:
        """Return how long a new prompt would wait.

        A queue that should be empty and is not has been late for as long as it is: it is expected to stay
        late for as long again.
        """
        return abs(self._free_at - now) if self._waiting else 0.0

    def _take_out(self, ticket: Ticket) -> None:
        del self._waiting[ticket]
        self._work = self._work - ticket.work if self._waiting else 0.0
