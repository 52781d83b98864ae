"""The backends under contract, each brought into the situations that the contract speaks of."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from backends.errors import BackendError, BackendOverloaded, BackendRejected, BackendUnavailable
from backends.openai_server import OpenAIServer
from backends.protocol import Backend
from backends.provider import Provider, load_litellm
from backends.types import Replica, ReplicaKind
from tests.fakes.backend import EVENTS, FakeBackend, refuses, says
from tests.fakes.upstream import ScriptedUpstream, Talk, answer, events, well_behaved

NAME = "standard/main/0"
API_KEY = "sk-upstream-key"


class Subject(Protocol):
    """A backend and what is behind it."""

    backend: Backend

    def will_answer(self) -> None:
        """Behave well: `answer()`, or the stream of `events()`."""
        ...

    def will_refuse(self, status: int, *, retry_after: int | None = None) -> None:
        """Answer every request with a status; the body repeats our key."""
        ...

    def will_stream(self, pieces: Sequence[str]) -> None:
        """Begin a stream, and then say nothing until it is closed."""
        ...

    def will_die_after(self, pieces: Sequence[str]) -> None:
        """Begin a stream and drop the connection in its middle."""
        ...

    def has_stopped(self) -> bool:
        """Tell whether the engine works on nothing."""
        ...


class FakeSubject:
    """The fake."""

    def __init__(self) -> None:
        self.fake = FakeBackend()
        self.backend: Backend = self.fake

    def will_answer(self) -> None:
        whole = says(json.dumps(answer()).encode())
        stream = says(*(event.encode() for event in events()), content_type=EVENTS)
        self.fake.script = lambda request: stream(request) if request.stream else whole(request)

    def will_refuse(self, status: int, *, retry_after: int | None = None) -> None:
        self.fake.script = refuses(_error(status, retry_after))

    def will_stream(self, pieces: Sequence[str]) -> None:
        self.fake.script = says(*(piece.encode() for piece in pieces), content_type=EVENTS)

    def will_die_after(self, pieces: Sequence[str]) -> None:
        died = BackendError("It died.", replica=NAME)
        self.fake.script = says(*(piece.encode() for piece in pieces), died, content_type=EVENTS)

    def has_stopped(self) -> bool:
        return all(given.closed for given in self.fake.answers)


def _error(status: int, retry_after: int | None) -> BackendError:
    if status in {400, 422}:
        return BackendRejected(
            "It refuses.", replica=NAME, status=status, body=b'{"error": {"message": "no"}}'
        )
    if status in {429, 503}:
        return BackendOverloaded("Later.", replica=NAME, status=status, retry_after=retry_after)
    return BackendUnavailable("It is down.", replica=NAME)


class SocketSubject:
    """An adapter over the scripted upstream."""

    def __init__(self, backend: Backend, upstream: ScriptedUpstream) -> None:
        self.backend = backend
        self.upstream = upstream

    def will_answer(self) -> None:
        self.upstream.script = well_behaved

    def will_refuse(self, status: int, *, retry_after: int | None = None) -> None:
        async def script(talk: Talk) -> None:
            told = f"no {talk.request.headers.get('authorization')}"
            headers = {} if retry_after is None else {"retry-after": str(retry_after)}
            await talk.json({"error": {"message": told, "type": "x"}}, status, headers)

        self.upstream.script = script

    def will_stream(self, pieces: Sequence[str]) -> None:
        async def script(talk: Talk) -> None:
            await talk.head()
            for piece in pieces:
                await talk.send(piece)
            await talk.until_closed()

        self.upstream.script = script

    def will_die_after(self, pieces: Sequence[str]) -> None:
        async def script(talk: Talk) -> None:
            await talk.head()
            for piece in pieces:
                await talk.send(piece)
            talk.abort()

        self.upstream.script = script

    def has_stopped(self) -> bool:
        return self.upstream.open_connections == 0


def openai_server(url: str) -> OpenAIServer:
    """Return a backend for a server."""
    replica = Replica(NAME, ReplicaKind.OPENAI, url, "engine-model", api_key=API_KEY)
    return OpenAIServer(replica, connect_timeout=5.0)


def provider(url: str) -> Provider:
    """Return a backend for a provider that litellm knows, at an address of ours."""
    replica = Replica(NAME, ReplicaKind.LITELLM, f"{url}/v1", "openai/engine-model", api_key=API_KEY)
    return Provider(replica)


@asynccontextmanager
async def subject_named(name: str) -> AsyncGenerator[Subject]:
    """Yield a backend under contract; all that it held is closed at the end."""
    if name == "fake":
        yield FakeSubject()
        return
    async with ScriptedUpstream(well_behaved) as upstream:
        backend = openai_server(upstream.url) if name == "server" else provider(upstream.url)
        yield SocketSubject(backend, upstream)
        await backend.aclose()
        if name == "provider":
            await forget_litellm()


async def forget_litellm() -> None:
    """Close the clients that litellm keeps for this event loop, which ends with its test."""
    litellm: Any = await asyncio.to_thread(load_litellm)
    clients = list(litellm.in_memory_llm_clients_cache.cache_dict.values())
    await litellm.close_litellm_async_clients()
    for client in clients:
        if hasattr(client, "close"):
            await client.close()
    litellm.in_memory_llm_clients_cache.flush_cache()
