"""Engines that say how much is left, and when to come again."""

import openai
import pytest

from gateway.exchange import HEADER
from tests.cases.playing import NO_FALLBACK, ask
from tests.fakes.upstream import Script, ScriptedUpstream, Talk, answer, events, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest

LIMITS = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-tokens": "149984"}


async def limited(talk: Talk) -> None:
    """Answer well, with what is left in the headers."""
    if not talk.request.json().get("stream"):
        await talk.json(answer(), headers=LIMITS)
        return
    await talk.head(headers=LIMITS)
    for event in events():
        await talk.send(event)
    await talk.end()


def busy(status: int, **headers: str) -> Script:
    """Return a script that asks to be left alone."""

    async def script(talk: Talk) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await talk.json({"error": {"message": "busy"}}, status, {**LIMITS, **named})

    return script


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_left_is_passed_on_with_the_answer(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, stream: bool
):
    flash.script = limited
    reply = await ask(gateway, stream=stream)
    assert reply.status_code == 200
    assert {name: reply.headers.get(name) for name in LIMITS} == LIMITS


async def test_what_is_left_is_that_of_the_replica_that_answered(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    flash.script = busy(429, retry_after="7")
    reply = await ask(gateway)
    assert reply.headers[f"{HEADER}model"] == "standard"
    assert not any(name.startswith("x-ratelimit") for name in reply.headers)


async def test_the_official_client_learns_what_is_left_from_a_429(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = busy(429, retry_after="7")
    async with start_gateway(tenant=NO_FALLBACK) as gateway, gateway.openai() as client:
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="flash", messages=[{"role": "user", "content": "Hi"}])
    assert {name: caught.value.response.headers.get(name) for name in LIMITS} == LIMITS


@pytest.mark.parametrize("status", [429, 503])
async def test_while_a_replica_is_busy_the_other_one_is_asked(
    start_gateway: StartGateway, flash: ScriptedUpstream, status: int
):
    flash.script = busy(status, retry_after="50")
    async with (
        ScriptedUpstream(well_behaved) as second,
        start_gateway(flash=[flash.url, second.url]) as gateway,
    ):
        for _ in range(6):
            assert (await ask(gateway)).headers[f"{HEADER}replica"] == "flash/main/1"
    assert len(flash.requests) == 1


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit_exceeded"), (503, "server_is_overloaded")])
async def test_while_all_are_busy_the_client_is_told_at_once_when_to_come_again(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream, status: int, code: str
):
    flash.script, standard.script = busy(status, retry_after="50"), busy(503, retry_after="55")
    async with start_gateway() as gateway:
        await ask(gateway)
        for _ in range(3):
            reply = await ask(gateway)
            assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
            assert 1 <= int(reply.headers["retry-after"]) <= 50
    assert (len(flash.requests), len(standard.requests)) == (1, 1)


async def test_a_replica_that_does_not_say_when_is_asked_again(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = busy(503)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        assert (await ask(gateway)).status_code == 503
        flash.script = well_behaved
        assert (await ask(gateway)).status_code == 200


async def test_a_replica_is_asked_again_when_its_time_is_over(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = busy(429, retry_after_ms="1")
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        assert (await ask(gateway)).headers["retry-after"] == "1"
        flash.script = well_behaved
        assert (await ask(gateway)).status_code == 200
