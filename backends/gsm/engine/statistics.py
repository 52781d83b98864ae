"""What GSM counts; it stands on the vLLM server's `/metrics` beside vLLM's own numbers."""

from collections import Counter
from typing import Final

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.v1.kv_offload.base import (
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingMetricMetadata,
)

from backends.gsm.metric_names import (
    ASKED,
    DISK,
    EVICTED,
    GROUPS,
    HEADS,
    HELD,
    HOST,
    ON,
    PEAK,
    PINNED,
    REBUILT,
    REFUSED,
    REUSED,
    SKIPPED,
)

__all__ = ["ASKED", "DISK", "EVICTED", "HEADS", "HOST", "REBUILT", "REFUSED", "REUSED", "SKIPPED"]

DEFINITIONS: Final[dict[str, OffloadingMetricMetadata]] = {
    ON: OffloadingGaugeMetadata("1 while GSM reuses prefixes, 0 when its settings stand in the way."),
    ASKED: OffloadingCounterMetadata("Tokens of whole pages in the requests that came, once a request."),
    REUSED: OffloadingCounterMetadata(
        "Tokens loaded instead of computed, by the tier they came from.", ("tier",)
    ),
    HEADS: OffloadingCounterMetadata("Groups that differ and whose unchanged head was loaded."),
    REBUILT: OffloadingCounterMetadata(
        "Groups of which too much differs, computed anew from their first page."
    ),
    EVICTED: OffloadingCounterMetadata("Pages given up to make room.", ("tier",)),
    REFUSED: OffloadingCounterMetadata(
        "Pages that were not kept: behind the last group of a sequence (max_groups), no room that may be "
        "taken (no_room), behind a page that was not kept (behind), a write that failed (failed).",
        ("tier", "reason"),
    ),
    SKIPPED: OffloadingCounterMetadata(
        "Files of the disk tier that were not used: corrupt, foreign.", ("reason",)
    ),
    GROUPS: OffloadingGaugeMetadata(
        "Groups that the pages held now make, parts of a group counted as parts.", ("tier",)
    ),
    HELD: OffloadingGaugeMetadata("Bytes of the pages held now.", ("tier",)),
    PEAK: OffloadingGaugeMetadata("The most bytes of pages held since the start.", ("tier",)),
    PINNED: OffloadingGaugeMetadata("Pages that are pinned."),
}
"""Prometheus definitions; Prometheus adds `_total` to the names of counters."""


class GsmStatistics:
    """Counts between two looks of vLLM; used by the scheduler's thread alone."""

    def __init__(self, group_pages: int) -> None:
        """Begin at 0; `group_pages` are the pages of a whole group, of all sets of layers."""
        self._group_pages = group_pages
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._peaks: dict[str, int] = {}
        self._gauges: dict[tuple[str, tuple[str, ...]], float] = {(ON, ()): 1}

    def count(self, name: str, amount: int = 1, *labels: str) -> None:
        """Add to a counter."""
        if amount:
            self._counts[name, labels] += amount

    def held(self, tier: str, pages: int, page_bytes: int) -> None:
        """Note what a tier holds now."""
        size = pages * page_bytes
        self._gauges[GROUPS, (tier,)] = pages / self._group_pages
        self._peaks[tier] = max(self._peaks.get(tier, 0), size)
        self._gauges[HELD, (tier,)] = size
        self._gauges[PEAK, (tier,)] = self._peaks[tier]

    def pinned(self, pages: int) -> None:
        """Note how many pages are pinned now."""
        self._gauges[PINNED, ()] = pages

    def take(self) -> OffloadingConnectorStats:
        """Return what has been counted since the last call, and how things stand."""
        stats = OffloadingConnectorStats()
        for (name, labels), amount in self._counts.items():
            stats.increase_counter(name, amount, labels)
        self._counts.clear()
        for (name, labels), value in self._gauges.items():
            stats.set_gauge(name, value, labels)
        return stats
