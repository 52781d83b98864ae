"""How to run a vLLM server from its profile, and whether the vLLM that is installed takes it."""

import asyncio
import functools
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from backends.engines.probes import http_ok
from backends.engines.profiles import VllmProfile
from backends.engines.types import ProcessSpec
from backends.errors import ProfileInvalid

MODULE: Final = "vllm.entrypoints.openai.api_server"
"""Of GPU and CPU builds alike; the command `vllm` is missing in some."""

_CHECK: Final = Path(__file__).with_name("vllm_check.py")
_CHECK_SECONDS: Final = 300.0  # vLLM is imported, which takes a minute on a cold disk
_READY_SECONDS: Final = 3600.0  # hundreds of gigabytes of weights
_GIB: Final = 2**30

_DSPARK: Final = {
    "method": "dspark",
    "draft_sample_method": "probabilistic",
    "rejection_sample_method": "block",
    "enable_adaptive_verification": True,
}
_NGRAM: Final = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A command of an engine.

    Attributes:
        argv: Program and arguments.
        env: Set on top of the environment.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict[str, str])


def vllm_command(
    profile: VllmProfile, *, python: str = "python3", host: str = "0.0.0.0", port: int = 8000
) -> EngineCommand:
    """Return the command of a vLLM server.

    Args:
        profile: Its knobs.
        python: Of the environment that vLLM is installed in.
        host: Where it listens.
        port: As `host`.
    """
    return EngineCommand((python, "-m", MODULE, *_flags(profile, host, port)), _environment(profile))


def _flags(profile: VllmProfile, host: str, port: int) -> list[str]:
    """Return the flags, each in one word: `--name=value`."""
    flags = [
        f"--model={profile.model}",
        f"--served-model-name={profile.served_name}",
        f"--host={host}",
        f"--port={port}",
        *_texts(
            ("--dtype", "" if profile.dtype == "auto" else profile.dtype),
            ("--tensor-parallel-size", "" if profile.tensor_parallel == 1 else profile.tensor_parallel),
            ("--tokenizer-mode", profile.tokenizer_mode),
            ("--tool-call-parser", profile.tool_parser),
            ("--reasoning-parser", profile.reasoning_parser),
            ("--quantization", profile.quantization),
            ("--kv-cache-dtype", "" if profile.kv_dtype == "auto" else profile.kv_dtype),
            ("--block-size", profile.block_size),
            ("--max-model-len", profile.max_model_len),
            ("--max-num-seqs", profile.max_num_seqs),
            ("--max-num-batched-tokens", _batched_tokens(profile)),
            ("--gpu-memory-utilization", profile.gpu_memory_utilization if profile.device == "gpu" else ""),
        ),
    ]
    switches = {
        "--enable-auto-tool-choice": bool(profile.tool_parser),
        "--no-enable-chunked-prefill": not profile.chunked_prefill,
        "--scheduling-policy=priority": profile.priority_scheduling,
        "--enable-prompt-tokens-details": profile.prompt_tokens_details,
        "--enforce-eager": profile.eager,
    }
    return flags + [flag for flag, on in switches.items() if on] + _configs(profile, host)


def _texts(*pairs: tuple[str, object]) -> list[str]:
    return [f"{flag}={value}" for flag, value in pairs if value]


def _batched_tokens(profile: VllmProfile) -> int:
    """Return the most tokens in a step; vLLM refuses less than a whole prompt when it may not cut it."""
    whole = 0 if profile.chunked_prefill else max(profile.max_model_len, profile.max_num_seqs)
    return profile.max_num_batched_tokens or whole


def _configs(profile: VllmProfile, host: str) -> list[str]:
    """Return the flags whose values are JSON."""
    configs: dict[str, dict[str, object]] = {}
    if profile.speculation != "none":
        method = _DSPARK if profile.speculation == "dspark" else _NGRAM
        configs["--speculative-config"] = {"num_speculative_tokens": profile.draft_tokens, **method}
    if profile.kv_events:
        address = "*" if host == "0.0.0.0" else host
        configs["--kv-events-config"] = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": _events_at(host, profile.kv_events),
            "replay_endpoint": f"tcp://{address}:{profile.kv_events + 1}",
            "topic": "kv-events",
        }
    if profile.kv_offload == "gsm":
        configs["--kv-transfer-config"] = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": _gsm(profile),
        }
    flags = [f"{flag}={json.dumps(value, separators=(',', ':'))}" for flag, value in configs.items()]
    return flags + ([f"--kv-offloading-size={profile.offload_gib:g}"] if profile.kv_offload == "host" else [])


def _events_at(host: str, port: int) -> str:
    """Return where vLLM publishes; it listens at a wildcard or a file, and takes any other for a listener."""
    is_loopback = host == "localhost" or host.startswith("127.")
    return f"ipc://{Path(tempfile.gettempdir())}/kv-events-{port}" if is_loopback else f"tcp://*:{port}"


def _gsm(profile: VllmProfile) -> dict[str, object]:
    """Return what GSM's engine side reads; see its `settings`."""
    disk: dict[str, object] = {}
    if profile.gsm_disk:
        disk = {"gsm_disk_path": profile.gsm_disk, "gsm_disk_bytes": int(profile.gsm_disk_gib * _GIB)}
    return {
        "spec_name": "GsmOffloadingSpec",
        "spec_module_path": "backends.gsm.engine.spec",
        "gsm_group_size": profile.gsm_group_size,
        "gsm_rebuild_threshold": profile.rebuild_threshold,
        "gsm_host_bytes": int(profile.offload_gib * _GIB),
        **disk,
    }


def _environment(profile: VllmProfile) -> dict[str, str]:
    # vLLM's block names begin with a random number else, and replicas would name equal blocks differently.
    env = {"PYTHONHASHSEED": "0"} if profile.kv_events else {}
    if profile.device == "cpu":
        env |= {"VLLM_CPU_KVCACHE_SPACE": str(profile.kv_gib), "VLLM_CPU_OMP_THREADS_BIND": "auto"}
    if profile.device == "cpu" and profile.speculation == "ngram":
        # What drafts is compiled by numba, whose OpenMP layer would give the model more threads than cores.
        env["NUMBA_THREADING_LAYER"] = "workqueue"
    return env


def vllm_spec(profile: VllmProfile, *, python: str, host: str, port: int, log_file: Path) -> ProcessSpec:
    """Return how to run a vLLM server; see `vllm_command`.

    Raises:
        ProfileInvalid: There is no such Python.
    """
    command = vllm_command(profile, python=_found(python), host=host, port=port)
    return ProcessSpec(
        name=f"vLLM server {profile.name}",
        argv=command.argv,
        probe=functools.partial(http_ok, port, "/health"),
        log_file=log_file,
        ready_timeout=_READY_SECONDS,
        env=command.env,
        port=port,
    )


class FlagTrouble(msgspec.Struct, frozen=True):
    """A flag that the installed vLLM does not take, and why."""

    flag: str
    trouble: str


class CheckReport(msgspec.Struct, frozen=True):
    """What the installed vLLM says of a profile.

    Attributes:
        version: Of vLLM.
        flags: How many flags were looked at.
        troubles: Those that it does not take.
    """

    version: str
    flags: int
    troubles: tuple[FlagTrouble, ...]


async def check_flags(flags: Sequence[str], python: str) -> CheckReport:
    """Ask the vLLM of an environment whether it takes flags; nothing is loaded but its parser.

    Args:
        flags: Each as `--name` or `--name=value`.
        python: Of the environment that vLLM is installed in.

    Raises:
        ProfileInvalid: There is no vLLM.
    """
    process = await asyncio.create_subprocess_exec(
        *(_found(python), "-P", str(_CHECK), *flags),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            out, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ProfileInvalid(f"{python} did not import vLLM within {_CHECK_SECONDS:g} s") from None
    if process.returncode != 0:
        last = (errors.decode(errors="replace").strip().splitlines() or ["(nothing)"])[-1]
        raise ProfileInvalid(f"{python} has no vLLM whose flags can be read: {last}")
    return msgspec.json.decode(out.splitlines()[-1], type=CheckReport)


def _found(python: str) -> str:
    path = shutil.which(python)
    if path is None:
        raise ProfileInvalid(f"there is no Python at {python!r}; give that of vLLM's environment")
    return path
