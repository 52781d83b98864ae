"""Values of placement. What every decision makes is a Struct: a frozen dataclass takes ten times as long."""

import msgspec


class ReplicaView(msgspec.Struct, frozen=True):
    """A replica as it stands before one request.

    Attributes:
        cached: Tokens of the request's prefix that it holds.
        queue: Seconds until it would begin to read the request.
        rate: Tokens of prompt that it reads a second.
        running: Requests that are on it, waiting ones included.
        recent: Seconds of reading that it was given lately; see `Demand`.
        share: How much of its share it should get, in (0, 1].
        kv_usage: How full its KV cache is, in [0, 1].
        well: Whether its last request went well.
        session: Whether the conversation was there last.
    """

    cached: int = 0
    queue: float = 0.0
    rate: float = 8000.0
    running: int = 0
    recent: float = 0.0
    share: float = 1.0
    kv_usage: float = 0.0
    well: bool = True
    session: bool = False


class Choice(msgspec.Struct, frozen=True):
    """Which replica was chosen, and why.

    Attributes:
        index: Of the replica among those that were looked at.
        ttft: Seconds to the first token, as expected.
        cached: Tokens that the replica is expected to hold.
        uncached: Tokens that it has to read.
        work: Seconds that this takes it.
        among: How many replicas were looked at.
        reason: For the record: what was weighed.
    """

    index: int
    ttft: float
    cached: int
    uncached: int
    work: float
    among: int
    reason: str
