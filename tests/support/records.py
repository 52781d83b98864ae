"""Records for tests."""

import itertools
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from gateway.records import RequestRecord

_numbers = itertools.count()


def make_record(**changes: Any) -> RequestRecord:
    """Return a record with an id of its own and every field set, but for what a test changes."""
    record = RequestRecord(
        id=f"req_{next(_numbers):032x}",
        created_ms=1_790_000_000_123,
        tenant="acme",
        key_name="web",
        endpoint="/v1/chat/completions",
        model_requested="auto",
        model="flash",
        pool="main",
        replica="flash/main/0",
        reason="complexity:0.2<0.5",
        trace=("forced: no", "\u4f60\u597d \U0001f600"),
        complexity=0.1 + 0.2,
        domain="code",
        task="t" * 64,
        classifier_version="2026-10-01",
        stream=True,
        status="ok",
        http_status=200,
        error="",
        attempts=1,
        prompt_tokens=3_000_000_000,
        cached_tokens=7,
        completion_tokens=5,
        usage_estimated=False,
        ttft_ms=1.5,
        total_ms=20.25,
        overhead_ms=0.125,
        cost_usd=Decimal("12345.678901234"),
    )
    return replace(record, **changes)
