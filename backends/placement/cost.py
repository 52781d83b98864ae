"""What it would cost to give a request to each replica, in seconds of waiting of all who wait.

The common currency is time. A request that is placed waits itself: the queue, and then the reading of what
the replica does not hold (its expected TTFT). And it makes others wait. In an M/G/1 queue the expected sum of
waits that are still to come, as far as it depends on a backlog of q seconds, is lambda q^2 / (2 (1 - rho));
so u seconds of work more cost others

    lambda / (1 - rho) * (q u + u^2 / 2)

(Hyytia, Penttinen and Aalto, "Size- and state-aware dispatching problem with queue-specific job sizes", EJOR
217, 2012: one step of policy improvement from a split at random). Since every later request is placed anew,
backlogs even out, and q is the mean backlog of all replicas rather than that of the one. This is the price of
a lost prefix: little while replicas idle, many times its own length under load. It is measured, not set.

Work that a replica does only because the prefix is elsewhere is no loss when the copy is used again. What
more than one conversation goes on from, such as a system prompt, is used as often as it was lately, by each
replica for its part; so its work is shared out over those uses, and a hot prefix spreads once its holder
has a queue. A conversation that moves has nobody to share with, and stays.

What is read takes room in the cache, from what was used the longest ago. Where more was read lately that is
younger, and more likely to be wanted again. So each token has a price on each replica by what was read there,
as a share of where the most was: else replicas that idle, and have no queue to send a request elsewhere,
would leave all conversations with one system prompt to the one that had it first. It goes by tokens and the
mean rate, as caches have to be equally old whatever is believed of the speed of each.
"""

from collections.abc import Sequence

from backends.placement.types import ReplicaView

MACHINE_PRICE = 4.0
"""Seconds of waiting that a second of a replica's work is worth in itself, as energy.

It is a choice, and moves little: what it decides is whether idle replicas do work that another need not do.
"""

ROOM_PRICE = 8.0
"""Seconds of waiting that the room for a second's reading is worth, where the most was read lately.

A choice too: with less, replicas whose rate is believed to be another than it is do not fill evenly.
"""

UNNAMED_TOKENS = 512
"""Tokens at the end of a prompt of which nothing is known, as they fill no group.

A conversation finds them again where it was last, so that there they take no room.
"""

RUNNING_SECONDS = 0.05
"""What a request that runs on a replica costs the next one there, and the next one it.

Answers of some 200 tokens, each of which takes an eighth of a millisecond longer beside one more sequence.
"""


def reading_seconds(views: Sequence[ReplicaView], tokens: int) -> list[float]:
    """Return how long each replica would read what it does not hold of a prompt of `tokens` tokens."""
    return [max(0, tokens - view.cached) / view.rate for view in views]


def expected_ttft(view: ReplicaView, work: float) -> float:
    """Return the seconds to the first token on a replica that has `work` seconds to read of the request."""
    return view.queue + work


def costs(
    views: Sequence[ReplicaView], works: Sequence[float], *, crowding: float, reuse: float
) -> list[float]:
    """Return what each replica would cost; the formula is that of this module's docstring.

    Args:
        views: The N replicas.
        works: Seconds of reading on each, in the same order.
        crowding: `Demand.crowding`.
        reuse: How often a copy of the prefix would be used on a replica, this time included; at least 1.

    Returns:
        N costs in seconds, in the order given.
    """
    fixed = 1 + MACHINE_PRICE + crowding * sum([view.queue for view in views]) / len(views)
    growing, least = crowding / 2, min(works)
    rates = [view.rate for view in views]
    read = [view.recent * rate for view, rate in zip(views, rates, strict=True)]
    room = ROOM_PRICE * len(views) / sum(rates) / (max(read) or 1.0)
    return [
        (
            view.queue
            + (view.running + 1) * RUNNING_SECONDS
            + (fixed + growing * work) * (least + (work - least) / reuse)
            + room * lately * (work * view.rate if not view.session else _named(work * view.rate))
        )
        / view.share
        for view, work, lately in zip(views, works, read, strict=True)
    ]


def _named(uncached: float) -> float:
    return max(0.0, uncached - UNNAMED_TOKENS)
