"""A whole gateway on a real port, over engines that a test chooses."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from gateway.config import Config, load_config
from gateway.connection import WRITE_SECONDS, connection_with
from gateway.records import RequestRecord
from gateway.runtime import running
from gateway.services import Services
from gateway.settings import Settings
from policies.keys import hash_key
from policies.redis_client import connect
from policies.yaml_file import write_yaml
from tests.support.waiting import until

KEY = "sk-fl-test-key-of-acme"
OTHER_KEY = "sk-fl-test-key-of-umbrella"


@dataclass(frozen=True, slots=True)
class GatewayUnderTest:
    """A running gateway."""

    url: str
    services: Services
    tenants_dir: Path

    def openai(self, key: str = KEY) -> AsyncOpenAI:
        """Return the official client, without its own retries."""
        client = DefaultAsyncHttpxClient(verify=False)
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, http_client=client)

    def http(self, key: str | None = KEY) -> httpx.AsyncClient:
        """Return a plain client.

        It would else read the certificates of all the world, which takes longer than most tests.
        """
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, verify=False)

    async def record(self, request_id: str, tenant: str = "acme") -> RequestRecord:
        """Return the record of a request, waiting until it is written."""
        found: list[RequestRecord] = []

        async def there() -> bool:
            record = await self.services.ledger.find(request_id, tenant=tenant)
            found.extend([record] if record else [])
            return record is not None

        await until(there, f"the record of {request_id}")
        return found[0]

    def in_flight(self) -> int:
        """Count what is in flight on all replicas."""
        return sum(member.in_flight for _, member in self.services.fleet.members())


@asynccontextmanager
async def running_gateway(
    folder: Path,
    redis_url: str,
    *,
    flash: str | Sequence[str],
    standard: str,
    tenant: Mapping[str, Any] | None = None,
    engine: str = "openai",
    context: int | None = None,
    server: Mapping[str, Any] | None = None,
    timeouts: Mapping[str, float] | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
    more: Mapping[str, Any] | None = None,
    write_seconds: float = WRITE_SECONDS,
) -> AsyncGenerator[GatewayUnderTest]:
    """Run a gateway with the tenants `acme` (as given) and `umbrella` (defaults).

    Args:
        folder: Of this test.
        redis_url: A Redis that this test may empty.
        flash: URL of the flash engine, or URLs of its replicas.
        standard: URL of the standard engine.
        tenant: Settings of `acme`.
        engine: What the engines are said to be.
        context: Context of both models.
        server: The section of that name.
        timeouts: Of both models, as in the configuration.
        models: Further settings of a model, by its name, such as `capabilities`.
        more: Further sections.
        write_seconds: How long a client may take nothing.
    """
    urls = {"flash": [flash] if isinstance(flash, str) else flash, "standard": [standard]}
    sections = {
        name: {
            "served_name": f"{name}-upstream",
            "prices": {"hit": "0.01", "miss": "0.1", "output": "1"},
            "pools": [{"name": "main", "replicas": [{"url": url, "engine": engine} for url in replicas]}],
            "timeouts": dict(timeouts or {}),
        }
        | ({} if context is None else {"context": context})
        | dict((models or {}).get(name, {}))
        for name, replicas in urls.items()
    }
    settings = {"redis": {"url": redis_url}, "models": sections, "server": server or {}, **(more or {})}
    config = await asyncio.to_thread(_write_config, folder, settings, tenant or {})
    await _empty(redis_url)
    async with (
        running(config, settings_in(folder)) as app,
        serving(app, write_seconds) as url,
    ):
        yield GatewayUnderTest(url, app.services, folder / "tenants")


def _write_config(folder: Path, settings: dict[str, Any], acme: Mapping[str, Any]) -> Config:
    write_tenant(folder / "tenants", "acme", KEY, acme)
    write_tenant(folder / "tenants", "umbrella", OTHER_KEY, {})
    write_yaml(folder / "flashlane.yaml", {"tenants": "tenants", **settings})
    return load_config(folder / "flashlane.yaml")


@asynccontextmanager
async def serving(app: Any, write_seconds: float = WRITE_SECONDS) -> AsyncGenerator[str]:
    """Serve an ASGI application on a free port; yields its URL."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=0,
            http=connection_with(write_seconds),
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
    )
    task = asyncio.get_running_loop().create_task(server.serve())
    try:
        await until(lambda: server.started or task.done(), "the server to start")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def settings_in(folder: Path, **secrets: str) -> Settings:
    """Return settings whose folders are those of a test."""
    return Settings(models_dir=folder / "models", state_dir=folder / "state", secrets=secrets)


async def _empty(redis_url: str) -> None:
    async with connect(redis_url) as redis:
        await redis.flushall()  # pyright: ignore[reportUnknownMemberType]


def write_tenant(folder: Path, name: str, key: str, settings: Mapping[str, Any]) -> None:
    """Write a tenant's file."""
    keys = [{"name": "web", "sha256": hash_key(key)}]
    write_yaml(folder / f"{name}.yaml", {"tenant": name, "keys": keys, **settings})
