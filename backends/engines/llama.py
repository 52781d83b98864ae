"""How to run an embedded llama.cpp server."""

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.engines.probes import http_ok
from backends.engines.types import ProcessSpec

_PROGRAM: Final = Path(__file__).with_name("llama_server.py")
_READY_TIMEOUT: Final = 120.0  # seconds: a gigabyte from a slow disk


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """What an embedded llama.cpp server is tuned by.

    Attributes:
        context: Tokens of one request, prompt and answer together.
        slots: Requests answered at once; each slot has its own `context` tokens of KV cache.
        threads: Of computation; None takes `llama_threads` of this machine.
        cache_mib: Memory for the KV cache of prompts that left their slot, in MiB.
        chat_template: Name of a llama.cpp template to use in place of the file's own; None keeps that.
        draft_tokens: Most tokens drafted from what the text has said before (n-grams); 0 turns that off.
    """

    context: int = 4096
    slots: int = 2
    threads: int | None = None
    cache_mib: int = 256
    chat_template: str | None = None
    draft_tokens: int = 0


_DEFAULTS: Final = LlamaOptions()


def llama_spec(
    model: str, path: Path, port: int, log_file: Path, options: LlamaOptions = _DEFAULTS
) -> ProcessSpec:
    """Return how to serve a GGUF file on a loopback port, OpenAI-compatible at http://127.0.0.1:PORT/v1.

    Args:
        model: Name it is served under.
        path: The GGUF file, verified by the model store or given by the user.
        port: Kept over restarts, so that the URL stays.
        log_file: Gets what it prints.
        options: Its size and speed.
    """
    threads = options.threads or llama_threads(usable_cores())
    argv = (
        sys.executable, "-P", str(_PROGRAM),
        "--exit-with-stdin",
        "--model", str(path),
        "--port", str(port),
        "--alias", model,
        "--context", str(options.context),
        "--slots", str(options.slots),
        "--threads", str(threads),
        "--cache-mib", str(options.cache_mib),
    )  # fmt: skip
    if options.draft_tokens:
        argv += ("--draft-tokens", str(options.draft_tokens))
    if options.chat_template is not None:
        argv += ("--chat-template", options.chat_template)
    return ProcessSpec(
        name=f"llama server of {model}",
        argv=argv,
        probe=functools.partial(http_ok, port, "/health"),
        log_file=log_file,
        ready_timeout=_READY_TIMEOUT,
        port=port,
    )


def llama_threads(cores: int) -> int:
    """Return the threads of computation for one server on a machine with so many cores.

    Half of them: another model and the gateway run beside it. On two cores a second thread only waits
    for the one that shares its core with the gateway.
    """
    return 1 if cores <= 2 else cores // 2


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
