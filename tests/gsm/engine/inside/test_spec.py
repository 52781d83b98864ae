"""The spec as vLLM loads it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import vllm
from bare_engine import BLOCK_BYTES, LAYERS, PAGE_BYTES, offloading_config
from conftest import Start
from vllm.distributed.kv_transfer.kv_connector.v1 import SupportsHMA
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.v1.kv_offload.base import (
    CanonicalKVCacheRef,
    CanonicalKVCaches,
    CanonicalKVCacheTensor,
    GPULoadStoreSpec,
    LookupResult,
    ReqContext,
    make_offload_key,
)
from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.factory import OffloadingSpecFactory
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from backends.gsm.engine.errors import VllmNotSupported
from backends.gsm.engine.identity import identify
from backends.gsm.engine.manager import GsmManager, IdleManager
from backends.gsm.engine.settings import GsmSettings
from backends.gsm.engine.spec import GsmOffloadingSpec, check_version
from backends.gsm.engine.statistics import DEFINITIONS
from backends.gsm.engine.worker import HostCopyWorker, IdleWorker

NO_CACHES = CanonicalKVCaches([], [[]])


@pytest.mark.parametrize("version", ["0.31.4", "0.33.0", "1.0.0"])
def test_a_vllm_that_was_not_checked_is_refused_by_name(version: str) -> None:
    with pytest.raises(VllmNotSupported, match=f"checked against vLLM .*, this is {version}: install one of"):
        check_version(version)


def test_the_vllm_that_is_here_is_one_of_those() -> None:
    check_version(vllm.__version__)
    check_version("0.32.1+cpu")


def test_vllm_finds_the_spec_by_its_name_and_module() -> None:
    names = {"spec_name": "GsmOffloadingSpec", "spec_module_path": "backends.gsm.engine.spec"}

    assert OffloadingSpecFactory.get_spec_cls(names) is GsmOffloadingSpec


@pytest.mark.parametrize(
    "settings",
    [
        {"gsm_host_bytes": 1 << 20, "gsm_group_size": 500},
        {"gsm_host_bytes": PAGE_BYTES - 1},
        {"gsm_host_bytes": 1 << 20, "gsm_prefix_reuse": False},
        {},
    ],
)
def test_settings_that_cannot_be_followed_switch_both_sides_off(settings: dict[str, Any]) -> None:
    spec = GsmOffloadingSpec(offloading_config("off", settings))
    manager = spec.get_manager()
    request = ReqContext("request")
    key = make_offload_key(b"k" * 32, 0)
    manager.on_new_request(request)

    assert isinstance(spec.get_worker(NO_CACHES), IdleWorker)
    assert isinstance(manager, IdleManager)
    assert manager.lookup(key, request) is LookupResult.MISS
    output = manager.prepare_store([key], request)
    assert output is not None
    assert output.keys_to_store == []
    stats = manager.get_stats()
    assert stats is not None
    assert stats.data["data"] == {"vllm:gsm_on": {(): 0}}


@pytest.mark.parametrize("trouble", ["a file is in the way", "another model", "in use"])
def test_without_its_disk_the_host_tier_goes_on(start: Start, tmp_path: Path, trouble: str) -> None:
    if trouble == "a file is in the way":
        (tmp_path / "pages").write_text("")
    else:
        first = start(disk_pages=8)
        first.run("abcd")
    if trouble == "another model":
        engine = start(disk_pages=8, gsm_model_revision="another")
    elif trouble == "in use":
        settings = {
            "gsm_host_bytes": 8 * PAGE_BYTES,
            "gsm_disk_path": str(tmp_path / "pages"),
            "gsm_disk_bytes": 1 << 30,
        }
        second = GsmOffloadingSpec(offloading_config("second", settings)).get_manager()
        assert isinstance(second, GsmManager)
        assert second.secondary_tiers == []
        second.shutdown()
        return
    else:
        engine = start(disk_pages=8)

    assert engine.manager.secondary_tiers == []
    assert engine.run("abcd") == 0
    assert engine.run("abcd") == 4


def test_everything_that_is_counted_is_announced_to_prometheus(start: Start) -> None:
    engine = start(host_pages=4, disk_pages=4, gsm_max_groups=1)
    for prompt in ("abcdefgh", "abcd", "abcX", "abXX", "wxyz"):
        engine.run(prompt)
    announced = GsmOffloadingSpec.build_metric_definitions({})
    data = engine.manager.get_stats().data["data"]

    assert {name for name in data if "gsm" in name} <= announced.keys()
    for name, definition in DEFINITIONS.items():
        assert all(len(labels) == len(definition.labelnames) for labels in data.get(name, ()))


def test_nothing_is_left_in_shared_memory_once_both_sides_run(start: Start) -> None:
    engine = start()

    assert not Path(f"/dev/shm/vllm_offload_{engine.spec.config.engine_id}.mmap").exists()


def test_a_store_is_for_one_model_one_layout_and_one_vllm(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights" * 10_000)
    settings = GsmSettings.read({"gsm_host_bytes": 1}, "float32")
    config = offloading_config("x", {})
    first = identify(config, settings, PAGE_BYTES)
    object.__setattr__(config.model, "name", str(tmp_path))
    local = identify(config, settings, PAGE_BYTES)
    (tmp_path / "model.safetensors").write_bytes(b"weights" * 9_999 + b"weighty")

    assert first["weights"] == "a-model unknown"
    assert local["weights"] != identify(config, settings, PAGE_BYTES)["weights"]
    assert first["page"] != identify(config, settings, 2 * PAGE_BYTES)["page"]


def test_several_sets_of_layers_are_copied_each_into_its_pages() -> None:
    """As hybrid models have them: sets of layers with block tables of their own over the same memory."""
    region = SharedOffloadRegion("hybrid", 8, 0, 2 * LAYERS * BLOCK_BYTES, 2 * LAYERS * BLOCK_BYTES)
    blocks = np.random.default_rng(1).integers(-128, 128, (LAYERS, 16, BLOCK_BYTES), np.int8)
    before = blocks.copy()
    worker = HostCopyWorker(
        CanonicalKVCaches(
            [CanonicalKVCacheTensor(torch.from_numpy(layer), BLOCK_BYTES) for layer in blocks],
            [
                [CanonicalKVCacheRef(0, BLOCK_BYTES), CanonicalKVCacheRef(2, BLOCK_BYTES)],
                [CanonicalKVCacheRef(1, BLOCK_BYTES)],
            ],
        ),
        2,
        region,
    )
    # Set 0: blocks 4, 5, 6 are the second to fourth of their sequence; set 1: blocks 9 and 8 the first two.
    engine = GPULoadStoreSpec([4, 5, 6, 9, 8], group_sizes=[3, 2], block_indices=[1, 0])
    assert worker.submit_store(1, engine, CPULoadStoreSpec([3, 5, 7]))
    worker.wait({1})
    blocks[:] = 0
    assert worker.submit_load(2, CPULoadStoreSpec([3, 5, 7]), engine)
    worker.wait({2})

    assert {result.job_id for result in worker.get_finished()} == {1, 2}
    for layer, copied in ((0, [4, 5, 6]), (2, [4, 5, 6]), (1, [9, 8])):
        assert (blocks[layer, copied] == before[layer, copied]).all()
        assert not np.delete(blocks[layer], copied, axis=0).any()
    worker.shutdown()
    region_file = Path(region.mmap_path)
    assert not region_file.exists()


def test_when_room_is_short_all_sets_of_layers_keep_the_same_beginning() -> None:
    spec = GsmOffloadingSpec(offloading_config("sets", {"gsm_host_bytes": 4 * PAGE_BYTES}, groups=2))
    manager = spec.get_manager()
    request = ReqContext("request")
    manager.on_new_request(request)
    keys = [[make_offload_key(bytes([page]) * 32, layers) for page in range(4)] for layers in range(2)]
    for key in (each for of_set in keys for each in of_set):
        request.set_offload_key_position(key, (key[0] + 1) * 128)

    output = manager.prepare_store([*keys[0], *keys[1]], request)

    assert output is not None
    assert output.keys_to_store == [*keys[0][:2], *keys[1][:2]]
    manager.complete_store(output.keys_to_store, request)
    manager.on_request_finished(request)
    manager.shutdown()


def test_on_gpus_vllms_own_worker_and_connector_are_used() -> None:
    """They cannot run here; what is inherited is inherited as it is."""
    assert GsmOffloadingSpec.create_worker is TieringOffloadingSpec.create_worker
    assert issubclass(OffloadingConnector, SupportsHMA)
