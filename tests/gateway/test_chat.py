"""`POST /v1/chat/completions`, by the official client and by hand, over scripted engines."""

import json
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from gateway.exchange import HEADER
from tests.cases.playing import HARD
from tests.fakes.upstream import ScriptedUpstream, Talk, events
from tests.gateway.conftest import StartGateway
from tests.support.gateway import OTHER_KEY, GatewayUnderTest
from tests.support.waiting import until

EASY: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the capital of France?"}]
PROOF: list[ChatCompletionMessageParam] = [{"role": "user", "content": HARD}]


async def post(gateway: GatewayUnderTest, body: dict[str, Any], **options: Any) -> Any:
    """Post a chat body; return the response."""
    async with gateway.http() as client:
        return await client.post("/v1/chat/completions", json=body, **options)


@pytest.mark.parametrize(
    ("model", "expected"), [("flash", "flash"), ("standard", "standard"), ("auto", "flash")]
)
async def test_the_official_client_gets_a_plain_answer(gateway: GatewayUnderTest, model: str, expected: str):
    async with gateway.openai() as client:
        answer = await client.chat.completions.with_raw_response.create(model=model, messages=EASY)
    assert answer.parse().choices[0].message.content == "Paris."
    assert answer.headers[f"{HEADER}model"] == expected
    assert answer.headers[f"{HEADER}replica"] == f"{expected}/main/0"


@pytest.mark.parametrize("model", ["flash", "standard", "auto"])
async def test_the_official_client_gets_a_streamed_answer(gateway: GatewayUnderTest, model: str):
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model=model, messages=EASY, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "Paris."


async def test_an_easy_question_goes_to_flash_and_a_proof_to_standard(gateway: GatewayUnderTest):
    easy = await post(gateway, {"model": "auto", "messages": EASY})
    hard = await post(gateway, {"model": "auto", "messages": PROOF})
    assert easy.headers[f"{HEADER}model"] == "flash"
    assert hard.headers[f"{HEADER}model"] == "standard"
    assert easy.headers[f"{HEADER}reason"].startswith("complexity:")
    assert float(easy.headers[f"{HEADER}complexity"]) < float(hard.headers[f"{HEADER}complexity"])


async def test_every_answer_says_why_and_what_it_cost(gateway: GatewayUnderTest):
    answer = await post(gateway, {"model": "flash", "messages": EASY})
    headers = {name.removeprefix(HEADER): v for name, v in answer.headers.items() if name.startswith(HEADER)}
    assert headers.keys() == {
        "request-id",
        "model",
        "pool",
        "replica",
        "reason",
        "cached-tokens",
        "overhead-ms",
        "cost-usd",
    }
    assert headers["reason"] == "forced:flash"
    assert headers["cached-tokens"] == "4"
    # 4 cached at 0.01, 8 others at 0.1, 3 of output at 1 USD per million tokens.
    assert Decimal(headers["cost-usd"]) == Decimal("0.00000384")


async def test_a_request_leaves_a_record_that_its_tenant_alone_can_read(gateway: GatewayUnderTest):
    answer = await post(gateway, {"model": "auto", "messages": EASY})
    path = f"/v1/requests/{answer.headers[f'{HEADER}request-id']}"
    async with gateway.http() as client:
        record = (await client.get(path)).json()
    assert record["tenant"] == "acme"
    assert record["key_name"] == "web"
    assert record["status"] == "ok"
    assert (record["prompt_tokens"], record["cached_tokens"], record["completion_tokens"]) == (12, 4, 3)
    assert record["cost_usd"] == "0.000003840"
    assert record["model"] == "flash"
    assert record["reason"] == answer.headers[f"{HEADER}reason"]
    async with gateway.http(OTHER_KEY) as stranger:
        assert (await stranger.get(path)).status_code == 404


async def test_the_record_is_there_when_the_client_sees_the_end(gateway: GatewayUnderTest):
    body = {"model": "flash", "messages": EASY, "stream": True}
    async with gateway.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line == "data: [DONE]":
                request_id = answer.headers[f"{HEADER}request-id"]
                record = await gateway.services.ledger.find(request_id, tenant="acme")
                assert record is not None
                assert record.status == "ok"
                assert record.ttft_ms is not None
                assert record.ttft_ms <= record.total_ms
                break
        else:
            pytest.fail("the stream had no end")


async def test_a_stream_passes_byte_for_byte(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    sent = [
        ": hello\n\n",
        *events(usage=False)[:-1],
        'data: {"odd" : 1.10}\r\n\r\n',
        "data: [DONE]\n\n",
    ]

    async def script(talk: Talk) -> None:
        await talk.head()
        for event in sent:
            await talk.send(event)
        await talk.end()

    flash.script = script
    answer = await post(gateway, {"model": "flash", "messages": EASY, "stream": True})
    assert answer.text == "".join(sent)
    assert answer.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("asked", [True, False])
async def test_usage_is_always_asked_for_and_shown_to_a_client_that_wants_it(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, asked: bool
):
    body: dict[str, Any] = {"model": "flash", "messages": EASY, "stream": True}
    if asked:
        body["stream_options"] = {"include_usage": True, "other": 1}
    answer = await post(gateway, body)
    assert flash.requests[-1].json()["stream_options"]["include_usage"] is True
    assert ('"usage"' in answer.text) is asked
    assert answer.text.endswith("data: [DONE]\n\n")
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert (record.prompt_tokens, record.completion_tokens, record.usage_estimated) == (12, 3, False)


async def test_tokens_are_estimated_and_marked_when_the_engine_does_not_count(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        for event in events(usage=False):
            await talk.send(event)
        await talk.end()

    flash.script = script
    answer = await post(gateway, {"model": "flash", "messages": EASY, "stream": True})
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert record.usage_estimated
    assert record.completion_tokens == 3
    assert record.prompt_tokens > 0


async def test_fields_that_flashlane_does_not_know_travel_as_they_came(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    fields = (
        '"seed":18446744073709551617,"temperature":0.10,"guided_json":{"a":[1]},"logit_bias":{"1":-100},'
        '"x-\\u00e9":"\\u4f60\\u597d"'
    )
    body = f'{{"model":"flash","messages":{json.dumps(EASY)},{fields}}}'
    async with gateway.http() as client:
        await client.post("/v1/chat/completions", content=body)
    sent = flash.requests[-1].body.decode()
    for field in fields.split(",")[:2]:
        assert field in sent
    assert flash.requests[-1].json() == json.loads(body) | {"model": "flash-upstream"}


async def test_fields_that_touch_other_tenants_come_from_policy_only(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    smuggled: dict[str, Any] = {
        "cache_salt": "umbrella",
        "priority": -100,
        "kv_transfer_params": {},
        "prompt_embeds": "x",
        "request_id": "y",
    }
    async with start_gateway(engine="vllm") as gateway:
        await post(gateway, {"model": "flash", "messages": EASY, **smuggled})
    sent = flash.requests[-1].json()
    assert sent["cache_salt"] == gateway.services.salts.of_name("acme")
    assert not (smuggled.keys() - {"cache_salt"}) & sent.keys()


async def test_a_tenant_that_shares_its_cache_sends_no_salt(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async with start_gateway(engine="vllm", tenant={"cache": {"isolation": "shared"}}) as gateway:
        await post(gateway, {"model": "flash", "messages": EASY})
    assert "cache_salt" not in flash.requests[-1].json()


async def test_connections_to_an_engine_are_kept(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    for stream in (False, True, False, True):
        await post(gateway, {"model": "flash", "messages": EASY, "stream": stream})
    assert len(flash.requests) == 4
    assert flash.connections == 1


async def test_the_trace_context_is_handed_on(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await post(gateway, {"model": "flash", "messages": EASY}, headers={"traceparent": trace})
    assert flash.requests[-1].headers["traceparent"] == trace
    assert "authorization" not in flash.requests[-1].headers


@pytest.mark.parametrize("trace", ["x" * 5000, "00-0af7-b7ad-01", "sk-fl-key"])
async def test_a_trace_context_that_is_none_goes_no_further(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, trace: str
):
    await post(gateway, {"model": "flash", "messages": EASY}, headers={"traceparent": trace})
    assert "traceparent" not in flash.requests[-1].headers


async def test_a_long_name_of_a_model_is_not_repeated_whole(gateway: GatewayUnderTest):
    answer = await post(gateway, {"model": "m" * 100_000, "messages": EASY})
    assert answer.status_code == 404
    assert len(answer.text) < 1000


async def test_a_client_that_leaves_a_stream_stops_the_engine(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(events()[1])
        await talk.until_closed()

    flash.script = script
    body = {"model": "flash", "messages": EASY, "stream": True}
    async with gateway.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        await anext(answer.aiter_bytes())
        request_id = answer.headers[f"{HEADER}request-id"]
    await until(lambda: flash.open_connections == 0, "the engine's connection to close", patience=2)
    await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")
    record = await gateway.record(request_id)
    assert (record.status, record.completion_tokens, record.usage_estimated) == ("cancelled", 1, True)


async def test_a_client_that_leaves_a_plain_request_stops_the_engine(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.until_closed()

    flash.script = script
    client = gateway.openai()
    with pytest.raises(openai.APITimeoutError):
        await client.chat.completions.create(model="flash", messages=EASY, timeout=0.3)
    await client.close()
    await until(lambda: flash.open_connections == 0, "the engine's connection to close", patience=2)
    await until(lambda: gateway.in_flight() == 0, "nothing to be in flight")


async def test_a_stream_that_is_cut_ends_in_an_error_and_never_in_done(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(events()[1])
        talk.abort()

    flash.script = script
    answer = await post(gateway, {"model": "flash", "messages": EASY, "stream": True})
    last = answer.text.strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "upstream_error"
    assert "[DONE]" not in answer.text
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert (record.status, record.completion_tokens) == ("incomplete", 1)


async def test_a_stream_that_ends_without_a_finish_is_an_error(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(events()[1])
        await talk.end()

    flash.script = script
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(model="flash", messages=EASY, stream=True)
        with pytest.raises(openai.APIError, match="middle of the answer"):
            async for _ in stream:
                pass
