"""Which pools of a model a request is for, in order: a plain function of the request and the pools."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

LONG_OUTPUT: Final = 4096
"""Output tokens that a client states, above which its answer counts as long: it would hold a slot of the
latency pool for minutes. Chats without a bound, or with the usual one, do not."""

Reason = Literal["only", "chat", "home", "batch", "long", "unfit", "off", "rejected"]
"""Why the first pool is first.

* only      the model has no choice of pools
* chat      somebody waits for it: the latency pool
* home      its conversation began in that pool, whose engine has its prefix
* batch     nobody reads it as it comes
* long      its client states a long answer
* unfit     it is longer than the latency pool takes
* off       its tenant wants no speculation
* rejected  too few drafts are accepted at present
"""


class Work(msgspec.Struct, frozen=True):
    """What matters of a request.

    Attributes:
        is_chat: Whether it is one answer of a conversation.
        input_tokens: Estimated length of the input.
        output_tokens: Most tokens of the answer, as stated; None when nothing is.
        may_speculate: What its tenant says.
        home: The pool that answered the turn before; None when there was none, or not lately.
    """

    is_chat: bool
    input_tokens: int = 0
    output_tokens: int | None = None
    may_speculate: bool = True
    home: str | None = None


class PoolState(msgspec.Struct, frozen=True):
    """What matters of a pool.

    Attributes:
        name: Unique within its model.
        is_latency: Whether it is tuned for few requests at once.
        speculates: Whether its engines do.
        rejected: Whether too few of its drafts are accepted at present.
        context: Longest input plus output that it takes; None for the model's own.
    """

    name: str
    is_latency: bool = False
    speculates: bool = False
    rejected: bool = False
    context: int | None = None


class PoolChoice(msgspec.Struct, frozen=True):
    """Where to try, and why the first is first.

    Attributes:
        order: Groups of pools, in order; the pools of a group are as good as each other.
        reason: Why the first group is first.
    """

    order: tuple[tuple[str, ...], ...]
    reason: Reason


def choose_pool(pools: Sequence[PoolState], work: Work) -> PoolChoice:
    """Choose among the pools of a model.

    A pool that is full or has no replica is passed over by whoever tries them in order: a burst goes to the
    throughput pool at once, and an outage of either pool to the other.

    Args:
        pools: Of one model, as configured; at least one.
        work: The request.
    """
    able = [pool for pool in pools if _takes(pool, work)] or list(pools)
    latency = tuple(pool.name for pool in able if pool.is_latency)
    others = tuple(pool.name for pool in able if not pool.is_latency)
    if not latency or not others:
        return PoolChoice((latency or others,), _why_not(pools, work) if len(able) < len(pools) else "only")
    reason = _why_others(able, work)
    if reason is not None:
        return PoolChoice((others, latency), reason)
    return PoolChoice((latency, others), "home" if work.home in latency else "chat")


def _why_others(able: Sequence[PoolState], work: Work) -> Reason | None:
    """Return why a request is not for the latency pool; None when it is."""
    if not work.is_chat:
        return "batch"
    if work.output_tokens is not None and work.output_tokens > LONG_OUTPUT:
        return "long"
    if all(pool.rejected for pool in able if pool.is_latency):
        return "rejected"
    return "home" if any(pool.name == work.home and not pool.is_latency for pool in able) else None


def _takes(pool: PoolState, work: Work) -> bool:
    """Tell whether a pool may be used at all."""
    if pool.speculates and not work.may_speculate:
        return False
    return pool.context is None or work.input_tokens + (work.output_tokens or 0) <= pool.context


def _why_not(pools: Sequence[PoolState], work: Work) -> Reason:
    return "off" if not work.may_speculate and any(pool.speculates for pool in pools) else "unfit"
