"""Backend for every other provider, through litellm.

litellm takes seconds to import and is needed only where a configuration names it.
"""

import asyncio
import contextlib
import functools
import importlib
import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from backends.errors import (
    BackendError,
    BackendOverloaded,
    BackendRejected,
    BackendTimeout,
    BackendUnavailable,
    BackendUnfit,
)
from backends.rate_limits import rate_limits_in, seconds_to_wait
from backends.refusals import without_keys
from backends.types import CHAT_PATH, EMBEDDINGS_PATH, InferenceRequest, Replica

CALLS = {CHAT_PATH: "acompletion", EMBEDDINGS_PATH: "aembedding"}
"""What litellm has for an endpoint. Its text completions are chats in disguise for most providers, and
their streams cannot be closed, so they are left out."""

CLOSE_SECONDS = 2.0
"""How long litellm may take to close a stream; until then the request counts as in flight."""


def load_litellm() -> Any:  # noqa: ANN401 - the module ships types that strict checking cannot follow
    """Import litellm, quiet and without its look-up of prices in the network; takes seconds."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # noqa: TID251 - litellm reads it at import
    litellm: Any = importlib.import_module("litellm")
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    return litellm


class Provider:
    """A model of a provider that litellm knows."""

    def __init__(self, replica: Replica) -> None:
        """Prepare; litellm is imported by the first request, or by `is_ready`."""
        self._replica = replica
        self._litellm: Any = None

    async def open(self, request: InferenceRequest) -> "ProviderAnswer":
        """Start `request`; see `Backend.open`."""
        name = self._replica.name
        if request.path not in CALLS:
            raise BackendUnfit(
                f"Replica {name} is reached through litellm, which has no {request.path} for it. Use "
                f"{CHAT_PATH}, or a model with a replica of the kind 'url' or 'embedded'.",
                replica=name,
            )
        litellm = await self._load()
        arguments: dict[str, Any] = msgspec.json.decode(request.body)
        arguments |= {
            "model": self._replica.upstream_model,
            "timeout": request.patience,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
        }
        if self._replica.api_key is not None:
            arguments["api_key"] = self._replica.api_key
        if self._replica.target:
            arguments["api_base"] = self._replica.target
        try:
            async with asyncio.timeout(request.patience):
                call = getattr(litellm, CALLS[request.path])
                return await self._begin(call, arguments, stream=request.stream)
        except TimeoutError as error:
            raise BackendTimeout(
                f"Replica {name} gave no answer within {request.patience:g} s.", replica=name
            ) from error

    async def _begin(self, call: Any, arguments: dict[str, Any], *, stream: bool) -> "ProviderAnswer":  # noqa: ANN401
        name = self._replica.name
        try:
            answer: Any = await call(**arguments)
        except Exception as error:
            raise _refusal(error, self._replica) from error
        if not stream:
            return ProviderAnswer(_plain(answer), name, "application/json", answer)
        try:
            first: Any = await anext(answer, None)
        except BaseException as error:
            await _close(answer)
            if isinstance(error, Exception):
                raise _refusal(error, self._replica) from error
            raise
        if first is None or _is_made_up_end(first, answer):
            await _close(answer)
            raise BackendUnavailable(f"Replica {name} ended its stream before it began.", replica=name)
        return ProviderAnswer(_events(first, answer), name, "text/event-stream; charset=utf-8", answer)

    async def is_ready(self) -> bool:
        """Import litellm; a provider has no health page that costs nothing."""
        await self._load()
        return True

    async def read_metrics(self) -> None:
        """Return None: a provider shows its metrics to nobody."""

    async def aclose(self) -> None:
        """Do nothing: litellm owns its connections."""

    async def _load(self) -> Any:  # noqa: ANN401
        if self._litellm is None:
            self._litellm = await asyncio.to_thread(load_litellm)
        return self._litellm


class ProviderAnswer:
    """An answer of a provider, as OpenAI's bytes."""

    def __init__(self, pieces: AsyncIterator[bytes], replica: str, content_type: str, source: object) -> None:
        """Hold an answer.

        Args:
            pieces: Its bytes.
            replica: Who answers.
            content_type: Of the bytes.
            source: litellm's answer; a stream is closed for the provider to stop its work.
        """
        self._pieces = pieces
        self._replica = replica
        self._source = source
        self._next: asyncio.Future[bytes] | None = None
        self.content_type = content_type
        self.rate_limits: Mapping[str, str] = rate_limits_in(_headers_of(source))

    async def read(self, patience: float | None = None) -> bytes:
        """Return the next bytes; see `Answer.read`."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._pieces, b""))
        done, _ = await asyncio.wait({self._next}, timeout=patience)
        if not done:
            raise TimeoutError
        piece, self._next = self._next, None
        try:
            return piece.result()
        except Exception as error:
            raise BackendError(
                f"Replica {self._replica} failed in the middle of the answer.", replica=self._replica
            ) from error

    async def aclose(self) -> None:
        """Let go; see `Answer.aclose`."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait({self._next}, timeout=CLOSE_SECONDS)
        await _close(self._source)


async def _close(source: object) -> None:
    close: Any = getattr(source, "aclose", None)
    if close is None:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await close()


def _is_made_up_end(chunk: Any, chunks: Any) -> bool:  # noqa: ANN401
    """Tell a finish reason that litellm invents for a stream in which nothing came."""
    said = getattr(chunks, "received_any_finish_reason", True)
    return not said and any(c.finish_reason and not c.delta.content for c in chunk.choices)


async def _plain(answer: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
    yield answer.model_dump_json(exclude_none=True).encode()


async def _events(first: Any, chunks: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
    yield _event(first)
    async for chunk in chunks:
        yield _event(chunk)
    yield b"data: [DONE]\n\n"


def _event(chunk: Any) -> bytes:  # noqa: ANN401
    return b"data: " + chunk.model_dump_json(exclude_none=True).encode() + b"\n\n"


def _refusal(error: Exception, server: Replica) -> BackendError:
    """Return the error that an exception of litellm stands for; its text may hold secrets and stays here."""
    replica = server.name
    status: Any = getattr(error, "status_code", None)
    if status in {400, 413, 422}:
        message = str(getattr(error, "message", error)).replace("litellm.", "")
        if server.api_key is not None:
            message = message.replace(server.api_key, "***")
        body = without_keys(
            msgspec.json.encode({"error": {"message": message, "type": "invalid_request_error"}})
        )
        return BackendRejected(
            f"Replica {replica} refused the request.", replica=replica, status=400, body=without_keys(body)
        )
    if status in {429, 503}:
        headers = _headers_of_error(error)
        return BackendOverloaded(
            f"Replica {replica} is overloaded ({status}).",
            replica=replica,
            status=status,
            retry_after=seconds_to_wait(headers, functools.partial(datetime.now, UTC)),
            rate_limits=rate_limits_in(headers),
        )
    hint = "; it does not accept our key, check the replica's api_key_env" if status in {401, 403} else ""
    return BackendUnavailable(
        f"Replica {replica} failed: {type(error).__name__} ({status or 'no status'}){hint}.",
        replica=replica,
        well=isinstance(status, int) and 400 <= status < 500,
    )


def _headers_of(answer: object) -> dict[str, str]:
    """Return the headers of a provider's answer; litellm marks those that it does not know itself."""
    hidden: Any = getattr(answer, "_hidden_params", None)
    return _lowered(hidden.get("additional_headers")) if hidden else {}


def _headers_of_error(error: Exception) -> dict[str, str]:
    return _lowered(getattr(getattr(error, "response", None), "headers", None))


def _lowered(headers: Mapping[str, object] | None) -> dict[str, str]:
    return {name.lower().removeprefix("llm_provider-"): str(value) for name, value in (headers or {}).items()}
