"""What is known of replicas and pools, as Prometheus reads it: asked each time, for replicas come and go."""

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from backends.fleet import Fleet, Member
from backends.pools.desk import PoolDesk

REPLICA = ("model", "pool", "replica")
Value = Callable[[Member], float | None]


def _running(member: Member) -> float | None:
    return member.word.counts.running if member.word else None


def _waiting(member: Member) -> float | None:
    return member.word.counts.waiting if member.word else None


def _kv_use(member: Member) -> float | None:
    return member.word.counts.kv_use if member.word else None


class FleetMetrics(Collector):
    """Reads replicas and pools for Prometheus; what an engine does not say has no sample."""

    def __init__(self, fleet: Fleet, desk: PoolDesk) -> None:
        self._fleet = fleet
        self._desk = desk

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is known now."""
        yield self._of_replicas(
            "flashlane_in_flight", "Our requests on a replica now.", lambda m: m.in_flight
        )
        yield self._of_replicas(
            "flashlane_draining", "1 for a replica about to leave.", lambda m: m.health.draining
        )
        yield self._of_replicas("flashlane_engine_running", "Requests that an engine works on.", _running)
        yield self._of_replicas("flashlane_engine_waiting", "Requests that wait in an engine.", _waiting)
        yield self._of_replicas("flashlane_engine_kv_use", "Share of an engine's KV cache in use.", _kv_use)
        yield self._of_replicas(
            "flashlane_draft_acceptance",
            "Share of drafted tokens that were right.",
            lambda m: m.acceptance.rate,
        )
        yield self._of_replicas(
            "flashlane_draft_tokens_a_step",
            "Tokens that a step with a draft brings; 1 is what it brings without.",
            lambda m: m.acceptance.tokens_a_step,
        )
        yield from self._of_models()

    def _of_replicas(self, name: str, text: str, value: Value) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=REPLICA)
        for model, member in self._fleet.members():
            found = value(member)
            if found is not None:
                family.add_metric((model, member.pool.name, member.replica.name), float(found))
        return family

    def _of_models(self) -> Iterator[GaugeMetricFamily]:
        threshold = GaugeMetricFamily(
            "flashlane_speculation_threshold",
            "Chats at once up to which a replica speculates.",
            labels=["model"],
        )
        rejected = GaugeMetricFamily(
            "flashlane_speculation_rejected",
            "1 while the latency pool rests for bad drafts.",
            labels=["model"],
        )
        pace = GaugeMetricFamily(
            "flashlane_inter_token_seconds", "Seconds a token, lately.", labels=["model", "kind"]
        )
        for model, known in self._desk.speculations.items():
            threshold.add_metric([model], known.threshold)
            rejected.add_metric([model], float(self._desk.is_rejected(model)))
            for kind, line in (("latency", known.latency), ("throughput", known.throughput)):
                if line.weight:
                    pace.add_metric([model, kind], line.lately)
        yield from (threshold, rejected, pace)
