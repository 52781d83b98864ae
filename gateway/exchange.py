"""One request on its way through the pipeline: what is known of it so far, and its record at the end."""

import random
import re
from collections.abc import Awaitable
from urllib.parse import quote

import msgspec

from backends.fleet import Member, Placed
from backends.placement.prompts import Prompt
from backends.pools.slots import Lease
from backends.types import Usage
from classifier.types import ComplexityEstimate
from gateway.clock import Clock
from gateway.records import RequestRecord, Status
from gateway.requests.protocol import ClientRequest
from gateway.streaming import StreamState
from policies.cost import cost_usd
from policies.types import Caller, Decision, Effort, Prices

HEADER = "x-flashlane-"


_RANDOM = random.Random()  # noqa: S311 - an id is no secret; seeded by the system, which each id need not ask
_PLAIN = re.compile(r"[\w :;<>=.,/()'-]*", re.ASCII)


def _as_header(text: str) -> str:
    """Return a text as it can stand in a header: percent-encoded where it must be."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe=" :;<>=.,/-_()'")


def new_request_id(created_ms: int) -> str:
    """Return an id that grows with time, as UUID version 7 does (RFC 9562)."""
    return f"req_{created_ms:012x}{_RANDOM.getrandbits(80):020x}"


class Exchange(msgspec.Struct, eq=False):
    """What is known of one request; filled in step by step by the pipeline.

    Attributes:
        lease: The slot that it holds in a pool now; taken and given back in `gateway.opening`.
        load: Requests at once on its replica when its answer began, itself included.
    """

    clock: Clock
    endpoint: str
    id: str = ""
    created_ms: int = 0
    started: float = 0.0
    waited: float = 0.0
    caller: Caller | None = None
    request: ClientRequest | None = None
    estimate: ComplexityEstimate | None = None
    decision: Decision | None = None
    member: Member | None = None
    placed: Placed | None = None
    prompts: dict[str, Prompt] = msgspec.field(default_factory=dict[str, Prompt])
    model: str = ""
    effort: Effort | None = None
    attempts: int = 0
    notes: list[str] = msgspec.field(default_factory=list[str])
    asked: float | None = None
    first_token: float | None = None
    usage: Usage | None = None
    stream_state: StreamState | None = None
    lease: Lease | None = None
    load: float = 0.0
    settled: bool = False

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()
        self.created_ms = int(self.clock.now().timestamp() * 1000)
        self.id = new_request_id(self.created_ms)

    @property
    def reason(self) -> str:
        """What decided, and that it had to fall back when it did."""
        if self.decision is None:
            return ""
        if self.model and self.model != self.decision.model:
            return f"{self.decision.reason};fallback:{self.decision.model}"
        return self.decision.reason

    async def waiting(self, for_client: Awaitable[bytes]) -> bytes:
        """Wait for the client to send something; the time is not ours, and not counted as overhead."""
        since = self.clock.monotonic()
        try:
            return await for_client
        finally:
            self.waited += self.clock.monotonic() - since

    def final_usage(self) -> Usage:
        """Return the tokens used: the engine's count, else ours of what was seen, marked as estimated.

        An engine that was at work when its client left has read the input at least; a model is set as
        long as one was.
        """
        if self.usage is not None:
            return self.usage
        if self.request is None or not self.model:
            return Usage()
        state = self.stream_state or StreamState()
        return state.usage or Usage(self.request.input_tokens(), 0, state.tokens_seen, estimated=True)

    def headers(self) -> dict[str, str]:
        """Return the headers that say why; those of an answer's end are not among them."""
        found = {HEADER + "request-id": self.id}
        if self.decision is not None:
            found[HEADER + "reason"] = _as_header(self.reason)
        if self.estimate is not None:
            found[HEADER + "complexity"] = f"{self.estimate.score:.4f}"
        if self.member is not None:
            found[HEADER + "model"] = self.model
            found[HEADER + "pool"] = self.member.pool.name
            found[HEADER + "replica"] = self.member.replica.name
            if self.effort is not None:
                found[HEADER + "effort"] = self.effort
            if self.placed is not None and self.placed.choice.among > 1:
                found[HEADER + "expected-ttft-ms"] = f"{self.placed.choice.ttft * 1000:.0f}"
            found[HEADER + "overhead-ms"] = f"{self.overhead_ms():.3f}"
        return found

    def overhead_ms(self) -> float:
        """Return how long we took until the engine was asked; so far, when it was not."""
        asked = self.asked if self.asked is not None else self.clock.monotonic()
        return (asked - self.started - self.waited) * 1000

    def record(
        self, status: Status, http_status: int, error: str, prices: Prices, usage: Usage
    ) -> RequestRecord:
        """Return the record of this request, whose `final_usage` is `usage`; the tenant must be known."""
        if self.caller is None:
            raise ValueError("a request without a tenant has no record")
        estimate, member = self.estimate, self.member
        first = self.first_token
        return RequestRecord(
            id=self.id,
            created_ms=self.created_ms,
            tenant=self.caller.tenant.name,
            key_name=self.caller.key_name,
            endpoint=self.endpoint,
            model_requested=self.request.model[:256] if self.request else "",
            model=self.model,
            pool=member.pool.name if member else "",
            replica=member.replica.name if member else "",
            reason=self.reason[:512],
            trace=(*(self.decision.trace if self.decision else ()), *self.notes),
            complexity=estimate.score if estimate else None,
            domain=estimate.domain if estimate else "",
            task=estimate.task if estimate else "",
            classifier_version=estimate.model_version if estimate else "",
            stream=self.request.stream if self.request else False,
            status=status,
            http_status=http_status,
            error=error,
            attempts=self.attempts,
            prompt_tokens=usage.prompt,
            cached_tokens=usage.cached,
            completion_tokens=usage.completion,
            usage_estimated=usage.estimated,
            ttft_ms=None if first is None else (first - self.started) * 1000,
            total_ms=(self.clock.monotonic() - self.started) * 1000,
            overhead_ms=self.overhead_ms(),
            cost_usd=cost_usd(prices, prompt=usage.prompt, cached=usage.cached, completion=usage.completion),
        )
