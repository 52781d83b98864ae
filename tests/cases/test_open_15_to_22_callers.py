"""Callers: keys, secrets, identity, and what is billed."""

import asyncio
import json
import logging
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster

from backends.engines.probes import free_port
from gateway.config import load_config
from gateway.errors import ConfigInvalid
from gateway.exchange import HEADER
from policies.yaml_file import write_yaml
from tests.cases.playing import (
    DONE,
    NO_FALLBACK,
    PATH,
    STOP,
    answering,
    ask,
    asked,
    by_hand,
    chat,
    chunk,
    counted,
    event,
    member,
    record_of,
    silent,
    streaming,
    word,
)
from tests.contracts.subjects import API_KEY, provider
from tests.fakes.upstream import Script, ScriptedUpstream, answer
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, OTHER_KEY, GatewayUnderTest
from tests.support.waiting import until


@pytest.mark.parametrize(
    "header",
    [
        b"authorization: Bearer sk-SECRET\xe9",
        b"authorization: Bearer \xe2\x80\x9csk-SECRET\xe2\x80\x9d",
        b"authorization: Bearer ",
        b"authorization: Basic U0VDUkVU",
        b"x-api-key: sk-SECRET\xff",
    ],
)
async def test_a_key_of_any_bytes_is_refused_as_unknown(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture, header: bytes
):
    """OPEN-15 a to d: 401, never 500, and the key is nowhere."""
    with caplog.at_level(logging.DEBUG):
        status, body = await by_hand(gateway, header)
    assert status == 401
    assert json.loads(body)["error"]["code"] == "invalid_api_key"
    assert b"SECRET" not in body
    assert "SECRET" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_key_of_64_kib_is_refused(gateway: GatewayUnderTest):
    """OPEN-15 e: by 400, 401 or 431."""
    status, _ = await by_hand(gateway, b"authorization: Bearer " + b"k" * 65536)
    assert status in {400, 401, 431}


async def test_the_scheme_of_a_key_may_have_any_case(gateway: GatewayUnderTest):
    """OPEN-15 f."""
    assert (await by_hand(gateway, b"Authorization: bEARER " + KEY.encode()))[0] == 200


async def test_two_keys_are_none(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-15 g: nobody knows who pays."""
    lines = [b"Authorization: Bearer " + key.encode() for key in (KEY, OTHER_KEY)]
    assert (await by_hand(gateway, *lines))[0] in {400, 401}
    twice = [b"x-api-key: " + key.encode() for key in (KEY, OTHER_KEY)]
    assert (await by_hand(gateway, *twice))[0] in {400, 401}
    assert asked(flash) == 0


async def everything(gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture) -> str:
    """Return all that others can read: the log and the metrics."""
    async with gateway.http(None) as client:
        return caplog.text + (await client.get("/metrics")).text


async def test_a_clients_wrong_key_is_repeated_nowhere(
    gateway: GatewayUnderTest, caplog: pytest.LogCaptureFixture
):
    """OPEN-16 a, d: not in the answer, the log at its most talkative, or the metrics."""
    with caplog.at_level(logging.DEBUG):
        reply = await ask(gateway, key="other-SECRET41")
        seen = await everything(gateway, caplog)
    assert reply.status_code == 401
    assert "SECRET" not in reply.text + seen


@pytest.mark.parametrize(
    "status",
    [
        401,
        403,
        500,
        502,
    ],
)
async def test_a_key_that_an_engine_repeats_goes_no_further(
    start_gateway: StartGateway, flash: ScriptedUpstream, caplog: pytest.LogCaptureFixture, status: int
):
    """OPEN-16 b, d: whose key it is, the client learns neither that nor the key."""
    flash.script = answering({"error": {"message": "Incorrect API key provided: sk-up-SECRET42"}}, status)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        with caplog.at_level(logging.DEBUG):
            reply = await ask(gateway)
            record = await record_of(gateway, reply)
            seen = await everything(gateway, caplog)
    assert reply.status_code in {502, 503}
    assert "SECRET" not in reply.text + seen + " ".join(record.trace)


@pytest.mark.parametrize("code", ["invalid_api_key", "API_KEY_INVALID"])
async def test_a_400_about_our_key_is_not_the_clients_fault(
    start_gateway: StartGateway, flash: ScriptedUpstream, code: str
):
    """OPEN-16 b: not every provider says 401."""
    flash.script = answering({"error": {"message": "Key SECRET42 is not valid", "code": code}}, 400)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        reply = await ask(gateway)
    assert reply.status_code == 502
    assert "SECRET" not in reply.text


@pytest.mark.parametrize(
    "script",
    [
        answering({"error": {"message": "Incorrect API key provided: sk-up-SECRET42"}}, 400),
        answering({"error": {"message": "Authorization: Bearer SECRET42 is wrong", "code": 400}}),
        streaming(word("on "), event({"error": {"message": "bad key sk-SECRET42", "code": 401}}), DONE),
        answering({"error": {"message": "no key in https://user:SECRET42@10.0.0.1:8000/v1"}}, 400),
    ],
    ids=["refusal", "error in a 200", "in the middle of a stream", "in a URL"],
)
async def test_words_of_an_engine_that_reach_the_client_hold_no_key(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, caplog: pytest.LogCaptureFixture, script: Script
):
    """OPEN-16 b, d: where the engine's own words are of use."""
    flash.script = script
    with caplog.at_level(logging.DEBUG):
        reply = await ask(gateway, stream=True)
        seen = await everything(gateway, caplog)
    assert "key" in reply.text or "Bearer" in reply.text
    assert "SECRET" not in reply.text + seen


@pytest.mark.filterwarnings("ignore:Item", "ignore:Accessing the")  # litellm's own types
async def test_a_key_that_a_provider_repeats_goes_no_further(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    caplog: pytest.LogCaptureFixture,
    nothing_blocks_the_loop: BlockBuster,
):
    """OPEN-16 b, d: nor does the prompt; litellm puts the provider's words into its exceptions."""
    nothing_blocks_the_loop.deactivate()  # litellm looks for files as it fails
    flash.script = answering({"error": {"message": f"{API_KEY} may not ask 'my SECRET45'"}}, 500)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        member(gateway).backend = provider(flash.url)
        with caplog.at_level(logging.DEBUG, "gateway"):
            reply = await ask(gateway, "my SECRET45")
            record = await record_of(gateway, reply)
            seen = await everything(gateway, caplog) + reply.text + " ".join(record.trace)
    assert (reply.status_code, asked(flash)) == (502, 1)
    assert "InternalServerError (500)" in seen
    assert not any(secret in seen for secret in (API_KEY, "SECRET"))


async def test_a_prompt_stands_in_no_log(
    start_gateway: StartGateway, flash: ScriptedUpstream, caplog: pytest.LogCaptureFixture
):
    """OPEN-16 d: a failed request does not bring its prompt into the log."""
    flash.script = answering({"error": {"message": "cannot answer 'my SECRET43'"}}, 500)
    async with start_gateway(tenant=NO_FALLBACK) as gateway:
        with caplog.at_level(logging.DEBUG):
            await ask(gateway, "my SECRET43")
            seen = await everything(gateway, caplog)
    assert "SECRET" not in seen


async def test_a_password_in_the_url_of_an_engine_that_is_away_is_shown_nowhere(
    start_gateway: StartGateway, caplog: pytest.LogCaptureFixture
):
    """OPEN-16 c, d: taken for HTTP's Basic scheme, as people write it, and repeated by nobody."""
    url = f"https://user:SECRET45@127.0.0.1:{free_port()}/v1"
    with caplog.at_level(logging.DEBUG):
        async with start_gateway(flash=[url], tenant=NO_FALLBACK) as gateway:
            reply = await ask(gateway)
            record = await record_of(gateway, reply)
            async with gateway.http(None) as client:
                page = (await client.get("/health")).text
            seen = await everything(gateway, caplog)
    assert reply.status_code == 503
    assert "SECRET" not in reply.text + page + seen + " ".join(record.trace)


def test_a_wrong_configuration_is_told_without_its_secrets(tmp_path: Path):
    """OPEN-16 e: whatever is wrong with a URL, the password in it is not repeated."""
    replicas = [{"url": "https://user:SECRET44@127.0.0.1:99999"}]
    model = {"served_name": "x", "pools": [{"name": "main", "replicas": replicas}]}
    write_yaml(tmp_path / "flashlane.yaml", {"models": {"flash": model, "standard": model}})
    with pytest.raises(ConfigInvalid) as raised:
        load_config(tmp_path / "flashlane.yaml")
    assert "SECRET" not in str(raised.value)


SPOOFED = {
    "x-tenant-id": "umbrella",
    "x-user-id": "root",
    "x-forwarded-for": "10.1.1.1",
    "x-real-ip": "10.1.1.1",
    "forwarded": "for=10.1.1.1",
    "x-request-id": "z" * 4096,
}


async def test_only_the_key_says_who_asks(start_gateway: StartGateway, flash: ScriptedUpstream):
    """OPEN-19 a, b, d: not headers, not the body; and such headers go no further."""
    async with start_gateway(engine="vllm") as gateway:
        reply = await ask(gateway, headers=SPOOFED, user="umbrella-admin", metadata={"tenant": "umbrella"})
        record = await record_of(gateway, reply)
    assert record.tenant == "acme"
    assert flash.requests[0].json()["cache_salt"] == gateway.services.salts.of_name("acme")
    assert not SPOOFED.keys() & flash.requests[0].headers.keys()
    assert len(reply.headers[f"{HEADER}request-id"]) < 64


async def test_a_key_in_the_query_is_no_key(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-19 c: and names no tenant beside a key that counts."""
    path = f"{PATH}?tenant=umbrella&api_key={OTHER_KEY}"
    async with gateway.http(None) as client:
        assert (await client.post(path, json=chat())).status_code == 401
    assert asked(flash) == 0
    async with gateway.http() as client:
        assert (await record_of(gateway, await client.post(path, json=chat()))).tenant == "acme"


# 0.01 a cached, 0.1 an uncached, 1 an output token, in millionths of a USD.
COSTS = {
    "deepseek": ({"prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 200}, "0.000078"),
    "openai": ({"prompt_tokens_details": {"cached_tokens": 800}}, "0.000078"),
    "both": ({"prompt_cache_hit_tokens": 800, "prompt_tokens_details": {"cached_tokens": 800}}, "0.000078"),
    "null": ({"prompt_tokens_details": None}, "0.00015"),
    "null and hits": (
        {"prompt_tokens_details": {"cached_tokens": None}, "prompt_cache_hit_tokens": 800},
        "0.000078",
    ),
    "too many": ({"prompt_cache_hit_tokens": 1200}, "0.00006"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("more", "cost"), COSTS.values(), ids=COSTS.keys())
async def test_cached_tokens_are_billed_once_and_as_cached(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, more: dict[str, Any], cost: str, stream: bool
):
    """OPEN-21: in either spelling, streamed and plain; never below zero."""
    usage = counted(1000, 50) | more
    if stream:
        flash.script = streaming(word("Danube"), STOP, event({"choices": [], "usage": usage}), DONE)
    else:
        flash.script = answering({**answer(), "usage": usage})
    record = await record_of(gateway, await ask(gateway, stream=stream))
    assert record.cost_usd == Decimal(cost)


@pytest.mark.parametrize("usage", ["x", 7, [], {"prompt_tokens": {}}, {"prompt_tokens": 12.5}])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_count_that_is_none_spoils_no_answer(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, usage: Any, stream: bool
):
    """OPEN-21 e, and its like: the text arrives, and is billed as estimated."""
    pieces = [word("Danube", usage=usage), chunk({}, "stop", usage=usage), DONE]
    flash.script = streaming(*pieces) if stream else answering({**answer("Danube"), "usage": usage})
    reply = await ask(gateway, stream=stream)
    assert (reply.status_code, "Danube" in reply.text) == (200, True)
    record = await record_of(gateway, reply)
    assert (record.status, record.usage_estimated) == ("ok", True)
    assert record.cost_usd > 0


async def test_counts_written_as_text_or_as_whole_floats_are_counts(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-21: as some engines write them."""
    odd = {"prompt_tokens": "1000", "completion_tokens": 50.0, "prompt_cache_hit_tokens": "800"}
    flash.script = streaming(word("Danube"), STOP, event({"choices": [], "usage": odd}), DONE)
    assert (await record_of(gateway, await ask(gateway, stream=True))).cost_usd == Decimal("0.000078")


async def test_a_stream_that_its_client_left_is_billed_as_estimated(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-22 a: prompt and what was delivered, at the price of the model that ran."""
    flash.script = streaming(*[word("on ")] * 20, then="hang")
    async with gateway.http() as client:
        body = chat("word " * 200, stream=True)
        async with client.stream("POST", PATH, json=body) as reply:
            seen = 0
            async for line in reply.aiter_lines():
                seen += line.startswith("data: ")
                if seen == 20:
                    break
    record = await record_of(gateway, reply)
    assert (record.status, record.usage_estimated, record.model) == ("cancelled", True, "flash")
    assert 150 <= record.prompt_tokens <= 300
    assert record.completion_tokens >= 20
    assert record.cost_usd >= Decimal("0.000035")


async def test_a_stream_that_its_engine_dropped_is_billed_as_estimated(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-22 b: one record, with what was delivered."""
    flash.script = streaming(*[word("on ")] * 20, then="cut")
    record = await record_of(gateway, await ask(gateway, "word " * 200, stream=True))
    assert (record.status, record.usage_estimated, record.completion_tokens) == ("incomplete", True, 20)
    assert 150 <= record.prompt_tokens <= 300
    assert record.cost_usd > 0


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "word " * 200},
        {"reasoning": "word " * 200},
        {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "word " * 200}}]},
    ],
    ids=["text", "reasoning", "tool call"],
)
async def test_a_piece_of_many_tokens_is_billed_for_all_of_them(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, delta: dict[str, Any]
):
    """OPEN-22 a, b: at least what was delivered, however few pieces it came in."""
    flash.script = streaming(word("on "), *[chunk(delta)] * 3, then="cut")
    record = await record_of(gateway, await ask(gateway, stream=True))
    assert record.completion_tokens >= 600
    assert record.usage_estimated


async def test_a_request_that_its_engine_refused_costs_nothing(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-22: nothing was read, nothing was written."""
    flash.script = answering({"error": {"message": "no such parameter"}}, 400)
    record = await record_of(gateway, await ask(gateway))
    assert (record.status, record.prompt_tokens, record.cost_usd) == ("error", 0, 0)


async def test_a_count_of_zero_is_not_replaced_by_a_guess(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-22 c: the engine's word counts, the client gone or not."""
    flash.script = streaming(word("on "), word("on ", usage=counted(0, 0)), then="hang")
    async with gateway.http() as client, client.stream("POST", PATH, json=chat(stream=True)) as reply:
        async for line in reply.aiter_lines():
            if '"usage"' in line:
                break
    record = await record_of(gateway, reply)
    assert (record.prompt_tokens, record.completion_tokens, record.cost_usd) == (0, 0, 0)


async def test_a_plain_request_that_its_client_left_is_billed_for_its_prompt(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-22 d: the engine had begun."""
    flash.script = silent
    async with gateway.http() as client:
        asking = asyncio.get_running_loop().create_task(client.post(PATH, json=chat("word " * 200)))
        await until(lambda: asked(flash) == 1, "the engine to be asked")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def billed() -> bool:
        async with gateway.http(None) as client:
            lines = (await client.get("/metrics")).text.splitlines()
        cost = 'flashlane_cost_usd_total{model="flash",tenant="acme"} '
        return any(line.startswith(cost) and float(line.removeprefix(cost)) > 0 for line in lines)

    await until(billed, "the prompt to be billed", patience=5)
