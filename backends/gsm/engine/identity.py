"""What the pages of a store are for: two engines share a store only when all of this is equal."""

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import vllm
from huggingface_hub import try_to_load_from_cache
from vllm.v1.kv_offload.config import OffloadingConfig

from backends.gsm.engine.settings import GsmSettings

_WEIGHTS: Final = ("*.safetensors", "*.bin", "*.gguf", "config.json")
_SAMPLES: Final = 64  # looks into each file of weights
_SAMPLE_BYTES: Final = 4096


def identify(config: OffloadingConfig, settings: GsmSettings, page_bytes: int) -> dict[str, str]:
    """Return what the values of pages depend on, and how they lie in a page.

    Tokens, adapter, images and tenant salt are in the names of pages, which vLLM gives.
    """
    parallel = config.parallel
    groups = ", ".join(
        f"{group.tokens_per_block} x {len(group.layer_names)} layers" for group in config.groups
    )
    return {
        "weights": _weights(config.model.name, settings.model_revision),
        "kv_dtype": config.model.dtype,
        "layout": f"{config.kv_cache_layout or 'default'}, {groups}",
        "page": f"{page_bytes} bytes, {config.cache.blocks_per_chunk} blocks",
        "parallel": str((parallel.tp_size, parallel.pp_size, parallel.pcp_size, parallel.dcp_size)),
        "vllm": vllm.__version__,
        # vLLM's names of pages begin from it.
        "seed": os.environ.get("PYTHONHASHSEED", ""),  # noqa: TID251 vLLM's own variable, in vLLM's process
    }


def _weights(model: str, revision: str) -> str:
    """Name the weights: of a local folder by what is in it, of a model on a hub by its name and commit."""
    folder = Path(model)
    if folder.is_dir():
        return f"{folder.name} {_fingerprint(folder)} {revision}".rstrip()
    if not revision:
        cached = try_to_load_from_cache(model, "config.json")
        revision = Path(cached).parent.name if isinstance(cached, str) else "unknown"
    return f"{model} {revision}"


def _fingerprint(folder: Path) -> str:
    """Hash names, sizes and samples of the files of weights, which may be hundreds of gigabytes."""
    digest = blake2b(digest_size=16)
    for file in sorted(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        for sample in _samples(file, size):
            digest.update(sample)
    return digest.hexdigest()


def _samples(file: Path, size: int) -> Iterator[bytes]:
    with file.open("rb") as stream:
        for number in range(_SAMPLES):
            stream.seek(max(0, size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            yield stream.read(_SAMPLE_BYTES)
