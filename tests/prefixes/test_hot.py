"""Beginnings that come again and again are found, and few of them."""

from typing import Any

import msgspec

from gateway.prefixes.hot import (
    HALF_LIFE,
    HOT_REQUESTS,
    LEAST_CHARACTERS,
    MOST_HOT,
    MOST_TALLIES,
    HotPrefixes,
)
from gateway.requests.chat import ChatRequest, parse_chat
from tests.cases.playing import ask
from tests.fakes.caching_engine import CachingEngine
from tests.prefixes.conftest import StartGateway
from tests.support.waiting import until

LONG = "You answer questions about the river Saone. " * 60
OFTEN = int(HOT_REQUESTS)


def turns(question: str, system: str = LONG) -> list[dict[str, str]]:
    """Return messages that begin with a system prompt."""
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


def request(system: str = LONG, question: str = "Well?", **fields: Any) -> ChatRequest:
    """Return a request that begins with a system prompt."""
    body = {"model": "flash", "messages": turns(question, system), **fields}
    return parse_chat(msgspec.json.encode(body))


def see(
    hot: HotPrefixes, times: int = OFTEN, *, tenant: str = "acme", now: float = 0.0, **fields: Any
) -> None:
    """Count requests with questions of their own."""
    for number in range(times):
        hot.saw(tenant, "flash", request(question=f"Question {number}?", **fields), now)


def test_what_comes_often_is_hot_with_its_tools_and_without_its_questions():
    hot = HotPrefixes()
    tools = [{"type": "function", "function": {"name": "weather"}}]
    see(hot, OFTEN - 1, tools=tools)
    assert hot.of("acme") == ()
    see(hot, 1, tools=tools)
    (found,) = hot.of("acme")
    assert msgspec.json.decode(found.fields) == {
        "tools": tools,
        "messages": [{"role": "system", "content": LONG}],
    }
    assert found.models == {"flash"}
    assert hot.of("umbrella") == ()


def test_what_is_short_rare_or_changes_is_not():
    hot = HotPrefixes()
    see(hot, system="x" * (LEAST_CHARACTERS - 1))
    for number in range(3 * OFTEN):
        see(hot, 1, system=f"Request {number}. {LONG}")
        see(hot, 1, now=number * HALF_LIFE)
    assert hot.of("acme") == ()


def test_what_is_no_longer_asked_for_is_forgotten():
    hot = HotPrefixes()
    see(hot)
    before = hot.version
    hot.age(HALF_LIFE)
    assert (len(hot.of("acme")), hot.version) == (1, before)
    hot.age(5 * HALF_LIFE)
    assert (hot.of("acme"), hot.version) == ((), before + 1)


def test_a_tenant_has_few_and_the_hottest_of_them():
    hot = HotPrefixes()
    for number in range(MOST_HOT + 2):
        see(hot, system=f"{number} {LONG}")
    assert len(hot.of("acme")) == MOST_HOT
    see(hot, 3 * OFTEN, system=f"Hotter. {LONG}")
    assert len(hot.of("acme")) == MOST_HOT
    assert any(b"Hotter." in found.fields for found in hot.of("acme"))


def test_only_so_many_are_counted():
    hot = HotPrefixes()
    see(hot)
    for number in range(MOST_TALLIES):
        see(hot, 1, system=f"{number} {LONG}")
    assert hot.of("acme") == ()


async def test_a_hot_beginning_is_computed_again_for_a_replica_that_lost_it(
    start_gateway: StartGateway, engine: CachingEngine
):
    async with start_gateway(tenant={}) as gateway:
        for number in range(OFTEN + 1):  # time goes by, so that each counts for a little less than one
            await ask(gateway, messages=turns(f"Question {number}?"))
        await until(lambda: bool(gateway.services.prefixes.entries()), "it to be found")
        (found,) = gateway.services.prefixes.entries()
        await until(lambda: found.residency.resident, "it to be looked at")
        assert found.residency.computed == 0  # requests had done it
        engine.forget()
        found.due = found.since  # as when a minute has passed
        await until(lambda: found.residency.computed == 1, "another look")
        reply = await ask(gateway, messages=turns("Well?"))
        assert reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] >= found.residency.expected / 2
        page = (await gateway.services.telemetry.render()).decode()
    assert 'prefix="~found"' in page
    assert found.residency.prefix not in page
