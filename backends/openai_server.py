"""Backend for any OpenAI-compatible server: vLLM, SGLang, llama.cpp, and providers that speak it."""

import asyncio
import functools
from collections.abc import Mapping
from datetime import UTC, datetime

from backends.errors import (
    BackendError,
    BackendOverloaded,
    BackendRejected,
    BackendTimeout,
    BackendUnavailable,
    BackendUnfit,
)
from backends.http_client import HttpPool, Response
from backends.http_connection import HttpError
from backends.rate_limits import rate_limits_in, seconds_to_wait
from backends.refusals import says_bad_key, says_too_long, without_keys
from backends.types import CHAT_PATH, InferenceRequest, Replica

MAX_HEALTH = 64 * 1024
"""Most bytes of a health page."""

MAX_METRICS = 4 * 1024 * 1024
"""Most bytes of a page of metrics; vLLM's has some 60 KB."""

PAGE_SECONDS = 0.5
"""How long the rest of a health page is waited for, once its status is there."""

REJECTED = frozenset({400, 406, 409, 411, 412, 413, 414, 415, 416, 417, 422, 424, 428, 431, 451})
"""Statuses that are about the request: another replica would say the same."""

OVERLOADED = frozenset({429, 503})


_utc_now = functools.partial(datetime.now, UTC)


class OpenAIServer:
    """One OpenAI-compatible server."""

    def __init__(self, replica: Replica, connect_timeout: float) -> None:
        """Prepare a pool of connections; nothing is connected yet."""
        self._replica = replica
        self._connect_timeout = connect_timeout
        headers = {"content-type": "application/json"}
        if replica.api_key is not None:
            headers["authorization"] = f"Bearer {replica.api_key}"
        elif replica.login is not None:
            headers["authorization"] = f"Basic {replica.login}"
        self._pool = HttpPool(replica.target, headers=headers, connect_timeout=connect_timeout)

    async def open(self, request: InferenceRequest) -> "ServerAnswer":
        """Start `request`; see `Backend.open`."""
        name = self._replica.name
        try:
            response = await self._pool.request(
                "POST",
                request.path,
                headers=tuple(request.headers.items()),
                body=request.body,
                timeout=request.patience,
            )
        except HttpError as error:
            raise BackendUnavailable(
                f"Replica {name} failed: {error}.", replica=name, reached=error.reached
            ) from error
        except TimeoutError as error:
            raise BackendTimeout(
                f"Replica {name} gave no answer within {request.patience:g} s.", replica=name
            ) from error
        if not 200 <= response.status < 300:  # some frameworks answer a POST with 201
            try:
                raise await _refusal(response, self._replica, request.path)
            finally:
                response.close()
        return ServerAnswer(response, name)

    async def is_ready(self) -> bool | None:
        """Ask `/health`; its status says it all, and a server without such a page is ready when it answers.

        503 is how vLLM, SGLang and llama.cpp say that they load a model, drain, or have lost their engine.
        Where nobody listens, nobody can serve.
        """
        try:
            async with asyncio.timeout(self._connect_timeout):
                response = await self._pool.request("GET", "/health")
        except HttpError as error:
            return None if error.reached else False
        except TimeoutError:
            return None
        try:
            # The page is read for the sake of the connection alone, which is then kept.
            async with asyncio.timeout(PAGE_SECONDS):
                await response.read_all(MAX_HEALTH)
        except (HttpError, TimeoutError):
            pass
        finally:
            response.close()
        if response.status < 500:
            return True
        return False if response.status == 503 else None

    async def read_metrics(self) -> bytes | None:
        """Ask `/metrics`; see `Backend.read_metrics`."""
        try:
            async with asyncio.timeout(self._connect_timeout):
                response = await self._pool.request("GET", "/metrics")
                try:
                    page = await response.read_all(MAX_METRICS)
                finally:
                    response.close()
        except (HttpError, TimeoutError):
            return None
        return page if response.status == 200 else None

    async def aclose(self) -> None:
        """Close the kept connections."""
        self._pool.close()


class ServerAnswer:
    """An answer of an OpenAI-compatible server, byte for byte."""

    def __init__(self, response: Response, replica: str) -> None:
        self._response = response
        self._replica = replica
        self.content_type = response.headers.get("content-type", "application/json").lower()
        self.rate_limits: Mapping[str, str] = rate_limits_in(response.headers)

    async def read(self, patience: float | None = None) -> bytes:
        """Return the next bytes; see `Answer.read`."""
        try:
            return await self._response.read_some(patience)
        except HttpError as error:
            raise BackendError(f"Replica {self._replica} failed: {error}.", replica=self._replica) from error

    async def aclose(self) -> None:
        """Let go; see `Answer.aclose`."""
        self._response.close()


async def _refusal(response: Response, server: Replica, path: str) -> BackendError:
    """Return the error that a status other than 200 stands for; our key is cut out of what it says."""
    status, replica = response.status, server.name
    try:
        async with asyncio.timeout(10):
            body = await response.read_all(1024 * 1024)
    except (HttpError, TimeoutError):
        body = b""
    if server.api_key is not None:
        body = body.replace(server.api_key.encode(), b"***")
    body = without_keys(body)
    if status in REJECTED and not says_bad_key(body):
        return BackendRejected(
            f"Replica {replica} refused the request.", replica=replica, status=status, body=body
        )
    if status == 501 or (status in {404, 405} and path != CHAT_PATH):
        return BackendUnfit(
            f"Replica {replica} does not serve {path} ({status}). Its engine has to be started for "
            "that, with a model that can do it and that goes by the model's served_name.",
            replica=replica,
        )
    if status in OVERLOADED:
        return BackendOverloaded(
            f"Replica {replica} is overloaded ({status}).",
            replica=replica,
            status=status,
            retry_after=seconds_to_wait(response.headers, _utc_now),
            rate_limits=rate_limits_in(response.headers),
        )
    if status >= 500 and says_too_long(body):
        return BackendRejected(
            f"Replica {replica} refused the request.", replica=replica, status=400, body=body
        )
    status = 401 if status in REJECTED else status
    return BackendUnavailable(
        f"Replica {replica} answered {status}: {_hint(status)}.", replica=replica, well=400 <= status < 500
    )


def _hint(status: int) -> str:
    """Say what to look at; an engine's own words may repeat a prompt or a key, and stay in its log."""
    if 300 <= status < 400:
        return "it sends us to another address; give that as the replica's url"
    if status == 402:
        return "the account of our key has to be paid"
    if status in {401, 403}:
        return "it does not accept our key; check the replica's api_key_env"
    if status == 404:
        return "it does not know the path or the model; check the replica's url and the model's served_name"
    return "its own log says why"
