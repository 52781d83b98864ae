"""Prefixes are computed before traffic, and again whenever a replica has lost them."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.config import load_config
from gateway.prefixes.entry import Entry
from gateway.runtime import running
from policies.yaml_file import write_yaml
from tests.cases.playing import ask, member
from tests.fakes.caching_engine import BLOCK, CachingEngine, words_of
from tests.fakes.upstream import ScriptedUpstream, Talk
from tests.prefixes.conftest import PREFIX, SYSTEM, StartGateway
from tests.support.gateway import KEY, OTHER_KEY, GatewayUnderTest, serving, settings_in, write_tenant
from tests.support.waiting import until

QUESTION: Sequence[Mapping[str, Any]] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "How many bridges are there?"},
]


def entry(gateway: GatewayUnderTest, replica: str = "flash/main/0", prefix: str = "support") -> Entry:
    """Return a prefix on a replica."""
    (found,) = (
        each
        for each in gateway.services.prefixes.entries()
        if (each.residency.replica, each.residency.prefix) == (replica, prefix)
    )
    return found


async def cached(gateway: GatewayUnderTest, key: str = KEY, **fields: Any) -> int:
    """Ask a question behind the prefix; return how much of it the engine had."""
    fields.setdefault("messages", QUESTION)
    reply = await ask(gateway, key=key, **fields)
    assert reply.status_code == 200, reply.text
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def prefix_words(**fields: Any) -> int:
    """Return how many words a prompt shares with all others that begin with the prefix, in whole blocks."""
    return len(words_of({"messages": QUESTION[:1], **fields})[:-1]) // BLOCK * BLOCK


async def test_the_first_request_finds_the_prefix(start_gateway: StartGateway):
    async with start_gateway() as gateway:
        assert await cached(gateway) == prefix_words()
        assert await cached(gateway, model="standard") == prefix_words()


async def test_a_warm_up_asks_for_one_token_after_all_others(
    start_gateway: StartGateway, engine: CachingEngine
):
    async with start_gateway(models={"flash": {"gsm": {}}}) as gateway:
        await cached(gateway)
    *warm_ups, request = engine.bodies
    assert len(warm_ups) == 2
    for body in warm_ups:
        assert body["max_tokens"] == 1
        assert body["priority"] > 0
        assert body["kv_transfer_params"] == {"gsm_pin": True}
        assert (body["cache_salt"], body["model"]) == (request["cache_salt"], request["model"])
    assert not {"priority", "kv_transfer_params"} & request.keys()


async def test_nothing_is_pinned_where_no_gsm_is_configured(
    start_gateway: StartGateway, engine: CachingEngine
):
    async with start_gateway():
        assert not any("kv_transfer_params" in body for body in engine.bodies)


async def test_an_engine_that_refuses_a_priority_is_asked_without(
    start_gateway: StartGateway, engine: CachingEngine
):
    engine.takes_priority = False
    async with start_gateway() as gateway:
        assert await cached(gateway) == prefix_words()
    assert ["priority" in body for body in engine.bodies[:3]] == [True, False, False]


@pytest.mark.parametrize(
    ("fields", "prefix"),
    [
        ({"tools": [{"type": "function", "function": {"name": "weather"}}]}, {}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, {}),
        ({}, {"messages": [*PREFIX["messages"], {"role": "user", "content": "Bonjour"}]}),
    ],
)
async def test_tools_switches_and_examples_are_those_of_the_requests(
    start_gateway: StartGateway, fields: Mapping[str, Any], prefix: Mapping[str, Any]
):
    registered = {**PREFIX, **fields, **prefix}
    async with start_gateway(tenant={"prefixes": [registered]}) as gateway:
        messages = [*registered["messages"], QUESTION[-1]]
        assert await cached(gateway, messages=messages, **fields) >= prefix_words(**fields)


async def test_thinking_is_told_as_requests_tell_it(start_gateway: StartGateway):
    registered = {**PREFIX, "reasoning_effort": "high"}
    models = {"flash": {"thinking": "deepseek"}}
    async with start_gateway(tenant={"prefixes": [registered]}, models=models) as gateway:
        assert await cached(gateway, reasoning_effort="high") > prefix_words() / 2
        assert await cached(gateway, reasoning_effort="max") == 0


async def test_another_tenant_has_nothing_of_it(start_gateway: StartGateway):
    async with start_gateway() as gateway:
        assert await cached(gateway, OTHER_KEY) == 0
        assert await cached(gateway) == prefix_words()


async def test_tenants_that_both_share_their_cache_have_it_both(start_gateway: StartGateway, tmp_path: Path):
    shared = {"cache": {"isolation": "shared"}}
    async with start_gateway(tenant={"prefixes": [PREFIX], **shared}) as gateway:
        write_tenant(tmp_path / "tenants", "umbrella", OTHER_KEY, shared)
        await until(
            lambda: all(tenant.shared_cache for tenant in gateway.services.tenants.tenants()), "the new rule"
        )
        assert await cached(gateway, OTHER_KEY) == prefix_words()


async def test_hits_are_counted_from_what_the_engine_says(start_gateway: StartGateway, engine: CachingEngine):
    async with start_gateway() as gateway:
        await cached(gateway)
        await ask(gateway, messages=[{"role": "system", "content": SYSTEM + "\n"}, QUESTION[1]])
        found = entry(gateway)
        assert (found.all_hits, found.all_misses) == (1, 0)
        engine.forget()
        await cached(gateway)
        assert (found.all_hits, found.all_misses) == (1, 1)


async def test_what_was_evicted_is_computed_again(start_gateway: StartGateway, engine: CachingEngine):
    async with start_gateway() as gateway:
        engine.forget()
        found = entry(gateway)
        found.due = found.since  # as when a minute has passed
        await until(lambda: found.residency.why == "evicted", "another look")
        assert found.residency.computed == 2
        assert await cached(gateway) == prefix_words()


async def test_a_request_that_misses_it_brings_another_look(
    start_gateway: StartGateway, engine: CachingEngine
):
    async with start_gateway() as gateway:
        looks = len(engine.warm_ups())
        engine.forget()
        await cached(gateway)
        await until(lambda: len(engine.warm_ups()) > looks, "another look")
        assert await cached(gateway) >= prefix_words()


async def test_a_replica_that_comes_back_gets_it_before_its_first_request(
    start_gateway: StartGateway, engine: CachingEngine, flash: ScriptedUpstream
):
    async with CachingEngineServer() as other, start_gateway(flash=[flash.url, other.url]) as gateway:
        first, second = member(gateway), member(gateway, "flash/main/1")

        async def away(talk: Talk) -> None:
            await talk.json({}, 503)

        flash.health = away
        await gateway.services.fleet.probe()
        assert not first.health.takes_requests(gateway.services.clock.monotonic())
        engine.forget()
        engine.gate.clear()
        flash.health = None
        await gateway.services.fleet.probe()
        second.in_flight += 50
        for _ in range(3):
            placed = gateway.services.fleet.place("flash")
            assert placed is not None
            assert placed.member is second
        second.in_flight -= 50
        engine.gate.set()
        await until(lambda: entry(gateway).residency.why == "restart", "the prefix to be computed")
        await until(lambda: first.cold_until <= gateway.services.clock.monotonic(), "requests to come again")
        words = len(words_of({"messages": QUESTION}))
        assert engine.counts({"messages": QUESTION, "cache_salt": engine.bodies[-1]["cache_salt"]}) == (
            words,
            prefix_words(),
        )


async def test_a_replica_that_is_full_is_not_asked_until_a_client_has_gone(
    start_gateway: StartGateway, engine: CachingEngine, flash: ScriptedUpstream
):
    async with CachingEngineServer() as other, start_gateway(flash=[flash.url, other.url]) as gateway:
        full, now, before = member(gateway), gateway.services.clock.monotonic(), len(engine.bodies)
        full.slots, full.in_flight = 2, 2
        entries = [entry(gateway), entry(gateway, "flash/main/1")]
        for found in entries:
            found.needed(now, "evicted")
        await until(lambda: entries[1].due > now, "the replica with room to be looked at")
        assert len(engine.bodies) == before
        assert entries[0].due == now
        full.in_flight -= 1
        await until(lambda: entries[0].due > now, "the other to be looked at")
        assert len(engine.bodies) > before
        full.in_flight -= 1


class CachingEngineServer(ScriptedUpstream):
    """Another replica."""

    def __init__(self) -> None:
        super().__init__(CachingEngine())


async def test_a_change_of_the_file_is_followed(
    start_gateway: StartGateway, engine: CachingEngine, tmp_path: Path
):
    async with start_gateway(models={"flash": {"gsm": {}}}) as gateway:
        changed = {"name": "support", "messages": [{"role": "system", "content": "Be brief. " + SYSTEM}]}
        write_tenant(tmp_path / "tenants", "acme", KEY, {"prefixes": [changed]})
        await until(lambda: entry(gateway).residency.why == "changed", "the new text to be computed")
        messages = [*changed["messages"], QUESTION[1]]
        assert await cached(gateway, messages=messages) >= prefix_words()
        await until(
            lambda: any(body.get("kv_transfer_params") == {"gsm_pin": False} for body in engine.bodies),
            "the old text to be let go",
        )
        write_tenant(tmp_path / "tenants", "acme", KEY, {})
        await until(lambda: not gateway.services.prefixes.entries(), "the prefix to be gone")


async def test_an_engine_that_does_not_tell_is_said_to(start_gateway: StartGateway, engine: CachingEngine):
    engine.tells = False
    async with start_gateway() as gateway:
        found = entry(gateway).residency
        assert not found.resident
        assert "--enable-prompt-tokens-details" in found.note


async def test_an_engine_that_fails_is_asked_again_later_and_not_blamed(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: CachingEngine
):
    async def broken(talk: Talk) -> None:
        await talk.json({"error": {"message": "no"}}, 500)

    flash.script = broken
    async with start_gateway() as gateway:
        found = entry(gateway)
        assert (found.errors, found.failures) == (1, 1)
        assert found.residency.note
        assert member(gateway).health.takes_requests(gateway.services.clock.monotonic())
        flash.script = engine
        found.due = found.since
        await until(lambda: found.residency.resident, "the prefix to be computed")
        assert found.residency.note == ""


async def test_nothing_is_sent_to_a_replica_of_which_nobody_says_what_it_is(
    start_gateway: StartGateway, engine: CachingEngine
):
    async with start_gateway(engine="openai") as gateway:
        assert gateway.services.prefixes.entries() == []
    assert engine.bodies == []


async def test_two_gateways_compute_a_prefix_once(
    start_gateway: StartGateway, engine: CachingEngine, tmp_path: Path
):
    async with start_gateway() as gateway:
        first = len(engine.warm_ups())
        config = await asyncio.to_thread(load_config, tmp_path / "flashlane.yaml")
        async with running(config, settings_in(tmp_path)) as app, serving(app):
            assert len(engine.warm_ups()) == first + 1  # the other sees that it is there
            engine.forget()
            engine.gate.clear()
            for prefixes in (gateway.services.prefixes, app.services.prefixes):
                for found in prefixes.entries():
                    found.needed(gateway.services.clock.monotonic(), "evicted")
            await until(lambda: engine.running > 0, "one of them to ask")
            await asyncio.sleep(1.2)  # the other one looks twice in that time
            assert engine.running == 1
            engine.gate.set()
            await until(
                lambda: all(
                    found.due > gateway.services.clock.monotonic()
                    for prefixes in (gateway.services.prefixes, app.services.prefixes)
                    for found in prefixes.entries()
                ),
                "both to know",
            )
            assert len(engine.warm_ups()) == first + 3
    assert engine.most_running == 1


async def test_without_redis_prefixes_are_computed_all_the_same(
    tmp_path: Path, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    write_tenant(tmp_path / "tenants", "acme", KEY, {"prefixes": [PREFIX]})
    models = {
        name: {
            "served_name": name,
            "pools": [{"name": "main", "replicas": [{"url": url, "engine": "vllm"}]}],
        }
        for name, url in (("flash", flash.url), ("standard", standard.url))
    }
    settings = {"redis": {"url": "redis://127.0.0.1:9/0"}, "models": models, "tenants": "tenants"}
    write_yaml(tmp_path / "flashlane.yaml", settings)
    config = await asyncio.to_thread(load_config, tmp_path / "flashlane.yaml")
    async with running(config, settings_in(tmp_path)) as app:
        await until(
            lambda: all(each.residency.resident for each in app.services.prefixes.entries()),
            "all prefixes to be computed",
        )


async def test_metrics_tell_what_is_there_and_what_it_brings(start_gateway: StartGateway):
    async with start_gateway() as gateway:
        await cached(gateway)
        page = (await gateway.services.telemetry.render()).decode()
    place = 'model="flash",prefix="support",replica="flash/main/0",tenant="acme"'
    held = entry(gateway).residency.cached
    assert held >= prefix_words()
    assert f"flashlane_prefix_resident_tokens{{{place}}} {held:.1f}" in page
    assert 'flashlane_prefix_requests_total{outcome="hit",prefix="support",tenant="acme"} 1.0' in page
    assert 'flashlane_prefix_computed_total{replica="flash/main/0"} 1.0' in page
