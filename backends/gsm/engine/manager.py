"""GSM's rules of reuse on vLLM's tiers, in the scheduler's process."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    LoadStoreSpec,
    LookupResult,
    OffloadingManager,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    RequestOffloadingContext,
    get_offload_group_idx,
)
from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec
from vllm.v1.kv_offload.tiering.base import SecondaryTierManager
from vllm.v1.kv_offload.tiering.manager import TieringOffloadingManager
from vllm.v1.metrics.cache_hit_source import CacheHitSource

from backends.gsm.engine import statistics
from backends.gsm.engine.chain import PageShape, RequestChain
from backends.gsm.engine.disk import GsmDiskTier
from backends.gsm.engine.host import GsmHostTier
from backends.gsm.engine.settings import GsmSettings
from backends.gsm.engine.statistics import GsmStatistics

logger = init_logger(__name__)

PIN: Final = "gsm_pin"
"""In a request's `kv_transfer_params`: true pins the pages of its prompt when it ends, false lets them go."""

_PINNED_SHARE: Final = 0.5  # of the host tier at most, so that something can always be kept


@dataclass(slots=True)
class _Asked:
    """What is counted once a request, however often vLLM looks."""

    tokens: bool = False
    rebuilt: set[OffloadKey] = field(default_factory=set[OffloadKey])


class GsmManager(TieringOffloadingManager):
    """vLLM's tiers with GSM's rebuild threshold, pins and statistics."""

    def __init__(
        self,
        host: GsmHostTier,
        tiers: list[SecondaryTierManager],
        shape: PageShape,
        settings: GsmSettings,
        counts: GsmStatistics,
    ) -> None:
        super().__init__(primary_tier=host, secondary_tiers=tiers)
        self._host = host
        self._disk = next((tier for tier in tiers if isinstance(tier, GsmDiskTier)), None)
        # Of other tiers nobody knows what they hold before they were asked page by page.
        self._knows_all = all(isinstance(tier, GsmDiskTier) for tier in tiers)
        self._shape = shape
        self._threshold = settings.rebuild_threshold
        self._counts = counts

    @override
    def lookup(
        self, key: OffloadKey, req_context: ReqContext, *, exclude_tier_idx: int | None = None
    ) -> LookupResult:
        """Say whether a page can be loaded; vLLM asks from the first page on that the engine lacks."""
        chain = RequestChain.of(req_context, self._shape)
        self._note_asked(chain, req_context)
        if self._knows_all and key in chain.index and self._rebuilds(key, chain, req_context):
            return LookupResult.MISS
        return super().lookup(key, req_context, exclude_tier_idx=exclude_tier_idx)

    @override
    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        """Protect pages while they are loaded, and count them."""
        chain = RequestChain.of(req_context, self._shape)
        layers = min(chain.pages, default=0)  # tokens are counted on one set of layers
        counted = [key for key in keys if get_offload_group_idx(key) == layers]
        for key in counted:
            disk = self.get_load_source(key, req_context) is CacheHitSource.DISK
            tier = statistics.DISK if disk else statistics.HOST
            self._counts.count(statistics.REUSED, self._shape.page_tokens[layers], tier)
        if counted and counted[-1] in chain.index:
            # The last one ends its group, or there is more of the group that was not there.
            self._counts.count(statistics.HEADS, int(counted[-1] != chain.group_pages(counted[-1])[-1]))
        return super().prepare_load(keys, req_context)

    @override
    def prepare_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext
    ) -> PrepareStoreOutput | None:
        """Take pages that were computed."""
        self._note_asked(RequestChain.of(req_context, self._shape), req_context)
        return super().prepare_store(keys, req_context)

    @override
    def on_request_finished(self, req_context: ReqContext, *, exclude_tier_idx: int | None = None) -> None:
        """Note the use of all pages of the request, and pin or unpin them as it asked."""
        wish = (req_context.kv_transfer_params or {}).get(PIN)
        keys = list(RequestChain.of(req_context, self._shape).index)
        if wish is True:
            self._pin([key for key in keys if self._host.holds(key)])
        elif wish is False:
            self._unpin(keys)
        elif wish is not None:
            logger.warning("%s has to be true or false, not %r; nothing was pinned", PIN, wish)
        super().on_request_finished(req_context, exclude_tier_idx=exclude_tier_idx)

    @override
    def reset_cache(self) -> None:
        """Forget everything, on disk too: after an update of weights the same tokens have other values."""
        super().reset_cache()
        if self._disk is not None:
            self._disk.clear()
        self._counts.held(statistics.HOST, 0, 0)
        self._counts.pinned(0)

    @override
    def get_stats(self) -> OffloadingConnectorStats:
        """Return what was counted since the last call."""
        stats = self._counts.take()
        if (theirs := super().get_stats()) is not None:
            stats.aggregate(theirs)
        return stats

    def _note_asked(self, chain: RequestChain, request: ReqContext) -> None:
        asked = self._asked(request)
        if not asked.tokens and chain.pages:
            asked.tokens = True
            layers = min(chain.pages)
            self._counts.count(statistics.ASKED, len(chain.pages[layers]) * self._shape.page_tokens[layers])

    def _asked(self, request: ReqContext) -> _Asked:
        if (asked := request.get_state(_Asked)) is None:
            asked = _Asked()
            request.set_state(asked)
        return asked

    def _rebuilds(self, key: OffloadKey, chain: RequestChain, request: ReqContext) -> bool:
        """Return whether too much of the group of `key` differs for its head to be loaded.

        Pages before `key` are unchanged: vLLM has them in the engine, or has found them here a moment ago.
        """
        pages = chain.group_pages(key)
        same = pages.index(key)
        while same < len(pages) and self._is_held(pages[same]):
            same += 1
        # A group that was cut short goes on here; nothing of it differs.
        differs = same > 0 and self._is_followed(pages[same - 1])
        rebuilds = differs and 1 - same / len(pages) > self._threshold
        if rebuilds and self._is_held(key):
            asked = self._asked(request)
            self._counts.count(statistics.REBUILT, int(pages[0] not in asked.rebuilt))
            asked.rebuilt.add(pages[0])
        return rebuilds

    def _is_followed(self, key: OffloadKey) -> bool:
        return self._host.order.is_followed(key) or (
            self._disk is not None and self._disk.order.is_followed(key)
        )

    def _is_held(self, key: OffloadKey) -> bool:
        return self._host.holds(key) or (self._disk is not None and self._disk.holds(key))

    def _pin(self, keys: list[OffloadKey]) -> None:
        order = self._host.order
        pinned = order.pinned + sum(not order.is_pinned(key) for key in keys)
        if pinned > self._host.num_pages * _PINNED_SHARE:
            logger.warning(
                "%d pages would be pinned, more than half of the %d of the host tier; they are kept, but not "
                "pinned: unpin others or raise gsm_host_bytes",
                pinned,
                self._host.num_pages,
            )
            return
        order.pin(keys)
        if self._disk is not None:
            self._disk.order.pin(keys)
        self._counts.pinned(order.pinned)

    def _unpin(self, keys: list[OffloadKey]) -> None:
        self._host.order.unpin(keys)
        if self._disk is not None:
            self._disk.order.unpin(keys)
        self._counts.pinned(self._host.order.pinned)


class IdleManager(OffloadingManager):
    """The manager of a server whose GSM is off: it holds nothing and keeps nothing."""

    def __init__(self) -> None:
        self._said = False

    @override
    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """Find nothing."""
        return LookupResult.MISS

    @override
    def prepare_load(self, keys: Collection[OffloadKey], req_context: ReqContext) -> LoadStoreSpec:
        """Refuse: nothing was found."""
        raise RuntimeError("GSM is off in this server; nothing was kept")

    @override
    def prepare_store(self, keys: Collection[OffloadKey], req_context: ReqContext) -> PrepareStoreOutput:
        """Keep nothing."""
        return PrepareStoreOutput(keys_to_store=[], store_spec=CPULoadStoreSpec([]), evicted_keys=[])

    @override
    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Let a request pass."""
        return RequestOffloadingContext()

    @override
    def get_stats(self) -> OffloadingConnectorStats | None:
        """Say once that GSM is off."""
        if self._said:
            return None
        self._said = True
        stats = OffloadingConnectorStats()
        stats.set_gauge(statistics.ON, 0)
        return stats
