"""What vLLM loads: `GsmOffloadingSpec` is the `spec_name`, this module the `spec_module_path`."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import vllm
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from typing_extensions import override
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.utils.math_utils import round_up
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    OffloadingManager,
    OffloadingMetricMetadata,
    OffloadingSpec,
    OffloadingWorker,
)
from vllm.v1.kv_offload.config import OffloadingConfig
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.base import SecondaryTierManager
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from backends.gsm.engine.chain import PageShape
from backends.gsm.engine.disk import GsmDiskTier
from backends.gsm.engine.errors import SettingsInvalid, StoreUnusable, VllmNotSupported
from backends.gsm.engine.host import GsmHostTier
from backends.gsm.engine.identity import identify
from backends.gsm.engine.manager import GsmManager, IdleManager
from backends.gsm.engine.settings import GsmSettings, blocks_per_page
from backends.gsm.engine.statistics import DEFINITIONS, GsmStatistics
from backends.gsm.engine.store import PageStore
from backends.gsm.engine.worker import HostCopyWorker, IdleWorker

logger = init_logger(__name__)

CHECKED: Final = SpecifierSet(">=0.32.0,<0.33")
"""The versions of vLLM whose interface this code was checked against."""


def check_version(version: str) -> None:
    """Refuse a vLLM that this code was not checked against.

    Raises:
        VllmNotSupported: It is outside `CHECKED`.
    """
    if not CHECKED.contains(Version(version).base_version):
        raise VllmNotSupported(
            f"GSM was checked against vLLM {CHECKED}, this is {version}: install one of those, "
            f"or start without --kv-transfer-config"
        )


check_version(vllm.__version__)


class GsmOffloadingSpec(TieringOffloadingSpec):
    """GSM as an offloading spec: vLLM's tiers, connector and (on GPUs) worker; GSM's policy.

    Settings that cannot be followed switch GSM off, with a message; the server serves without.
    """

    @classmethod
    @override
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, OffloadingMetricMetadata]:
        """Return vLLM's definitions and GSM's."""
        return super().build_metric_definitions(extra_config) | DEFINITIONS

    def __init__(self, config: OffloadingConfig) -> None:
        # Scheduler and worker read the same settings, each in its process, and so come to the same end.
        self._settings = _read_settings(config)
        self._manager: OffloadingManager | None = None
        if self._settings is None:
            OffloadingSpec.__init__(self, config)
            return
        tokens = {group.group_id: group.tokens_per_block for group in config.groups}
        blocks = blocks_per_page(tokens.values(), self._settings.group_size)
        super().__init__(
            replace(
                config,
                cache=replace(config.cache, blocks_per_chunk=blocks),
                extra_config={**config.extra_config, "cpu_bytes_to_use": self._settings.host_bytes},
            )
        )
        self._shape = PageShape(
            {layers: size * blocks for layers, size in tokens.items()}, self._settings.group_size
        )

    @override
    def get_manager(self) -> OffloadingManager:
        """Return the scheduler's side, made once."""
        if self._manager is None:
            self._manager = IdleManager() if self._settings is None else self._make_manager(self._settings)
        return self._manager

    @override
    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """Return the worker's side: vLLM's own on GPUs, GSM's on the CPU platform."""
        if self._settings is None:
            return IdleWorker()
        if not current_platform.is_cpu():
            return super().get_worker(kv_caches)
        region = SharedOffloadRegion(
            engine_id=self._engine_id,
            num_chunks=self.num_chunks,
            rank=0 if self.replicated_layout else self.config.parallel.rank,
            kv_bytes_per_chunk=self.kv_bytes_per_chunk,
            cpu_page_size=self.cpu_page_size_per_worker,
        )
        region._creator = False  # the scheduler's side takes its name away
        return HostCopyWorker(kv_caches, self.blocks_per_chunk, region)

    def _make_manager(self, settings: GsmSettings) -> GsmManager:
        counts = GsmStatistics(self._shape.group_pages)
        region = SharedOffloadRegion(
            engine_id=self._engine_id,
            num_chunks=self.num_chunks,
            rank=None,
            kv_bytes_per_chunk=self.kv_bytes_per_chunk,
            cpu_page_size=self.cpu_page_size_per_worker,
        )
        # All workers have mapped it by now. Without its name nothing of it is left in /dev/shm at the end.
        Path(region.mmap_path).unlink(missing_ok=True)
        host = GsmHostTier(
            num_pages=self.num_chunks,
            page_bytes=self.kv_bytes_per_chunk,
            region=region,
            shape=self._shape,
            settings=settings,
            counts=counts,
            enable_events=self.kv_events_config.enable_kv_cache_events,
        )
        view = host.get_kv_memoryview()
        tiers: list[SecondaryTierManager] = []
        if (disk := self._open_disk(settings, host, counts)) is not None:
            tiers.append(disk)
        tiers += [
            SecondaryTierFactory.create_secondary_tier(config, view, self)
            for config in self.secondary_tier_configs
        ]
        logger.info("GSM keeps %d pages of %d bytes in host memory", self.num_chunks, self.kv_bytes_per_chunk)
        return GsmManager(host, tiers, self._shape, settings, counts)

    def _open_disk(
        self, settings: GsmSettings, host: GsmHostTier, counts: GsmStatistics
    ) -> GsmDiskTier | None:
        folder = settings.disk_path
        if folder is None:
            return None
        if self.config.parallel.data_parallel_size > 1:
            folder /= f"dp{self.config.parallel.data_parallel_index}"
        try:
            identity = identify(self.config, settings, self.kv_bytes_per_chunk)
            store = PageStore(folder, self.kv_bytes_per_chunk, identity)
        except StoreUnusable as error:
            logger.error("GSM keeps nothing on disk, and serving goes on: %s", error)  # noqa: TRY400 says it all
            return None
        return GsmDiskTier(
            self,
            host.get_kv_memoryview(),
            store=store,
            shape=self._shape,
            settings=settings,
            counts=counts,
            above=host.order,
        )


def _read_settings(config: OffloadingConfig) -> GsmSettings | None:
    """Return the settings, or None where GSM is off."""
    try:
        settings = GsmSettings.read(config.extra_config, config.model.dtype)
        _check_fit(settings, config)
    except SettingsInvalid as error:
        logger.error("GSM is off, and serving goes on without reuse: %s", error)  # noqa: TRY400 says it all
        return None
    if not settings.prefix_reuse:
        logger.info("GSM is off: gsm_prefix_reuse is false")
        return None
    return settings


def _check_fit(settings: GsmSettings, config: OffloadingConfig) -> None:
    blocks = blocks_per_page([group.tokens_per_block for group in config.groups], settings.group_size)
    page_bytes = config.worker_kv_bytes_per_block * config.parallel.world_size * blocks
    if settings.host_bytes < round_up(page_bytes, SharedOffloadRegion.BLOCK_SIZE_ALIGNMENT):
        raise SettingsInvalid(f"gsm_host_bytes is {settings.host_bytes}, but one page has {page_bytes} bytes")
