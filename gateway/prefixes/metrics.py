"""Prefixes as Prometheus reads them: asked each time, for tenants and replicas come and go."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.prefixes.entry import Entry
from gateway.prefixes.hot import MARK
from gateway.prefixes.warming import Prefixes

FOUND = "~found"
"""Stands for all prefixes of a tenant that were found by its requests, which come and go."""

PLACE = ("tenant", "prefix", "model", "replica")


def _place(entry: Entry) -> tuple[str, str, str, str]:
    found = entry.residency
    prefix = FOUND if found.prefix.startswith(MARK) else found.prefix
    return found.tenant, prefix, found.model, found.replica


class PrefixMetrics(Collector):
    """Labels come from tenants' files and the configuration, never from a request."""

    def __init__(self, prefixes: Prefixes) -> None:
        self._prefixes = prefixes

    def collect(self) -> Iterator[Metric]:
        """Yield what is known now."""
        entries = self._prefixes.entries()
        resident = GaugeMetricFamily(
            "flashlane_prefix_resident_tokens", "Tokens of a prefix that an engine holds.", labels=PLACE
        )
        gain = GaugeMetricFamily(
            "flashlane_prefix_gain_seconds",
            "By which a first token comes sooner with a prefix that is computed.",
            labels=PLACE,
        )
        requests = CounterMetricFamily(
            "flashlane_prefix_requests",
            "Requests that begin with a registered prefix, by whether the engine had it.",
            labels=("tenant", "prefix", "outcome"),
        )
        gained = CounterMetricFamily(
            "flashlane_prefix_gained_seconds",
            "By which first tokens came sooner, in all.",
            labels=("tenant", "prefix"),
        )
        computed = CounterMetricFamily(
            "flashlane_prefix_computed",
            "Times that prefixes were computed, by any gateway.",
            labels=("replica",),
        )
        errors = CounterMetricFamily(
            "flashlane_prefix_errors", "Times that a replica could not compute one.", labels=("replica",)
        )
        tokens, gains = Counter[tuple[str, ...]](), dict[tuple[str, ...], float]()
        outcomes, seconds = Counter[tuple[str, ...]](), dict[tuple[str, ...], float]()
        times, failures = Counter[str](), Counter[str]()
        for entry in entries:
            found, place = entry.residency, _place(entry)
            tenant, prefix, _, replica = place
            tokens[place] += found.cached if found.resident else 0
            if found.gain_seconds is not None:
                gains[place] = max(found.gain_seconds, gains.get(place, 0.0))
            outcomes[tenant, prefix, "hit"] += entry.all_hits
            outcomes[tenant, prefix, "miss"] += entry.all_misses
            seconds[tenant, prefix] = seconds.get((tenant, prefix), 0.0) + entry.gained_seconds
            times[replica] += found.computed
            failures[replica] += entry.errors
        for place, number in tokens.items():
            resident.add_metric(place, number)
        for place, most in gains.items():
            gain.add_metric(place, most)
        for labels, number in outcomes.items():
            requests.add_metric(labels, number)
        for labels, total in seconds.items():
            gained.add_metric(labels, total)
        for replica, number in times.items():
            computed.add_metric([replica], number)
            errors.add_metric([replica], failures[replica])
        yield from (resident, gain, requests, gained, computed, errors)
