"""What the GSM of an engine holds and did, read off the page of its `/metrics`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from backends.gsm import metric_names as names
from backends.gsm.errors import GsmNotShown

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_OWN_ASKED = "vllm:prefix_cache_queries_total"
_OWN_HITS = "vllm:prefix_cache_hits_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierShown:
    """One tier.

    Attributes:
        groups: Groups that its pages make; None where the engine's GSM is older than this count.
        held_bytes: Of its pages now.
        peak_bytes: The most since the engine started.
        reused_tokens: Loaded from it instead of computed.
        evicted_pages: Given up to make room.
        refused_pages: Not kept, by reason.
    """

    groups: float | None
    held_bytes: int
    peak_bytes: int
    reused_tokens: int
    evicted_pages: int
    refused_pages: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GsmShown:
    """The GSM of an engine. Counts are since the engine started.

    Attributes:
        on: Whether it reuses prefixes; else its settings stand in the way.
        asked_tokens: Of whole pages in the requests that came.
        reused_tokens: Of these, loaded from a tier.
        hit_rate: Their quotient; None before the first request.
        engine_hit_rate: Share of prompt tokens that the engine's own cache had; None where it does not say.
        reused_heads: Groups that differ and whose unchanged head was loaded.
        rebuilt_groups: Groups of which too much differs.
        pinned_pages: Pages that are pinned now.
        skipped_files: Files of the disk tier that were not used, by reason.
        tiers: What is in host memory and on disk; a tier that never held a page is not there.
    """

    on: bool
    asked_tokens: int
    reused_tokens: int
    hit_rate: float | None
    engine_hit_rate: float | None
    reused_heads: int
    rebuilt_groups: int
    pinned_pages: int
    skipped_files: Mapping[str, int]
    tiers: Mapping[str, TierShown]


@dataclass(slots=True)
class _Samples:
    """Values by name and labels; an engine of several cores has a sample each, and they are added up."""

    all: list[tuple[str, dict[str, str], float]] = field(
        default_factory=list[tuple[str, dict[str, str], float]]
    )

    def total(self, name: str, **labels: str) -> int:
        return round(sum(value for _, value in self._of(name, labels)))

    def by(self, label: str, name: str, **labels: str) -> dict[str, int]:
        totals: dict[str, float] = {}
        for found, value in self._of(name, labels):
            totals[found.get(label, "")] = totals.get(found.get(label, ""), 0.0) + value
        return {key: round(value) for key, value in sorted(totals.items())}

    def values(self, name: str, **labels: str) -> list[float]:
        return [value for _, value in self._of(name, labels)]

    def _of(self, name: str, labels: Mapping[str, str]) -> Iterator[tuple[dict[str, str], float]]:
        for found, own, value in self.all:
            if found == name and labels.items() <= own.items():
                yield own, value


def read_shown(page: bytes) -> GsmShown:
    """Read the metrics of GSM off a page in Prometheus' text format.

    Raises:
        GsmNotShown: There are none on it.
    """
    samples = _read(page)
    states = samples.values(names.ON)
    if not states:
        raise GsmNotShown(
            "it runs without GSM; start it with --kv-transfer-config as docs/gsm-engine.md says"
            if samples.all
            else "it has no page of metrics of an engine that GSM runs in"
        )
    asked = samples.total(_counter(names.ASKED))
    reused = samples.total(_counter(names.REUSED))
    own_asked = samples.total(_OWN_ASKED)
    tiers = {tier: _tier(samples, tier) for tier in (names.HOST, names.DISK)}
    return GsmShown(
        on=all(states),
        asked_tokens=asked,
        reused_tokens=reused,
        hit_rate=reused / asked if asked else None,
        engine_hit_rate=samples.total(_OWN_HITS) / own_asked if own_asked else None,
        reused_heads=samples.total(_counter(names.HEADS)),
        rebuilt_groups=samples.total(_counter(names.REBUILT)),
        pinned_pages=samples.total(names.PINNED),
        skipped_files=samples.by("reason", _counter(names.SKIPPED)),
        tiers={name: tier for name, tier in tiers.items() if tier is not None},
    )


def _tier(samples: _Samples, tier: str) -> TierShown | None:
    if not samples.values(names.HELD, tier=tier):
        return None
    groups = samples.values(names.GROUPS, tier=tier)
    return TierShown(
        groups=sum(groups) if groups else None,
        held_bytes=samples.total(names.HELD, tier=tier),
        peak_bytes=samples.total(names.PEAK, tier=tier),
        reused_tokens=samples.total(_counter(names.REUSED), tier=tier),
        evicted_pages=samples.total(_counter(names.EVICTED), tier=tier),
        refused_pages=samples.by("reason", _counter(names.REFUSED), tier=tier),
    )


def _counter(name: str) -> str:
    return f"{name}_total"


def _read(page: bytes) -> _Samples:
    """Read samples of vLLM; lines that cannot be read are passed over."""
    samples = _Samples()
    for line in page.decode(errors="replace").splitlines():
        found = _SAMPLE.fullmatch(line.strip()) if line.startswith("vllm:") else None
        if found is None:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        if 0.0 <= value < float("inf"):
            samples.all.append((found["name"], dict(_LABEL.findall(found["labels"] or "")), value))
    return samples
