"""The tier on disk: what the host tier keeps is written here too, and is found again after a restart.

vLLM's own file-system tier has no bound, no checksums and no cleaning; its thread pool and its seam are used.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import ClassVar, Final

from typing_extensions import override
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadingSpec,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob
from vllm.v1.kv_offload.tiering.fs.thread_pool import DualQueueThreadPool

from backends.gsm.engine import statistics
from backends.gsm.engine.chain import PageShape, RequestChain
from backends.gsm.engine.errors import PageUnreadable
from backends.gsm.engine.pages import PageOrder
from backends.gsm.engine.settings import GsmSettings
from backends.gsm.engine.statistics import GsmStatistics
from backends.gsm.engine.store import PageStore, StoredPage

logger = init_logger(__name__)

_READERS: Final = 2
_WRITERS: Final = 1
_NAMED: Final = 3  # files named in one warning


@dataclass(slots=True)
class _Job:
    """What became of a job's pages; its threads append, the scheduler's thread reads when all have."""

    loads: bool
    keys: list[OffloadKey]
    done: list[OffloadKey] = field(default_factory=list[OffloadKey])
    failed: list[OffloadKey] = field(default_factory=list[OffloadKey])


class GsmDiskTier(SecondaryTierManager):
    """A secondary tier of vLLM's tiering over a `PageStore`.

    The scheduler's thread owns the index; threads of the pool read and write files. Jobs never raise: a page
    that cannot be written is not kept, one that cannot be read is computed anew.
    """

    medium: ClassVar[Medium | None] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: OffloadingSpec,
        primary_kv_view: memoryview,
        *,
        store: PageStore,
        shape: PageShape,
        settings: GsmSettings,
        counts: GsmStatistics,
        above: PageOrder,
    ) -> None:
        """Take `store` over, and what stands in it; `above` is the host tier's order, which has the pins."""
        super().__init__(offloading_spec, primary_kv_view, "gsm-disk")
        self._store = store
        self._most_pages = settings.disk_bytes // store.file_bytes
        self._above = above
        self.order = PageOrder(self._most_pages, settings.min_ttl, monotonic)
        self._shape = shape
        self._counts = counts
        self._jobs: dict[int, _Job] = {}
        self._ended_at_once: list[JobResult] = []
        self._failing = False
        self._load_found()
        self._pool = DualQueueThreadPool(_READERS, _WRITERS, thread_name_prefix="gsm-disk")

    def holds(self, key: OffloadKey) -> bool:
        """Return whether a page is here, or on its way."""
        return key in self.order

    @override
    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """Say whether a page is here; known without a look at the disk."""
        if key not in self.order:
            return LookupResult.MISS
        return LookupResult.HIT

    @override
    def submit_store(self, job_metadata: TransferJob) -> None:
        """Begin to write pages that are not here yet, from the first of their sequence on."""
        chain = RequestChain.of(job_metadata.req_context, self._shape)
        places = dict(zip(job_metadata.keys, job_metadata.chunk_ids, strict=True))
        new = sorted((key for key in places if key not in self.order), key=chain.end)
        gone, room = self._make_room(len(new), chain)
        self._counts.count(statistics.REFUSED, len(new) - room, statistics.DISK, "no_room")
        job = _Job(loads=False, keys=new[:room])
        tasks: list[Callable[[], None]] = []
        for number, key in enumerate(job.keys):
            page = StoredPage(key, chain.parent(key))
            self.order.add(page.key, page.parent, busy=True)
            if self._above.is_pinned(key):
                self.order.pin([key])
            # What has to go goes first, so that the files never exceed the bound.
            leaving = gone if number == 0 else ()
            tasks.append(partial(self._write, job, page, int(places[key]), leaving))
        self._counts.held(statistics.DISK, len(self.order), self._store.file_bytes)
        self._begin(job_metadata.job_id, job, tasks)

    @override
    def submit_load(self, job_metadata: TransferJob) -> None:
        """Begin to read pages."""
        job = _Job(loads=True, keys=list(job_metadata.keys))
        tasks: list[Callable[[], None]] = []
        for key, place in zip(job.keys, job_metadata.chunk_ids, strict=True):
            if key in self.order:
                self.order.hold(key)
            tasks.append(partial(self._read, job, key, int(place)))
        self._begin(job_metadata.job_id, job, tasks)

    @override
    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Return the jobs that ended since the last call."""
        results, self._ended_at_once = self._ended_at_once, []
        for job_id, _, seconds in self._pool.get_finished():
            job = self._jobs.pop(job_id)
            for key in job.failed:
                self.order.discard(key)
            for key in job.done:
                self.order.release(key)
            if not job.loads:
                self._counts.count(statistics.REFUSED, len(job.failed), statistics.DISK, "failed")
            results.append(
                JobResult(
                    job_id,
                    success=not job.failed,
                    successful_keys=tuple(job.done) if job.loads else None,
                    transfer_time=seconds,
                    transfer_bytes=len(job.done) * self._store.page_bytes,
                )
            )
        self._counts.held(statistics.DISK, len(self.order), self._store.file_bytes)
        return results

    @override
    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Count nothing: uses are counted once a request, when it ends."""

    @override
    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Want no more than new pages."""
        return RequestOffloadingContext()

    @override
    def on_request_finished(self, req_context: ReqContext) -> None:
        """Count the use of all pages of a request."""
        for keys in RequestChain.of(req_context, self._shape).pages.values():
            self.order.use(keys)

    @override
    def drain_jobs(self) -> None:
        """Return when nothing is being read or written."""
        self._pool.wait_idle()

    def clear(self) -> None:
        """Delete all pages."""
        self._pool.wait_idle()
        for key in list(self.order):
            self._store.delete(key)
        self.order.clear()
        self._counts.held(statistics.DISK, 0, self._store.file_bytes)

    @override
    def shutdown(self) -> None:
        """Stop; what has not been written by now is not kept."""
        self._pool.shutdown(wait=True)
        self._store.close()

    def _load_found(self) -> None:
        found = self._store.scan()
        pages = {page.key: page for page in found.pages}
        for page in found.pages:
            self._add_found(page, pages)
        for reason, files in (("corrupt", found.corrupt), ("foreign", found.foreign)):
            self._counts.count(statistics.SKIPPED, len(files), reason)
            if files:
                names = ", ".join(str(path) for path in files[:_NAMED])
                logger.warning(
                    "%d %s files in the store of pages were not used: %s ...", len(files), reason, names
                )
        for key in self.order.evict(
            len(self.order) - self._most_pages
        ):  # the bound may be smaller than it was
            self._store.delete(key)
        self._counts.held(statistics.DISK, len(self.order), self._store.file_bytes)
        logger.info("%d pages of earlier runs are on disk", len(self.order))

    def _add_found(self, page: StoredPage, pages: Mapping[bytes, StoredPage]) -> None:
        """Hold a page of an earlier run, after those in front of it, which may have been written later."""
        line: list[StoredPage] = []
        while page.key not in self.order:
            line.append(page)
            before = pages.get(page.parent) if page.parent is not None else None
            if before is None:
                break
            page = before
        for each in reversed(line):
            self.order.add(each.key, each.parent, used=-inf)  # this run has not used it

    def _make_room(self, pages: int, chain: RequestChain) -> tuple[list[bytes], int]:
        """Return what goes, and for how many new pages there is room then."""
        missing = len(self.order) + pages - self._most_pages
        gone = self.order.evict(missing, chain.index.keys()) if missing > 0 else []
        self._counts.count(statistics.EVICTED, len(gone), statistics.DISK)
        return gone, min(pages, self._most_pages - len(self.order))

    def _begin(self, job_id: int, job: _Job, tasks: list[Callable[[], None]]) -> None:
        if not tasks:
            self._ended_at_once.append(JobResult(job_id, success=True))
            return
        self._jobs[job_id] = job
        if job.loads:
            self._pool.enqueue_load(job_id, len(tasks), tasks)
        else:
            self._pool.enqueue_store(job_id, len(tasks), tasks)

    def _place(self, number: int) -> memoryview:
        """Return the bytes of a page in the host tier."""
        size = self._store.page_bytes
        return self._primary_kv_view.cast("B")[number * size : (number + 1) * size]

    def _write(self, job: _Job, page: StoredPage, place: int, leaving: Iterable[bytes]) -> None:
        key = OffloadKey(page.key)
        try:
            for old in leaving:
                self._store.delete(old)
            self._store.write(page, self._place(place))
        except OSError as error:
            if not self._failing:
                logger.warning("pages are not kept on disk for now: %s; serving goes on", error)
            self._failing = True
            job.failed.append(key)
            return
        self._failing = False
        job.done.append(key)

    def _read(self, job: _Job, key: OffloadKey, place: int) -> None:
        try:
            self._store.read(key, self._place(place))
        except (OSError, PageUnreadable) as error:
            logger.warning("a page is computed anew: %s", error)
            self._store.delete(key)
            job.failed.append(key)
            return
        job.done.append(key)
