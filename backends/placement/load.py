"""What an engine says of its own load, read from its Prometheus page."""

import re
from dataclasses import dataclass

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})?\s+(\S+)", re.MULTILINE)

RUNNING = frozenset({"vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"})
WAITING = frozenset({"vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"})
KV_USAGE = frozenset({"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"})
STARTED = frozenset({"process_start_time_seconds"})


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The load of one engine.

    Attributes:
        running: Requests at work, over all its parts.
        waiting: Requests that wait.
        kv_usage: How full its KV cache is, in [0, 1]; of several parts the fullest.
        started: When its process started, seconds since the epoch; None when it does not say.
    """

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    started: float | None = None


def read_load(page: str) -> EngineLoad | None:
    """Read a Prometheus page of vLLM, SGLang or llama.cpp.

    Returns:
        None when nothing of the load is on it.
    """
    found: dict[frozenset[str], list[float]] = {}
    for name, text in _LINE.findall(page):
        for kind in (RUNNING, WAITING, KV_USAGE, STARTED):
            if name in kind and (value := _number(text)) is not None:
                found.setdefault(kind, []).append(value)
    if RUNNING not in found and WAITING not in found:
        return None
    started = found.get(STARTED)
    return EngineLoad(
        running=int(sum(found.get(RUNNING, ()))),
        waiting=int(sum(found.get(WAITING, ()))),
        kv_usage=min(1.0, max(found.get(KV_USAGE, [0.0]))),
        started=started[0] if started else None,
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e15 else None
