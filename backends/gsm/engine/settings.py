"""The settings of GSM as they stand in vLLM's `kv_connector_extra_config`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from backends.gsm.engine.errors import SettingsInvalid

PAGE_TOKENS: Final = 128
"""A page has at least so many tokens: smaller ones would make many small files and a long index."""

_PREFIX: Final = "gsm_"
# What vLLM's own specs call their cut; two cuts cannot both hold.
_FOREIGN: Final = ("block_size", "blocks_per_chunk", "cpu_bytes_to_use", "eviction_policy", "store_threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class GsmSettings:
    """What an operator may set; each field is the key `gsm_` + its name.

    Attributes:
        group_size: Tokens a group; a multiple of the page, which follows from the engine's block.
        max_groups: Groups of one sequence that are kept, from its start.
        prefix_reuse: False switches GSM off.
        rebuild_threshold: A group of which more than this share, in [0, 1], is not there as asked for is
            computed anew; else its unchanged head is loaded.
        min_ttl: Seconds after its last use in which a page is not evicted.
        host_bytes: Size of the tier in host memory; taken from /dev/shm at start.
        disk_path: Folder of the tier on disk; None for no such tier.
        disk_bytes: Bound of all files of the tier on disk.
        model_revision: Names the weights when their name does not; part of what a store on disk is for.
    """

    group_size: int = 512
    max_groups: int = 64
    prefix_reuse: bool = True
    rebuild_threshold: float
    min_ttl: float = 2.0
    host_bytes: int
    disk_path: Path | None = None
    disk_bytes: int = 0
    model_revision: str = ""

    @classmethod
    def read(cls, extra_config: Mapping[str, Any], kv_dtype: str) -> "GsmSettings":
        """Read the settings.

        Args:
            extra_config: vLLM's `kv_connector_extra_config`. Keys without `gsm_` are vLLM's own.
            kv_dtype: How the engine keeps KV values, for the default of the rebuild threshold.

        Raises:
            SettingsInvalid: A key is unknown, or a value is not of its kind or out of range.
        """
        for key in _FOREIGN:
            if key in extra_config:
                raise SettingsInvalid(
                    f"`{key}` is a setting of vLLM's own specs; GSM has gsm_group_size and gsm_host_bytes"
                )
        given = {
            key.removeprefix(_PREFIX): value for key, value in extra_config.items() if key.startswith(_PREFIX)
        }
        unknown = given.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise SettingsInvalid(f"`{_PREFIX}{min(unknown)}` is not a setting of GSM")
        path = _text(given, "disk_path", "")
        settings = cls(
            group_size=_whole(given, "group_size", 512, least=1),
            max_groups=_whole(given, "max_groups", 64, least=1),
            prefix_reuse=_flag(given, "prefix_reuse", default=True),
            rebuild_threshold=_number(
                given, "rebuild_threshold", 0.2 if _quantised(kv_dtype) else 0.3, most=1
            ),
            min_ttl=_number(given, "min_ttl", 2.0, most=3600),
            host_bytes=_whole(given, "host_bytes", None, least=1),
            disk_path=Path(path) if path else None,
            disk_bytes=_whole(given, "disk_bytes", 0, least=0),
            model_revision=_text(given, "model_revision", ""),
        )
        if (settings.disk_path is None) != (settings.disk_bytes == 0):
            raise SettingsInvalid(
                "gsm_disk_path and gsm_disk_bytes go together: a folder, and a bound for it"
            )
        return settings


def blocks_per_page(tokens_per_block: Collection[int], group_size: int) -> int:
    """Return how many of the engine's blocks make a page: the fewest with `PAGE_TOKENS` that divide a group.

    Args:
        tokens_per_block: Of each of vLLM's KV cache groups (sets of layers); at least one.
        group_size: Tokens a GSM group.

    Raises:
        SettingsInvalid: A group is not a whole number of blocks.
    """
    block = max(tokens_per_block)
    even = [
        blocks
        for blocks in range(1, group_size // block + 1)
        if all(group_size % (tokens * blocks) == 0 for tokens in tokens_per_block)
    ]
    if not even:
        raise SettingsInvalid(
            f"gsm_group_size is {group_size} tokens, which is not a multiple of the engine's block of "
            f"{block} tokens; {max(1, round(group_size / block)) * block} would do"
        )
    return next((blocks for blocks in even if min(tokens_per_block) * blocks >= PAGE_TOKENS), even[-1])


def _quantised(kv_dtype: str) -> bool:
    return any(mark in kv_dtype for mark in ("fp8", "int8", "fp4", "int4", "nvfp4"))


def _whole(given: Mapping[str, Any], name: str, default: int | None, *, least: int) -> int:
    value = given.get(name, default)
    if value is None:
        raise SettingsInvalid(f"{_PREFIX}{name} has to be set")
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingsInvalid(f"{_PREFIX}{name} is {value!r}; it has to be a whole number from {least} on")
    return value


def _number(given: Mapping[str, Any], name: str, default: float, *, most: float) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise SettingsInvalid(f"{_PREFIX}{name} is {value!r}; it has to be a number from 0 to {most}")
    return float(value)


def _flag(given: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise SettingsInvalid(f"{_PREFIX}{name} is {value!r}; it has to be true or false")
    return value


def _text(given: Mapping[str, Any], name: str, default: str) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise SettingsInvalid(f"{_PREFIX}{name} is {value!r}; it has to be a string")
    return value
