"""The tier in host memory: vLLM's, with GSM's order of eviction and GSM's rules of what is kept."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from time import monotonic

from typing_extensions import override
from vllm.v1.kv_offload.base import (
    Medium,
    OffloadingEvent,
    OffloadKey,
    PrepareStoreOutput,
    ReqContext,
    get_offload_group_idx,
)
from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, ChunkStatus
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.manager import CPUPrimaryTierOffloadingManager

from backends.gsm.engine import statistics
from backends.gsm.engine.chain import PageShape, RequestChain
from backends.gsm.engine.pages import PageOrder
from backends.gsm.engine.settings import GsmSettings
from backends.gsm.engine.statistics import GsmStatistics


class GsmCachePolicy(CachePolicy):
    """vLLM's seam for the order of eviction.

    `order` and `chain` are set by `GsmHostTier` before anything else is called.
    """

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self.order = PageOrder(cache_capacity, 0.0, monotonic)
        self.chain: RequestChain | None = None
        self._chunks: dict[OffloadKey, ChunkStatus] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    @override
    def get(self, key: OffloadKey) -> ChunkStatus | None:
        """Find a page."""
        return self._chunks.get(key)

    @override
    def insert(self, key: OffloadKey, chunk: ChunkStatus) -> None:
        """Hold a page that is being written, behind its place in the chain of the request that brings it."""
        if self.chain is None:
            raise RuntimeError("a page came without the request that it belongs to")
        self._chunks[key] = chunk
        self.order.add(key, self.chain.parent(key), busy=True)

    @override
    def remove(self, key: OffloadKey) -> None:
        """Forget a page that could not be written."""
        del self._chunks[key]
        self.order.discard(key)

    @override
    def touch(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None:
        """Count nothing: uses are counted once a request, when it ends."""

    @override
    def on_store_miss(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None:
        """Nothing is learnt from a page that is not there; `insert` counts as its use."""

    @override
    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[OffloadKey]],
        insertion_only_keys: set[OffloadKey],
        reused_keys: set[OffloadKey],
        req_context: ReqContext,
    ) -> None:
        """Count the use of all pages of a request, those among them that the engine had itself."""
        chain = req_context.get_state(RequestChain)
        for keys in chain.pages.values() if chain is not None else ():
            self.order.use(keys)

    @override
    def evict(self, n: int, protected: set[OffloadKey]) -> list[tuple[OffloadKey, ChunkStatus]]:
        """Give up as many pages as may go, up to `n`."""
        return [
            (OffloadKey(key), self._chunks.pop(OffloadKey(key))) for key in self.order.evict(n, protected)
        ]

    @override
    def clear(self) -> None:
        """Hold nothing."""
        self._chunks.clear()
        self.order.clear()

    @override
    def mark_evictable(self, key: OffloadKey) -> None:
        """Note that no transfer uses a page any longer."""
        self.order.release(key)

    @override
    def mark_non_evictable(self, key: OffloadKey) -> None:
        """Note that a transfer uses a page."""
        self.order.hold(key)


class GsmHostTier(CPUPrimaryTierOffloadingManager):
    """The primary tier of vLLM's tiering, whose pages are kept by the rules of GSM."""

    def __init__(
        self,
        *,
        num_pages: int,
        page_bytes: int,
        region: SharedOffloadRegion,
        shape: PageShape,
        settings: GsmSettings,
        counts: GsmStatistics,
        enable_events: bool,
    ) -> None:
        super().__init__(
            num_chunks=num_pages,
            mmap_region=region,
            cache_policy=GsmCachePolicy.__name__,
            cache_policy_module_path=GsmCachePolicy.__module__,
            enable_events=enable_events,
        )
        if not isinstance(self._policy, GsmCachePolicy):
            raise TypeError(f"vLLM took {type(self._policy).__name__} for GSM's order of eviction")
        self._pages = self._policy
        self._pages.order = PageOrder(num_pages, settings.min_ttl, monotonic)
        self._page_bytes = page_bytes
        self._shape = shape
        self._max_groups = settings.max_groups
        self._counts = counts
        self.prepare_write = self._prepare_promotion  # vLLM's alias for what tiers below bring up

    @property
    def order(self) -> PageOrder:
        """The order of eviction, which has the pins."""
        return self._pages.order

    @property
    def num_pages(self) -> int:
        """The size of the tier."""
        return self._num_chunks

    def holds(self, key: OffloadKey) -> bool:
        """Return whether a page is here, or on its way."""
        return self._pages.get(key) is not None

    @override
    def prepare_store(
        self, keys: Collection[OffloadKey], req_context: ReqContext
    ) -> PrepareStoreOutput | None:
        """Make room for the pages that are to be kept, and name their places.

        What is not kept is not offered again for this request: pages behind `max_groups`, those for which
        there is no room, and those behind them.
        """
        chain = RequestChain.of(req_context, self._shape)
        keys = self._wanted(list(keys), chain)
        # With several sets of layers all have to end at the same token to be of use.
        new = sorted((key for key in keys if not self.holds(key)), key=chain.end)
        gone = self._make_room(len(new), chain)
        left_out = set(new[self._get_num_free_chunks() :])
        if left_out:
            self._refuse(left_out, chain, "no_room")
            keys = [key for key in keys if key not in left_out]
        return self._take(keys, gone, chain, req_context)

    def _prepare_promotion(
        self, keys: Collection[OffloadKey], req_context: ReqContext
    ) -> PrepareStoreOutput | None:
        """Make room for pages that a tier below has, or return None; the pages are then computed anew."""
        chain = RequestChain.of(req_context, self._shape)
        gone = self._make_room(len(keys), chain)
        if self._get_num_free_chunks() < len(keys):
            return None
        return self._take(list(keys), gone, chain, req_context)

    def _take(
        self, keys: list[OffloadKey], gone: list[OffloadKey], chain: RequestChain, request: ReqContext
    ) -> PrepareStoreOutput | None:
        self._pages.chain = chain
        output = super().prepare_store(keys, request)
        self._pages.chain = None
        if output is None:
            return None
        chain.kept.update(keys)
        self._counts.held(statistics.HOST, len(self._pages), self._page_bytes)
        return replace(output, evicted_keys=gone)

    def _wanted(self, keys: list[OffloadKey], chain: RequestChain) -> list[OffloadKey]:
        """Return what the rules let in; of each set of layers a run from its first key on."""
        wanted: dict[OffloadKey, None] = {}
        for key in keys:
            layers = get_offload_group_idx(key)
            ended = chain.ended.get(layers)
            if ended is not None and chain.index.get(key, ended) >= ended:
                self._counts.count(statistics.REFUSED, 1, statistics.HOST, "behind")
            elif chain.group(key) >= self._max_groups:
                self._counts.count(statistics.REFUSED, 1, statistics.HOST, "max_groups")
            elif self._went(chain.parent(key), chain, wanted):
                self._refuse([key], chain, "behind")
            else:
                wanted[key] = None
        return list(wanted)

    def _went(self, parent: OffloadKey | None, chain: RequestChain, wanted: Collection[OffloadKey]) -> bool:
        """Return whether a page went while its request was still being computed; behind it were a hole."""
        return parent is not None and parent in chain.kept and parent not in wanted and not self.holds(parent)

    def _refuse(self, keys: Collection[OffloadKey], chain: RequestChain, reason: str) -> None:
        self._counts.count(statistics.REFUSED, len(keys), statistics.HOST, reason)
        for key in keys:
            if key in chain.index:
                layers = get_offload_group_idx(key)
                chain.ended[layers] = min(chain.ended.get(layers, chain.index[key]), chain.index[key])

    def _make_room(self, pages: int, chain: RequestChain) -> list[OffloadKey]:
        """Evict until `pages` fit, or nothing more may go; never what is in front of the pages to come."""
        missing = pages - self._get_num_free_chunks()
        if missing <= 0:
            return []
        gone = self._pages.evict(missing, set(chain.index))
        for _, chunk in gone:
            self._free_chunk(chunk)
        self._num_evictable_cache_chunks -= len(gone)
        keys = [key for key, _ in gone]
        if keys and self.events is not None:
            self.events.append(OffloadingEvent(keys=keys, medium=Medium.CPU, removed=True))
        self._counts.count(statistics.EVICTED, len(keys), statistics.HOST)
        return keys
