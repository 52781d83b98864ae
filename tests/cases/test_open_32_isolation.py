"""Tenants share no cached prefix, unless both say so: OPEN-32, on an engine that keys its cache by salt."""

import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.exchange import HEADER
from gateway.salts import Salts, kept_secret
from tests.cases.playing import ask
from tests.fakes.caching_engine import CachingEngine
from tests.fakes.upstream import ScriptedUpstream
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, OTHER_KEY, GatewayUnderTest, write_tenant
from tests.support.waiting import until

TEXT = "The archive of the river authority holds the following rules for lock keepers. " * 240


@pytest_asyncio.fixture
async def engine(flash: ScriptedUpstream) -> AsyncGenerator[CachingEngine]:
    """What runs behind flash."""
    flash.script = engine = CachingEngine()
    yield engine


async def asked(gateway: GatewayUnderTest, key: str, question: str, **fields: Any) -> httpx.Response:
    """Ask a question behind the text."""
    messages = [{"role": "system", "content": TEXT}, {"role": "user", "content": question}]
    return await ask(gateway, key=key, messages=messages, **fields)


def cached(reply: httpx.Response) -> int:
    """Return what the client is told of cached tokens; the header and the body agree."""
    said = int(reply.headers[f"{HEADER}cached-tokens"])
    assert said == reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return said


async def test_a_prefix_is_reused_by_its_own_tenant_alone(start_gateway: StartGateway, engine: CachingEngine):
    async with start_gateway(engine="vllm") as gateway:
        replies = [await asked(gateway, key, q) for key, q in ((KEY, "q1"), (OTHER_KEY, "q2"), (KEY, "q3"))]
    assert [cached(reply) > 0 for reply in replies] == [False, False, True]
    first, others, again = (body["cache_salt"] for body in engine.bodies)
    assert first == again != others
    for salt in (first, others):
        assert re.fullmatch("[0-9a-f]{32}", salt)
        for reply in replies:
            assert salt not in reply.text + str(reply.headers)


async def test_a_prefix_that_was_computed_beforehand_is_its_own_tenants_alone(
    start_gateway: StartGateway, engine: CachingEngine
):
    prefix = {"name": "rules", "messages": [{"role": "system", "content": TEXT}]}
    async with start_gateway(engine="vllm", tenant={"prefixes": [prefix]}) as gateway:
        assert cached(await asked(gateway, OTHER_KEY, "q1")) == 0
        assert cached(await asked(gateway, KEY, "q2")) > 0


async def test_no_client_chooses_a_salt(start_gateway: StartGateway, engine: CachingEngine):
    async with start_gateway(engine="vllm") as gateway:
        await asked(gateway, KEY, "q1")
        salt = engine.bodies[0]["cache_salt"]
        assert cached(await asked(gateway, OTHER_KEY, "q2", cache_salt=salt)) == 0
    assert engine.bodies[1]["cache_salt"] != salt


@pytest.mark.parametrize(("both", "reused"), [(False, False), (True, True)])
async def test_sharing_takes_the_word_of_both(
    start_gateway: StartGateway, engine: CachingEngine, both: bool, reused: bool, tmp_path: Path
):
    shared: Mapping[str, Any] = {"cache": {"isolation": "shared"}}
    async with start_gateway(engine="vllm", tenant=shared) as gateway:
        theirs = {"priority": "high", **(shared if both else {})}
        write_tenant(tmp_path / "tenants", "umbrella", OTHER_KEY, theirs)
        book = gateway.services.tenants
        await until(
            lambda: any(tenant.priority == "high" for tenant in book.tenants()), "the file to be read"
        )
        await asked(gateway, KEY, "q1")
        assert (cached(await asked(gateway, OTHER_KEY, "q2")) > 0) is reused


def test_a_salt_is_made_under_a_secret_that_is_kept(tmp_path: Path):
    secret = kept_secret(tmp_path / "state" / "salt.key")
    assert kept_secret(tmp_path / "state" / "salt.key") == secret
    assert (tmp_path / "state" / "salt.key").stat().st_mode & 0o77 == 0
    assert Salts(secret).of_name("acme") == Salts(secret).of_name("acme")
    assert Salts(secret).of_name("acme") != Salts(b"another").of_name("acme")
