"""The llama.cpp server as a program: loads one GGUF file and serves it over HTTP until it is killed.

`python -m backends.engines.llama_server --model FILE --port N`. It exits with code 1 and one line that says
why when the file cannot be served. SIGTERM ends it at once: it has nothing to save.
"""

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_GGUF_MAGIC: Final = b"GGUF"
_NGRAM: Final = 3  # tokens that must have come before for what followed them to be a draft
_WARNINGS: Final = 2  # llama.cpp's verbosity: information (3) would print lines for every request


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed."""
    options = _parse(arguments)
    if options.exit_with_stdin:
        threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    trouble = _trouble(options.model)
    if trouble is None:
        trouble = _serve(options)
    sys.exit(f"llama server: {trouble}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="llama_server", description="Serve one GGUF model over HTTP.")
    parser.add_argument("--model", type=Path, required=True, help="GGUF file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", help="name it is served under; the file's name when left out")
    parser.add_argument("--context", type=int, default=4096, help="tokens for each slot")
    parser.add_argument("--slots", type=int, default=1, help="requests at once")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache-mib", type=int, default=256, help="memory for prompts of idle slots, in MiB")
    parser.add_argument(
        "--chat-template", default="", help="name of a template; the file's own when left out"
    )
    parser.add_argument(
        "--draft-tokens", type=int, default=0, help="most tokens drafted from n-grams of the text; 0 for none"
    )
    parser.add_argument("--exit-with-stdin", action="store_true", help="exit when standard input ends")
    return parser.parse_args(arguments)


def _trouble(model: Path) -> str | None:
    """Say why a file cannot be a model, in better words than llama.cpp's; None when it may be one."""
    try:
        with model.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as error:
        return f"cannot read the model: {error}"
    return None if magic == _GGUF_MAGIC else f"{model} is not a GGUF file"


def _serve(options: argparse.Namespace) -> str:
    """Serve for ever; return why not, when it cannot begin."""
    # 34 MB of shared library, loaded late so that a bad file is refused at once; it ships no types.
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.hostnames = [options.host]
    params.port = options.port
    params.model_alias = {options.alias or options.model.name}
    params.n_parallel = options.slots
    params.n_ctx = options.context * options.slots  # divided among the slots again
    params.kv_unified = False  # a slot's context is its own: one long request cannot starve the others
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = options.cache_mib
    params.chat_template = options.chat_template
    params.endpoint_metrics = True
    if options.draft_tokens:
        kinds = xllamacpp.common_speculative_type
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        params.speculative.ngram_simple.size_n = _NGRAM
        params.speculative.ngram_simple.size_m = options.draft_tokens
    params.ui = False
    params.cors_origins = ""  # only programs talk to it; web pages shall not
    params.verbosity = _WARNINGS
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        return f"cannot serve {options.model} on {options.host}:{options.port}, see above: {error}"
    print(f"llama server: {options.model} is ready at {server.listening_address}", flush=True)  # noqa: T201 - to the log
    while True:
        signal.pause()


def _exit_at_end_of_input() -> None:
    """Wait for the other end of standard input to be closed, as it is when its process dies in any way."""
    while os.read(sys.stdin.fileno(), 4096):
        continue
    os._exit(0)


if __name__ == "__main__":
    main()
