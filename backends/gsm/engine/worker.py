"""Copies pages between the engine's blocks and the host tier on vLLM's CPU platform.

vLLM's own worker does this on GPUs, with streams; it refuses tensors that are in host memory already.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override
from vllm.v1.kv_offload.base import (
    BlockIDsLoadStoreSpec,
    CanonicalKVCacheRef,
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion

Bytes: TypeAlias = npt.NDArray[np.int8]


class HostCopyWorker(OffloadingWorker):
    """An `OffloadingWorker` whose engine lives in host memory.

    Each direction has a thread of its own, so that a load never waits behind saves. Copies of a direction are
    done in the order they came in, as vLLM's streams do them.
    """

    def __init__(
        self, kv_caches: CanonicalKVCaches, blocks_per_page: int, region: SharedOffloadRegion
    ) -> None:
        """Take `region`, which is released in `shutdown`."""
        self._region = region
        self._blocks_per_page = blocks_per_page
        self._refs = kv_caches.group_data_refs
        self._engine: list[Bytes] = []
        self._host: list[Bytes] = []
        for cache in kv_caches.tensors:
            self._engine.append(cache.tensor.numpy())
            self._host.append(region.create_next_worker_view(cache.page_size_bytes * blocks_per_page).numpy())
        self._save_thread = ThreadPoolExecutor(1, "gsm-save", _leave_the_models_cores)
        self._load_thread = ThreadPoolExecutor(1, "gsm-load", _leave_the_models_cores)
        self._running: dict[int, Future[None]] = {}
        self._finished: SimpleQueue[TransferResult] = SimpleQueue()

    @override
    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec) -> bool:
        """Begin to copy blocks into pages."""
        return self._submit(self._save_thread, job_id, src_spec, dst_spec, saving=True)

    @override
    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """Begin to copy pages into blocks."""
        return self._submit(self._load_thread, job_id, dst_spec, src_spec, saving=False)

    @override
    def get_finished(self) -> list[TransferResult]:
        """Return what has been copied since the last call."""
        results: list[TransferResult] = []
        while True:
            try:
                result = self._finished.get_nowait()
            except Empty:
                return results
            self._running.pop(result.job_id).result()  # an error in a copy must not pass for a copy
            results.append(result)

    @override
    def wait(self, job_ids: set[int]) -> None:
        """Return when these jobs are done; unknown ones are."""
        for job_id in job_ids:
            if (running := self._running.get(job_id)) is not None:
                running.result()

    @override
    def shutdown(self) -> None:
        """Finish what has begun, then give the memory back."""
        self._save_thread.shutdown()
        self._load_thread.shutdown()
        self._engine.clear()
        self._host.clear()
        self._region.cleanup()

    def _submit(
        self,
        thread: ThreadPoolExecutor,
        job_id: int,
        blocks: GPULoadStoreSpec,
        pages: LoadStoreSpec,
        *,
        saving: bool,
    ) -> bool:
        if not isinstance(pages, BlockIDsLoadStoreSpec):
            raise TypeError(f"the host tier knows its pages by number, not by {type(pages).__name__}")
        # The arrays are vLLM's and stay as they are; the specs themselves are read in the thread.
        self._running[job_id] = thread.submit(partial(self._copy, job_id, blocks, pages, saving=saving))
        return True

    def _copy(
        self, job_id: int, blocks: GPULoadStoreSpec, pages: BlockIDsLoadStoreSpec, *, saving: bool
    ) -> None:
        began = perf_counter()
        size = 0
        try:
            for block, page, part, refs in self._pairs(blocks, pages):
                for ref in refs:
                    size += ref.page_size_bytes
                    engine, host = self._views(ref, block, page, part)
                    if saving:
                        host[:] = engine
                    else:
                        engine[:] = host
        finally:
            self._finished.put(
                TransferResult(job_id, success=True, transfer_size=size, transfer_time=perf_counter() - began)
            )

    def _views(self, ref: CanonicalKVCacheRef, block: int, page: int, part: int) -> tuple[Bytes, Bytes]:
        """Return the same bytes of one block on both sides; all keys lie in it, then all values."""
        engine, host = self._engine[ref.tensor_idx], self._host[ref.tensor_idx]
        begin = part * (host.shape[1] // self._blocks_per_page)
        return engine[block, : ref.page_size_bytes], host[page, begin : begin + ref.page_size_bytes]

    def _pairs(
        self, blocks: GPULoadStoreSpec, pages: BlockIDsLoadStoreSpec
    ) -> Iterator[tuple[int, int, int, list[CanonicalKVCacheRef]]]:
        """Yield block, page, which block of the page, and layers.

        The first block of a set of layers may stand inside its page, and the last may not fill its page.
        """
        block_at = page_at = 0
        for refs, size, first in zip(self._refs, blocks.group_sizes, blocks.block_indices, strict=True):
            skipped = first % self._blocks_per_page
            for index in range(size):
                page, part = divmod(skipped + index, self._blocks_per_page)
                yield (
                    int(blocks.block_ids[block_at + index]),
                    int(pages.block_ids[page_at + page]),
                    part,
                    refs,
                )
            block_at += size
            page_at += -(-(skipped + size) // self._blocks_per_page) if size else 0


def _leave_the_models_cores() -> None:
    """Let a thread run where the process above may: vLLM binds this one to the cores of the model."""
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))


class IdleWorker(OffloadingWorker):
    """The worker of a server whose GSM is off: it is never asked for a copy."""

    @override
    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec) -> bool:
        """Refuse."""
        raise RuntimeError("GSM is off in this server; nothing is kept")

    @override
    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """Refuse."""
        raise RuntimeError("GSM is off in this server; nothing was kept")

    @override
    def get_finished(self) -> list[TransferResult]:
        """Return nothing."""
        return []

    @override
    def wait(self, job_ids: set[int]) -> None:
        """Return at once."""
