"""The edges of the protocol: labels, bodies, parameters, pages."""

import asyncio
import gzip
import json
import resource
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.exchange import HEADER
from policies.redis_client import connect
from tests.cases.playing import (
    DONE,
    EASY,
    HARD,
    NO_FALLBACK,
    PATH,
    STOP,
    answering,
    ask,
    asked,
    by_hand,
    chat,
    error_of,
    payloads,
    record_of,
    streaming,
    word,
)
from tests.fakes.upstream import ScriptedUpstream, Talk, answer
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, OTHER_KEY, GatewayUnderTest

MIB = 2**20


async def series(gateway: GatewayUnderTest) -> int:
    """Count the series of the metrics page."""
    async with gateway.http(None) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    return sum(not line.startswith("#") for line in lines)


async def keys(redis_url: str) -> int:
    """Count the keys in Redis."""
    async with connect(redis_url) as redis:
        return await redis.dbsize()  # pyright: ignore[reportUnknownMemberType]


async def test_what_clients_write_makes_no_series_and_no_keys(gateway: GatewayUnderTest, redis_url: str):
    """OPEN-40 a, b, c: models, paths, users and headers of any name."""
    await ask(gateway)
    before = await series(gateway), await keys(redis_url)
    numbers = iter(range(600))

    async def come_and_go() -> None:
        async with gateway.http() as client:
            for number in numbers:
                odd = {"x-request-id": f"r{number}", "user-agent": f"u{number}", "x-session": f"s{number}"}
                await client.post(PATH, json=chat(model=f"model-{number}"), headers=odd)
                await client.post(PATH, json=chat(user=f"user-{number}", session=number), headers=odd)
                await client.get(f"/wp-{number}/admin")
                await client.request(f"M{number}", PATH)

    await asyncio.gather(*(come_and_go() for _ in range(10)))
    assert await series(gateway) - before[0] <= 20
    assert await keys(redis_url) - before[1] <= 1  # the scores of one tenant


def resident() -> int:
    """Return the memory of this process, bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks at memory in /proc")
async def test_prompts_of_requests_that_failed_are_not_kept(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    """OPEN-40 d: 100 MiB of them leave less than 50 MB behind, whatever they failed of."""
    dying = streaming(then="cut")
    refusing = answering({"error": {"message": "no"}}, 400)

    async def script(talk: Talk) -> None:
        flash.requests.clear()
        await (dying if talk.request.json().get("stream") else refusing)(talk)

    flash.script = script
    async with start_gateway(tenant=NO_FALLBACK) as gateway, gateway.http() as client:

        async def fail(times: int) -> None:
            for number in range(times):
                body = json.dumps(chat(f"{number} " + "x" * 200_000, stream=bool(number % 2))).encode()
                assert (await client.post(PATH, content=body)).status_code >= 400

        await fail(50)
        before = resident()
        await fail(512)
        assert resident() - before < 50_000_000


async def test_a_picture_of_twelve_mebibytes_passes(start_gateway: StartGateway, flash: ScriptedUpstream):
    """OPEN-41 a."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (12 * MIB)}}
    async with start_gateway(models={"flash": {"capabilities": {"images": True}}}) as gateway:
        assert (await ask(gateway, [picture])).status_code == 200
    assert len(flash.requests[0].body) > 12 * MIB


@pytest.mark.parametrize(
    "framing",
    [
        pytest.param(b"content-length: %d" % (5 * MIB), id="announced"),
        pytest.param(b"transfer-encoding: chunked", id="chunked"),
    ],
)
async def test_a_body_over_the_limit_is_answered_before_it_is_all_sent(
    start_gateway: StartGateway, framing: bytes
):
    """OPEN-41 b, c: 413 in JSON, no reset; the rest of the body is never needed."""
    async with start_gateway(server={"max_body_bytes": 4 * MIB}) as gateway:
        port = urlsplit(gateway.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            head = [b"POST %s HTTP/1.1" % PATH.encode(), b"host: x", b"authorization: Bearer " + KEY.encode()]
            writer.write(b"\r\n".join([*head, framing, b"", b""]))
            if framing.startswith(b"transfer"):
                for _ in range(4):
                    writer.write(b"%x\r\n%s\r\n" % (MIB + 1, b" " * (MIB + 1)))
            async with asyncio.timeout(10):
                status = await reader.readline()
        finally:
            writer.close()
    assert status.split(b" ")[1] == b"413"


async def test_a_body_over_the_limit_that_is_sent_to_its_end_meets_an_answer_and_no_reset(
    start_gateway: StartGateway,
):
    """OPEN-41 b: for clients that look for the answer only when all is sent."""
    async with start_gateway(server={"max_body_bytes": MIB}) as gateway:
        status, rest = await by_hand(gateway, b"authorization: Bearer " + KEY.encode(), body=b" " * (9 * MIB))
    assert status == 413
    assert json.loads(rest)["error"]["code"] == "request_too_large"


async def test_a_body_that_is_too_long_ends_its_connection(gateway: GatewayUnderTest):
    """OPEN-41 b: closed cleanly by us, though the client would keep it and has stopped to send."""
    at = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    head = [f"POST {PATH} HTTP/1.1", "host: x", f"authorization: Bearer {KEY}", f"content-length: {99 * MIB}"]
    writer.write("\r\n".join([*head, "", "{" * 1000]).encode())
    async with asyncio.timeout(10):
        said = await reader.read()
    writer.close()
    assert said.split(b" ")[1] == b"413"
    assert b"request_too_large" in said


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PATH, 405),
        ("PUT", "/v1/messages", 405),
        ("GET", f"{PATH}/", 404),
        ("GET", "/v1/models/", 404),
        ("GET", "/health/", 404),
        ("POST", f"/{PATH}", 404),
    ],
)
async def test_a_page_under_another_method_or_path_is_an_error_in_json(
    gateway: GatewayUnderTest, method: str, path: str, status: int
):
    """OPEN-43 c, d: no redirect, and a page that is there is not said to be missing."""
    first = f"{method} {path} HTTP/1.1".encode()
    found, body = await by_hand(gateway, b"authorization: Bearer %s" % KEY.encode(), first=first)
    assert found == status
    assert json.loads(body)["error"].keys() == {"message", "type", "param", "code"}


async def test_a_compressed_body_is_refused_and_not_unpacked(gateway: GatewayUnderTest):
    """OPEN-41 d: 413 or 415."""
    bomb = gzip.compress(b" " * (64 * MIB))
    async with gateway.http() as client:
        reply = await client.post(PATH, content=bomb, headers={"content-encoding": "gzip"})
    assert reply.status_code in {413, 415}
    error_of(reply)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"model":"flash","messages":' + b"[" * 100_000,
        b'{"model":"flash","messages":[{"role":"user","content":"x"}],"x":' + b"[" * 100_000,
        b'{"\xff":1}',
    ],
    ids=["deep", "deep messages", "deep unknown field", "not utf-8"],
)
async def test_a_body_that_is_no_json_is_a_400(gateway: GatewayUnderTest, body: bytes):
    """OPEN-41 e, f."""
    async with gateway.http() as client:
        reply = await client.post(PATH, content=body)
    assert reply.status_code == 400
    error_of(reply)


async def test_a_stranger_is_refused_before_the_body_is_read(gateway: GatewayUnderTest):
    """OPEN-41 g: 401, not 400, whatever the body holds."""
    async with gateway.http(None) as client:
        reply = await client.post(PATH, content=b"[" * (19 * MIB))
    assert (reply.status_code, error_of(reply)["code"]) == (401, "invalid_api_key")
    status, rest = await by_hand(gateway, body=b"[" * (19 * MIB))  # on a connection that ends with it
    assert (status, json.loads(rest)["error"]["code"]) == (401, "invalid_api_key")


FIELDS: dict[str, Any] = {
    "top_k": 12,
    "min_p": 0.07,
    "seed": 9007199254740995,
    "logprobs": True,
    "top_logprobs": 2,
    "stop": ["<end>", "\n\n\n"],
    "response_format": {"type": "json_object"},
    "parallel_tool_calls": False,
    "chat_template_kwargs": {"enable_thinking": False},
    "structured_outputs": {"choice": ["yes", "no"]},
    "guided_json": {"type": "object"},
    "thinking": {"type": "disabled"},
    "reasoning_effort": "low",
    "metadata": {"k": None},
    "x_of_the_future": {"a": [1, 1.0, 1e-7]},
    "max_completion_tokens": 77,
    "logit_bias": {"12": -3},
}


@pytest.mark.parametrize("stream", [False, True])
async def test_every_parameter_reaches_the_engine(
    start_gateway: StartGateway, flash: ScriptedUpstream, stream: bool
):
    """OPEN-42 a, c: with its value, digit for digit."""
    async with start_gateway(engine="vllm") as gateway:
        await ask(gateway, stream=stream, **FIELDS)
        await ask(gateway, stream=stream, stop="END")
    sent = flash.requests[0].json()
    assert {name: sent[name] for name in FIELDS} == FIELDS
    assert b"1e-7" in flash.requests[0].body or b"1e-07" in flash.requests[0].body
    assert flash.requests[1].json()["stop"] == "END"


async def test_a_null_is_as_good_as_nothing(gateway: GatewayUnderTest):
    """OPEN-42 b."""
    names = ("max_tokens", "stream_options", "tools", "stop", "temperature", "n")
    nulls: dict[str, Any] = dict.fromkeys(names)
    assert (await ask(gateway, stream=None, **nulls)).status_code == 200
    assert (await ask(gateway, stream=True, **nulls)).status_code == 200


BIAS: dict[str, Any] = {"logit_bias": {"1023": -5}}
STOPS: dict[str, Any] = {"stop_token_ids": [7]}
NO_BIAS: tuple[dict[str, Any], ...] = ({"logit_bias": {}}, {"logit_bias": None})
TWO_TOKENIZERS: dict[str, Any] = {"flash": {"tokenizer": "river"}, "standard": {"tokenizer": "delta"}}


async def test_a_bias_on_tokens_is_not_applied_to_a_tokenizer_nobody_named(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-42 d: with `auto`, ids mean nothing until a tokenizer is declared; a named model is meant."""
    async with start_gateway(models=TWO_TOKENIZERS) as gateway:
        refused = [await ask(gateway, model="auto", **ids) for ids in (BIAS, STOPS)]
        assert asked(flash, standard) == 0
        for empty in NO_BIAS:
            assert (await ask(gateway, model="auto", **empty)).status_code == 200
        assert (await ask(gateway, model="standard", **BIAS)).status_code == 200
    assert [reply.status_code for reply in refused] == [400, 400]
    assert [error_of(reply)["param"] for reply in refused] == ["logit_bias", "stop_token_ids"]
    assert "routing.tokenizer" in error_of(refused[0])["message"]
    assert standard.requests[-1].json()["logit_bias"] == BIAS["logit_bias"]


@pytest.mark.parametrize("declared", ["river", "delta"])
async def test_a_bias_on_tokens_stays_with_the_tokenizer_that_the_tenant_declared(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream, declared: str
):
    """OPEN-42 d: however hard the request is, and when that model fails, too."""
    own, other = (flash, standard) if declared == "river" else (standard, flash)
    tenant = {"routing": {"tokenizer": declared}}
    async with start_gateway(models=TWO_TOKENIZERS, tenant=tenant) as gateway:
        for content in (EASY, HARD):
            reply = await ask(gateway, content, model="auto", **BIAS)
            assert (reply.status_code, reply.headers[f"{HEADER}reason"]) == (200, f"tokenizer:{declared}")
        assert own.requests[-1].json()["logit_bias"] == BIAS["logit_bias"]
        own.script = answering({"error": {"message": "down"}}, 500)
        assert (await ask(gateway, model="auto", **BIAS)).status_code == 502
        assert asked(other) == 0
        assert (await ask(gateway, model="auto")).status_code == 200
    assert asked(other) == 1


async def test_every_field_of_an_answer_reaches_the_client(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-42 e: plain and streamed, known or not."""
    whole: dict[str, Any] = answer("Danube.") | {
        "system_fingerprint": "fp-1",
        "service_tier": "default",
        "x_new": 1,
    }
    token = {"token": "Danube", "bytes": [68], "logprob": -0.1, "top_logprobs": []}
    whole["choices"][0] |= {"logprobs": {"content": [token]}, "stop_reason": None}
    flash.script = answering(whole)
    assert (await ask(gateway)).json() == whole
    odd = word("Danube", x_new=1, system_fingerprint="fp-1")
    flash.script = streaming(odd, STOP, DONE)
    assert odd in (await ask(gateway, stream=True)).text
    assert payloads(await ask(gateway, stream=True))[0]["x_new"] == 1


async def test_a_field_of_the_wrong_type_is_named(gateway: GatewayUnderTest):
    """OPEN-42 f: in OpenAI's shape."""
    reply = await ask(gateway, messages="hello")
    assert (reply.status_code, error_of(reply)["param"]) == (400, "messages")


async def test_of_a_field_that_comes_twice_one_value_counts_everywhere(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """OPEN-42 g: what policy looked at is what the engine gets."""
    messages = json.dumps([{"role": "user", "content": "hi"}])
    body = f'{{"model":"flash","model":"standard","messages":{messages}}}'
    async with gateway.http() as client:
        reply = await client.post(PATH, content=body)
    if reply.status_code == 200:
        model = reply.headers[f"{HEADER}model"]
        assert (await record_of(gateway, reply)).model_requested == model
        (sent,) = [*flash.requests, *standard.requests]
        assert sent.body.count(b'"model"') == 1
        assert sent.json()["model"] == f"{model}-upstream"
    else:
        assert reply.status_code == 400


async def test_a_response_that_nobody_keeps_is_refused_clearly(gateway: GatewayUnderTest):
    """OPEN-43 a: a follow-up is answered or told why not, to its tenant and to others."""
    for key in (KEY, OTHER_KEY):
        async with gateway.http(key) as client:
            body = {"model": "auto", "input": "And now?", "previous_response_id": "resp_of_nobody"}
            reply = await client.post("/v1/responses", json=body)
        assert reply.status_code in {400, 404, 501}
        assert error_of(reply)["message"]


async def test_each_key_sees_the_models_that_it_may_name(start_gateway: StartGateway):
    """OPEN-43 b: `auto` among them, nobody else's, no engine's own names; nothing without a key."""
    async with start_gateway(tenant={"models": ["flash"]}) as gateway:
        async with gateway.http() as client:
            listed = {model["id"] for model in (await client.get("/v1/models")).json()["data"]}
            assert (await client.get("/v1/models/auto")).json()["id"] == "auto"
        async with gateway.http(OTHER_KEY) as client:
            others = {model["id"] for model in (await client.get("/v1/models")).json()["data"]}
        async with gateway.http(None) as client:
            assert (await client.get("/v1/models")).status_code == 401
    assert listed == {"auto", "flash"}
    assert others == {"auto", "flash", "standard"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/x"),
        ("PUT", PATH),
        ("POST", f"{PATH}/"),
        ("POST", f"/{PATH}"),
        ("POST", "/v1/chat/../chat/completions"),
        ("POST", "/V1/chat/completions"),
        ("POST", "/v1/chat/completions;x"),
        ("POST", "/v1/chat/completions%00"),
        ("OPTIONS", PATH),
        ("DELETE", "/v1/models"),
    ],
)
async def test_pages_that_do_not_exist_are_told_in_json_and_lead_nowhere(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, method: str, path: str
):
    """OPEN-43 c, d: no HTML, and no way around the key."""
    status, rest = await by_hand(gateway, first=f"{method} {path} HTTP/1.1".encode())
    assert status in {404, 405}
    assert json.loads(rest)["error"]["message"]
    assert asked(flash) == 0


@pytest.mark.parametrize("path", ["/v1/chat%2Fcompletions", f"http://other.invalid{PATH}", f"{PATH}?x=1"])
async def test_other_spellings_of_a_path_ask_for_the_same_key(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, path: str
):
    """OPEN-43 d."""
    assert (await by_hand(gateway, first=f"POST {path} HTTP/1.1".encode()))[0] == 401
    assert asked(flash) == 0
