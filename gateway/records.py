"""The record of one request: what was asked, what was decided, what it took and cost."""

from decimal import Decimal
from typing import Literal

import msgspec

Status = Literal["ok", "error", "cancelled", "incomplete"]


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as it is kept.

    A Struct, as every request makes one: a frozen dataclass of so many fields takes ten times as long.

    Attributes:
        id: "req_" and 32 hex digits, growing with time.
        created_ms: When it came, Unix milliseconds, UTC.
        model: The model that answered, or was at work on it; "" when none was.
        reason: What decided; see `policies.Decision`.
        trace: Every rule that was looked at, and every replica that failed.
        domain: Of the request, where the tenant has `standard_domains`; else "".
        status: `incomplete` means that the engine died in the middle of the answer.
        http_status: As sent; 499 when the client had left.
        error: The error's `code`, "" when there was none.
        usage_estimated: True when the engine did not say what it used.
        ttft_ms: Milliseconds from the request to the first token; None when there was no stream.
        overhead_ms: Milliseconds of `total_ms` before the engine was asked, the client's upload left out.
    """

    id: str
    created_ms: int
    tenant: str
    key_name: str
    endpoint: str
    model_requested: str
    model: str
    pool: str
    replica: str
    reason: str
    trace: tuple[str, ...]
    complexity: float | None
    domain: str
    task: str
    classifier_version: str
    stream: bool
    status: Status
    http_status: int
    error: str
    attempts: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usage_estimated: bool
    ttft_ms: float | None
    total_ms: float
    overhead_ms: float
    cost_usd: Decimal
