"""vLLM's scheduler and worker side in one process, without a model: real classes of vLLM around GSM's."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from vllm.v1.kv_offload.base import (
    CanonicalKVCacheRef,
    CanonicalKVCaches,
    CanonicalKVCacheTensor,
    GPULoadStoreSpec,
    LookupResult,
    OffloadKey,
    ReqContext,
    ScheduleEndContext,
    make_offload_key,
)
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)

from backends.gsm.engine.manager import GsmManager
from backends.gsm.engine.spec import GsmOffloadingSpec

BLOCK = 64  # tokens; a page is two
LAYERS = 3
BLOCK_BYTES = 4096  # of one layer
PAGE_BYTES = 2 * LAYERS * BLOCK_BYTES


def offloading_config(engine_id: str, extra: dict[str, Any], groups: int = 1) -> OffloadingConfig:
    """Return what vLLM would hand to a spec."""
    return OffloadingConfig(
        groups=tuple(
            OffloadingGroupConfig(BLOCK, tuple(f"layer.{index}.{layer}" for layer in range(LAYERS)), index)
            for index in range(groups)
        ),
        worker_kv_bytes_per_block=LAYERS * BLOCK_BYTES,
        enable_kv_cache_events=False,
        extra_config=extra,
        engine_id=engine_id,
        model=OffloadingModelConfig("a-model", "float32"),
        cache=OffloadingCacheConfig(tokens_per_hash=BLOCK, blocks_per_chunk=1),
        parallel=OffloadingParallelConfig(
            rank=0,
            world_size=1,
            tp_size=1,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=True,
        ),
    )


def name(tokens: str) -> bytes:
    """Return vLLM's name of a prefix."""
    return sha256(tokens.encode()).digest()


class BareEngine:
    """Prompts are strings, one letter a page of two blocks; a KV value is a hash of its prefix."""

    def __init__(self, engine_id: str, blocks: int = 64, **settings: Any) -> None:
        self.spec = GsmOffloadingSpec(offloading_config(engine_id, settings))
        self.blocks = np.zeros((LAYERS, blocks, BLOCK_BYTES), np.int8)
        tensors = [torch.from_numpy(layer) for layer in self.blocks]
        self.worker = self.spec.get_worker(
            CanonicalKVCaches(
                [CanonicalKVCacheTensor(tensor, BLOCK_BYTES) for tensor in tensors],
                [[CanonicalKVCacheRef(index, BLOCK_BYTES) for index in range(LAYERS)]],
            )
        )
        manager = self.spec.get_manager()
        assert isinstance(manager, GsmManager)
        self.manager = manager
        self._jobs = 0
        self._requests = 0

    def close(self) -> None:
        self.manager.shutdown()
        self.worker.shutdown()

    def begin(self, prompt: str, **params: Any) -> tuple[ReqContext, list[OffloadKey]]:
        """Take a request in."""
        self._requests += 1
        request = ReqContext(f"request-{self._requests}", kv_transfer_params=params or None)
        self.manager.on_new_request(request)
        keys = [make_offload_key(name(prompt[: end + 1]), 0) for end in range(len(prompt))]
        for end, key in enumerate(keys, 1):
            request.set_offload_key_position(key, end * 2 * BLOCK)
        return request, keys

    def found(self, request: ReqContext, keys: Sequence[OffloadKey]) -> int:
        """Return how many pages from the first on can be loaded, as vLLM's scheduler looks for them."""
        while True:
            hits, waits = 0, False
            for key in keys:
                result = self.manager.lookup(key, request)
                if result is LookupResult.MISS:
                    break
                hits += 1
                waits |= result is not LookupResult.HIT
            self._step()
            if not waits:
                return hits

    def load(self, request: ReqContext, keys: Sequence[OffloadKey], into: Sequence[int]) -> None:
        """Load pages into blocks, two a page."""
        source = self.manager.prepare_load(keys, request)
        target = GPULoadStoreSpec(list(into), group_sizes=[len(into)], block_indices=[0])
        self._jobs += 1
        assert self.worker.submit_load(self._jobs, source, target)
        self._finish()
        self.manager.complete_load(keys, request)

    def save(
        self, request: ReqContext, keys: Sequence[OffloadKey], out_of: Sequence[int]
    ) -> list[OffloadKey]:
        """Offer pages to be kept; return those that are being kept now."""
        output = self.manager.prepare_store(keys, request)
        assert output is not None
        kept = output.keys_to_store
        if kept:
            blocks = [
                block for at, key in enumerate(keys) if key in kept for block in out_of[2 * at : 2 * at + 2]
            ]
            source = GPULoadStoreSpec(blocks, group_sizes=[len(blocks)], block_indices=[0])
            self._jobs += 1
            assert self.worker.submit_store(self._jobs, source, output.store_spec)
            self._finish()
            self.manager.complete_store(set(kept), request)
        return kept

    def run(self, prompt: str, **params: Any) -> int:
        """Serve a request: load what is kept, compute the rest, offer all; return how many pages were loaded.

        Raises:
            AssertionError: What was loaded is not what was computed.
        """
        request, keys = self.begin(prompt, **params)
        hits = self.found(request, keys)
        blocks = list(range(2 * len(keys)))
        self.blocks[:] = 0
        if hits:
            self.load(request, keys[:hits], blocks[: 2 * hits])
        for at in range(hits, len(keys)):
            self._compute(prompt[: at + 1], blocks[2 * at : 2 * at + 2])
        for at in range(len(keys)):
            expected = self.blocks[:, blocks[2 * at : 2 * at + 2]].copy()
            self._compute(prompt[: at + 1], blocks[2 * at : 2 * at + 2])
            assert (self.blocks[:, blocks[2 * at : 2 * at + 2]] == expected).all()
        if len(keys) > hits:
            self.save(request, keys[hits:], blocks[2 * hits :])
        self.manager.on_request_finished(request)
        self.settle()
        return hits

    def settle(self) -> None:
        """Step until nothing is being written or read, as vLLM does without requests."""
        while self.manager.has_pending_work():
            self._step()

    def counted(self) -> dict[tuple[str, ...], float]:
        """Return what was counted since the last call, by name and labels."""
        values = self.manager.get_stats().data["data"]
        return {(key, *labels): value for key, rows in values.items() for labels, value in rows.items()}

    def _compute(self, prefix: str, blocks: Sequence[int]) -> None:
        for layer in range(LAYERS):
            for part, block in enumerate(blocks):
                seed = int.from_bytes(name(f"{prefix}/{layer}/{part}")[:4], "big")
                self.blocks[layer, block] = np.random.default_rng(seed).integers(
                    -128, 128, BLOCK_BYTES, np.int8
                )

    def _finish(self) -> None:
        self.worker.wait({self._jobs})
        while not any(result.job_id == self._jobs for result in self.worker.get_finished()):
            pass

    def _step(self) -> None:
        self.manager.on_schedule_end(ScheduleEndContext((), ()))
