"""What an engine counts itself, read off its `/metrics`, and what that says of a replica's load.

Each number has one owner: the engine counts what runs and waits on it, whoever sent it; the gateway counts
what it has in flight. The engine's word is some seconds old, so a load is its word plus what this gateway
has sent since: between two looks nobody sends everything to the one that was idle at the last. This is
the one reader of these pages; what is made of them stands on the member.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from backends.types import EngineFlavour

FRESH_SECONDS: Final = 10.0
"""For how long an engine's word on its load counts; then only what is in flight does."""

MIN_DRAFTS: Final = 50
"""Drafts after which their acceptance is known well enough to act on."""


class EngineCounts(msgspec.Struct, frozen=True):
    """What an engine said of itself; None where it says nothing.

    Attributes:
        running: Requests in its steps now.
        waiting: Requests in its queue now.
        kv_use: Share of its KV cache in use, in [0, 1].
        drafts: Drafts that were verified, since its start.
        drafted: Tokens in them.
        accepted: Tokens of them that were right.
        started: When its process started, seconds since the epoch.
    """

    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    started: float | None = None


_STARTED: Final = {"process_start_time_seconds": "started"}
_VLLM: Final = _STARTED | {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_use",
    "vllm:gpu_cache_usage_perc": "kv_use",  # as older versions call it
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "drafted",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted",
}
_LLAMA: Final = _STARTED | {
    "llamacpp:requests_processing": "running",
    "llamacpp:requests_deferred": "waiting",
    "llamacpp:spec_decode_num_drafts_total": "drafts",
    "llamacpp:spec_decode_num_draft_tokens_total": "drafted",
    "llamacpp:spec_decode_num_accepted_tokens_total": "accepted",
}
_SGLANG: Final = _STARTED | {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:token_usage": "kv_use",
}
NAMES: Final[Mapping[EngineFlavour, Mapping[str, str]]] = MappingProxyType(
    {
        EngineFlavour.VLLM: _VLLM,
        EngineFlavour.LLAMA_CPP: _LLAMA,
        EngineFlavour.SGLANG: _SGLANG,
        EngineFlavour.GENERIC: {},
    }
)
"""Which metric is which count; of an engine that nothing is known of, none is read."""

_OF_THE_WHOLE: Final = frozenset({"kv_use", "started"})
"""Counts that the parts of an engine have each for themselves: the highest is that of the whole."""

MOST: Final = 1e15
"""No count is as high."""


def read_counts(page: bytes, flavour: EngineFlavour) -> EngineCounts:
    """Read the counts off a page in Prometheus' text format.

    A server of several engine cores (data parallel) has a sample each: requests and tokens are summed, of
    the KV cache the fullest counts. Lines that cannot be read, or say what cannot be, are passed over.
    """
    names, found = NAMES[flavour], dict[str, float]()
    for line in page.decode(errors="replace").splitlines():
        metric = line.partition("{")[0].partition(" ")[0]
        count = names.get(metric)
        if count is None:
            continue
        try:
            value = float(line.rpartition("}")[2].split()[0] if "{" in line else line.split()[1])
        except (ValueError, IndexError):
            continue
        if not 0.0 <= value < MOST:
            continue
        before = found.get(count, 0.0)
        found[count] = max(before, value) if count in _OF_THE_WHOLE else before + value
    return EngineCounts(**found)


class EngineWord(msgspec.Struct, frozen=True):
    """What an engine said, when, and how many requests of this gateway were on it then."""

    counts: EngineCounts
    at: float
    in_flight: int

    def others(self, now: float) -> float:
        """Return how many requests of others are on the engine, as far as is known."""
        running, waiting = self.counts.running, self.counts.waiting
        if running is None or not self.is_fresh(now):
            return 0.0
        return max(0.0, running + (waiting or 0.0) - self.in_flight)

    def kv_use(self, now: float) -> float:
        """Return the share of its KV cache in use, in [0, 1]; 0 where it is not known."""
        return min(1.0, self.counts.kv_use or 0.0) if self.is_fresh(now) else 0.0

    def is_fresh(self, now: float) -> bool:
        """Tell whether it still counts."""
        return now - self.at <= FRESH_SECONDS


class Acceptance(msgspec.Struct):
    """How well an engine's drafts do, lately.

    Attributes:
        drafts: Verified lately; older ones fade.
        drafted: Tokens in them.
        accepted: Of these.
    """

    drafts: float = 0.0
    drafted: float = 0.0
    accepted: float = 0.0
    _last: EngineCounts = EngineCounts()

    def saw(self, counts: EngineCounts) -> None:
        """Take in what an engine counted; one that started anew counts from 0 again."""
        last, self._last = self._last, counts
        if counts.drafts is None or counts.drafted is None or counts.accepted is None:
            return
        fresh = last.drafts is None or counts.drafts < last.drafts
        drafts = counts.drafts - (0.0 if fresh else last.drafts or 0.0)
        if drafts <= 0.0:
            return
        keep = max(0.0, 1.0 - drafts / (10 * MIN_DRAFTS))
        self.drafts = keep * self.drafts + drafts
        self.drafted = keep * self.drafted + counts.drafted - (0.0 if fresh else last.drafted or 0.0)
        self.accepted = keep * self.accepted + counts.accepted - (0.0 if fresh else last.accepted or 0.0)

    def forget(self) -> None:
        """Begin anew, from what is counted from now on."""
        self.drafts = self.drafted = self.accepted = 0.0

    @property
    def rate(self) -> float | None:
        """Share of drafted tokens that were right; None while too few were seen."""
        return self.accepted / self.drafted if self.drafts >= MIN_DRAFTS and self.drafted else None

    @property
    def tokens_a_step(self) -> float | None:
        """Tokens that a step with a draft brings: one, and those of the draft that were right.

        The acceptance length of Leviathan et al. 2023 (arXiv:2211.17192); None while too few were seen.
        """
        return 1.0 + self.accepted / self.drafts if self.drafts >= MIN_DRAFTS else None
