"""Up to how many requests speculation pays, learned from how fast answers come in both pools.

Drafts cost computation that a busy engine has no room for: a draft of fixed length that makes one answer
twice as fast can halve what an engine brings at 256 of them (vllm#49548 and others). Where that turns is a
matter of the model, the machine and the text, so it is measured, in seconds a token, as a client sees it.
"""

from typing import Final

import msgspec

MIN_TOKENS: Final = 8
"""Tokens after the first that an answer must have for its pace to be taken in."""

MIN_ANSWERS: Final = 10.0
"""Answers of each pool that must have been seen lately before the threshold moves."""

MEMORY: Final = 0.97
"""Weight that an answer keeps at each newer one: some 30 count."""

BAND: Final = 0.1
"""By how much the pools must differ before the threshold moves: it rests between two decisions."""

STEP_SECONDS: Final = 5.0
"""Between two steps of the threshold, each of 1."""

MIN_TOKENS_A_STEP: Final = 1.3
"""A draft that brings less does not pay for its verification; DSpark brings about 3.5."""

FIRST_REST: Final = 60.0
LONGEST_REST: Final = 960.0
"""Seconds for which a pool whose drafts are rejected gets no chats: the first time, and at most."""


class Pace(msgspec.Struct):
    """Seconds a token against requests at once on the replica: a line through recent answers.

    Least squares with exponential forgetting; the sums are all that is kept.
    """

    weight: float = 0.0
    load: float = 0.0
    seconds: float = 0.0
    load_load: float = 0.0
    load_seconds: float = 0.0

    def saw(self, load: float, seconds: float) -> None:
        """Take in an answer: requests at once beside it, itself included, and its seconds a token."""
        self.weight = MEMORY * self.weight + 1.0
        self.load = MEMORY * self.load + load
        self.seconds = MEMORY * self.seconds + seconds
        self.load_load = MEMORY * self.load_load + load * load
        self.load_seconds = MEMORY * self.load_seconds + load * seconds

    def at(self, load: float) -> float:
        """Return the seconds a token at a load; a line that falls is taken for noise."""
        mean_load, mean = self.load / self.weight, self.seconds / self.weight
        spread = self.load_load / self.weight - mean_load * mean_load
        if spread <= 1e-9:
            return mean
        slope = (self.load_seconds / self.weight - mean_load * mean) / spread
        return mean + max(0.0, slope) * (load - mean_load)

    @property
    def lately(self) -> float:
        """Return the seconds a token at the loads of late."""
        return self.seconds / self.weight


def next_threshold(threshold: int, most: int, latency: Pace, throughput: Pace) -> int:
    """Return up to how many requests a replica of the latency pool should take, one step from `threshold`.

    One more is let in while it would still be answered faster there than in the other pool as it is loaded
    now; one fewer when the last one is not.

    Args:
        threshold: So far, 1 or more.
        most: Never more than that.
        latency: Of the latency pool.
        throughput: Of the other.
    """
    if min(latency.weight, throughput.weight) < MIN_ANSWERS:
        return min(threshold, most)
    elsewhere = throughput.lately
    if latency.at(threshold) > (1.0 + BAND) * elsewhere:
        return max(1, min(threshold - 1, most))
    if latency.at(threshold + 1) < (1.0 - BAND) * elsewhere:
        return min(threshold + 1, most)
    return min(threshold, most)


def low_water(high: int) -> int:
    """Return to how many a full pool has to empty before newcomers come in again: the hysteresis."""
    return high - max(min(2, high - 1), high // 4)


class Speculation(msgspec.Struct):
    """What was learned of a model's latency pool. Times are monotonic seconds.

    Attributes:
        most: Requests at once on a replica, as configured.
        threshold: As learned, in [1, most].
        latency: Pace of the pool.
        throughput: Pace of the others.
    """

    most: int
    threshold: int = 0
    latency: Pace = msgspec.field(default_factory=Pace)
    throughput: Pace = msgspec.field(default_factory=Pace)
    _moved: float = float("-inf")
    _rejected_until: float = float("-inf")
    _rest: float = FIRST_REST

    def __post_init__(self) -> None:
        self.threshold = self.threshold or self.most

    def saw(self, now: float, *, in_latency: bool, load: float, seconds: float) -> None:
        """Take in the pace of an answer, and step when it is time."""
        (self.latency if in_latency else self.throughput).saw(load, seconds)
        if now - self._moved >= STEP_SECONDS:
            before = self.threshold
            self.threshold = next_threshold(before, self.most, self.latency, self.throughput)
            if self.threshold != before:
                self._moved = now

    def judge(self, now: float, tokens_a_step: float | None) -> bool:
        """Take in how drafts do, and tell whether the pool has just been switched off for it."""
        if tokens_a_step is None or self.rejected(now):
            return False
        if tokens_a_step >= MIN_TOKENS_A_STEP:
            self._rest = FIRST_REST
            return False
        self._rejected_until = now + self._rest
        self._rest = min(LONGEST_REST, 2 * self._rest)
        return True

    def rejected(self, now: float) -> bool:
        """Tell whether too few drafts are accepted for chats to go there; tried again after a rest."""
        return now < self._rejected_until
