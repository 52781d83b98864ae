"""Prometheus metrics. Labels are bounded: tenants, models and replicas come from the configuration."""

import asyncio
import collections

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.registry import Collector

from backends.fleet import Fleet
from backends.pools.desk import PoolDesk
from gateway.fleet_metrics import FleetMetrics
from gateway.records import RequestRecord
from gateway.second_stage import Outcome

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
BATCH = 128
"""Requests that are counted together."""

OVERHEAD_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)


_Outcome = tuple[str, str, str, str, str]
"""Tenant, model, status, code of the error, and the rule that decided."""


class Telemetry:
    """What the gateway counts and times."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._settled: list[RequestRecord] = []
        self._began = collections.Counter[tuple[str, str, str]]()
        registry = self._registry
        self._requests = Counter(
            "flashlane_requests",
            "Requests by outcome.",
            ("tenant", "model", "status", "code"),
            registry=registry,
        )
        self._decisions = Counter(
            "flashlane_decisions",
            "Requests that a model answered, by the rule that decided; a fallback counts where it ended.",
            ("tenant", "model", "rule"),
            registry=registry,
        )
        self._tokens = Counter(
            "flashlane_tokens",
            "Tokens by kind: prompt (cached ones included), cached, completion.",
            ("tenant", "model", "kind"),
            registry=registry,
        )
        self._cost = Counter("flashlane_cost_usd", "Cost in USD.", ("tenant", "model"), registry=registry)
        self._total = Histogram(
            "flashlane_request_duration_seconds",
            "From the request to the end of its answer.",
            ("model",),
            buckets=SECONDS,
            registry=registry,
        )
        self._ttft = Histogram(
            "flashlane_time_to_first_token_seconds",
            "From the request to the first token of a stream.",
            ("model",),
            buckets=SECONDS,
            registry=registry,
        )
        self._overhead = Histogram(
            "flashlane_overhead_seconds",
            "From the request until the engine is asked.",
            buckets=OVERHEAD_SECONDS,
            registry=registry,
        )
        self._upstream_errors = Counter(
            "flashlane_upstream_errors",
            "Answers that a replica could not start or finish.",
            ("replica", "kind"),
            registry=registry,
        )
        self._placed = Counter(
            "flashlane_pool_requests",
            "Answers that began in a pool, by why a pool was tried first.",
            ("model", "pool", "why"),
            registry=registry,
        )
        self._refused = Counter(
            "flashlane_refused", "Requests refused before a tenant was known.", ("code",), registry=registry
        )
        self._classifier_errors = Counter(
            "flashlane_classifier_errors",
            "Requests for `auto` that were decided without an estimate.",
            registry=registry,
        )
        self._second_stage = Counter(
            "flashlane_second_stage",
            "Requests that a sentence encoder was to score: used; or the first stage stood, as it was late, "
            "full (all its threads at work) or failed.",
            ("outcome",),
            registry=registry,
        )
        self._gains_errors = Counter(
            "flashlane_task_gains_errors",
            "Times that what tasks gained could not be read from Redis; what was read last is used.",
            registry=registry,
        )
        self._prefix_tokens = Counter(
            "flashlane_prefix_tokens",
            "Tokens of prompts that a replica was taken to hold (predicted), and did hold (cached); of the "
            "same answers, whose engine tells.",
            ("replica", "kind"),
            registry=registry,
        )
        self._volatile = Counter(
            "flashlane_volatile_prefixes",
            "Requests with what looks like a clock or an id near the head of the system prompt.",
            ("tenant",),
            registry=registry,
        )
        self._ledger_errors = Counter(
            "flashlane_ledger_errors",
            "Records that could not be written; they are in the log.",
            registry=registry,
        )

    def watch(self, fleet: Fleet, desk: PoolDesk) -> None:
        """Show what is known of every replica and pool whenever somebody looks."""
        self._registry.register(FleetMetrics(fleet, desk))

    def placed(self, model: str, pool: str, why: str) -> None:
        """Count one request whose answer has begun; for the counter before anyone looks."""
        self._began[model, pool, why] += 1

    def watch_prefixes(self, prefixes: Collector) -> None:
        """Show how tenants' prefixes stand."""
        self._registry.register(prefixes)

    def settled(self, record: RequestRecord) -> None:
        """Count one request whose tenant is known.

        Requests are counted some at a time, which takes a third of the time, and before anyone looks.
        """
        self._settled.append(record)
        if len(self._settled) >= BATCH:
            self._count_settled()

    def _count_settled(self) -> None:
        settled, self._settled = self._settled, []
        alike: dict[_Outcome, list[RequestRecord]] = {}
        for record in settled:
            rule = record.reason.partition(":")[0]
            outcome = (record.tenant, record.model, record.status, record.error, rule)
            alike.setdefault(outcome, []).append(record)
        for outcome, records in alike.items():
            self._count_alike(outcome, records)

    def _count_begun(self) -> None:
        began, self._began = self._began, collections.Counter[tuple[str, str, str]]()
        for labels, times in began.items():
            self._placed.labels(*labels).inc(times)

    def _count_alike(self, outcome: _Outcome, records: list[RequestRecord]) -> None:
        """Count requests that ended in the same way, so that each counter is looked up and moved once."""
        tenant, model, status, error, rule = outcome
        self._requests.labels(tenant, model, status, error).inc(len(records))
        for record in records:
            self._overhead.observe(record.overhead_ms / 1000)
        if not model:
            return
        self._decisions.labels(tenant, model, rule).inc(len(records))
        self._tokens.labels(tenant, model, "prompt").inc(sum([each.prompt_tokens for each in records]))
        self._tokens.labels(tenant, model, "cached").inc(sum([each.cached_tokens for each in records]))
        self._tokens.labels(tenant, model, "completion").inc(
            sum([each.completion_tokens for each in records])
        )
        self._cost.labels(tenant, model).inc(float(sum([each.cost_usd for each in records])))
        total, ttft = self._total.labels(model), self._ttft.labels(model)
        for record in records:
            total.observe(record.total_ms / 1000)
            if record.ttft_ms is not None:
                ttft.observe(record.ttft_ms / 1000)

    def refused(self, code: str) -> None:
        """Count one request that was refused before its tenant was known."""
        self._refused.labels(code).inc()

    def upstream_failed(self, replica: str, error: Exception) -> None:
        """Count one answer that a replica could not start or finish."""
        self._upstream_errors.labels(replica, type(error).__name__).inc()

    def prefix_told(self, replica: str, predicted: int, cached: int) -> None:
        """Count what a replica was taken to hold of a prompt, and what it did."""
        self._prefix_tokens.labels(replica, "predicted").inc(predicted)
        self._prefix_tokens.labels(replica, "cached").inc(cached)

    def volatile_prefix(self, tenant: str) -> None:
        """Count one request whose prefix cannot be reused by the next."""
        self._volatile.labels(tenant).inc()

    def classifier_failed(self) -> None:
        """Count one request that had to be decided without an estimate."""
        self._classifier_errors.inc()

    def second_stage(self, outcome: Outcome) -> None:
        """Count one request that has a second stage."""
        self._second_stage.labels(outcome).inc()

    def gains_not_read(self) -> None:
        """Count one time that what tasks gained could not be read."""
        self._gains_errors.inc()

    def ledger_failed(self) -> None:
        """Count one record that could not be written."""
        self._ledger_errors.inc()

    async def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        self._count_settled()
        self._count_begun()
        return await asyncio.to_thread(generate_latest, self._registry)
