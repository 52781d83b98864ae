"""What a switch of models would really cost: the warm prefix of the other one is part of the price. Pure."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from policies.types import FLASH, STANDARD, Decision

BY_SCORE = frozenset({"complexity", "quality"})
"""Rules that found flash good enough, rather than required."""


class Candidate(msgspec.Struct, frozen=True):
    """A model, on the replica that it would run on.

    Attributes:
        model: The model.
        pool: Of the replica.
        replica: On which the request would cost least.
        cost_usd: Of the whole answer: cached and uncached input, expected output.
        ttft_seconds: To the first token, as expected.
        cached_tokens: Of the prompt that the replica is expected to hold.
    """

    model: str
    pool: str
    replica: str
    cost_usd: float
    ttft_seconds: float
    cached_tokens: int

    def __str__(self) -> str:
        """Return it as it stands in a trace."""
        return (
            f"candidate:{self.replica} {self.cost_usd:.6f} USD, first token in {self.ttft_seconds:.2f} s, "
            f"holds {self.cached_tokens} tokens"
        )


def may_be_weighed(decision: Decision) -> bool:
    """Tell whether standard would do as well: flash was found good enough, and standard may take over."""
    return decision.model == FLASH and decision.rule in BY_SCORE and STANDARD in decision.fallbacks


def weigh(decision: Decision, candidates: Sequence[Candidate]) -> Decision:
    """Stay with standard where it costs less than flash, as it does while it holds a long conversation.

    Quality allows both: what flash is good enough for, standard is. Of equal cost flash stays. What only
    flash may answer is not looked at.

    Args:
        decision: As the rules and the score have it.
        candidates: One for each model that has a replica to run on.
    """
    if not may_be_weighed(decision):
        return decision
    trace = (*decision.trace, *map(str, candidates))
    by_model = {candidate.model: candidate for candidate in candidates}
    flash, standard = by_model.get(FLASH), by_model.get(STANDARD)
    if flash is None or standard is None or standard.cost_usd >= flash.cost_usd:
        return replace(decision, trace=trace)
    reason = (
        f"prefix:standard holds {standard.cached_tokens} tokens, "
        f"{standard.cost_usd:.6f}<{flash.cost_usd:.6f} USD"
    )
    others = tuple(model for model in decision.fallbacks if model != STANDARD)
    return replace(
        decision, model=STANDARD, fallbacks=(FLASH, *others), reason=reason, trace=(*trace, reason)
    )
