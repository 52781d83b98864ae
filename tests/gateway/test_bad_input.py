"""What a client is told when its request, or an engine, is wrong."""

from collections.abc import AsyncGenerator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from gateway.exchange import HEADER
from tests.fakes.upstream import ScriptedUpstream, Talk
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest
from tests.support.waiting import until

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
NOBODY = "http://127.0.0.1:9"


async def refusal(
    gateway: GatewayUnderTest, *, key: str | None = KEY, **request: Any
) -> tuple[int, dict[str, Any]]:
    """Post a request that must fail; return the status and the error."""
    async with gateway.http(key) as client:
        answer = await client.post("/v1/chat/completions", **request)
    assert answer.headers[f"{HEADER}request-id"].startswith("req_")
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return answer.status_code, error


async def test_no_key(gateway: GatewayUnderTest):
    status, error = await refusal(gateway, key=None, json={"model": "flash", "messages": MESSAGES})
    assert (status, error["code"]) == (401, "invalid_api_key")
    assert "Authorization: Bearer" in error["message"]


async def test_a_wrong_key_is_refused_and_not_repeated(gateway: GatewayUnderTest):
    status, error = await refusal(
        gateway, key="sk-secret-wrong", json={"model": "flash", "messages": MESSAGES}
    )
    assert (status, error["code"]) == (401, "invalid_api_key")
    assert "secret" not in error["message"]


async def test_the_official_client_raises_its_own_errors(gateway: GatewayUnderTest):
    with pytest.raises(openai.AuthenticationError):
        async with gateway.openai("sk-wrong") as client:
            await client.chat.completions.create(model="flash", messages=MESSAGES)
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        async with gateway.openai() as client:
            await client.chat.completions.create(model="gpt-9", messages=MESSAGES)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b"", None, "not valid JSON"),
        (b"{", None, "not valid JSON"),
        (b"[1]", None, "must be a JSON object"),
        (b"\xff\xfe", None, "not UTF-8"),
        (b'{"messages": []}', "model", "must name a model"),
        (b'{"model": 7, "messages": []}', "model", "expected"),
        (b'{"model": "auto"}', "messages", "at least one message"),
        (b'{"model": "auto", "messages": []}', "messages", "at least one message"),
        (b'{"model": "auto", "messages": "Hi"}', "messages", "expected `array"),
        (b'{"model": "auto", "messages": [{"content": "Hi"}]}', "messages[0]", "`role`"),
        (
            b'{"model": "auto", "messages": [{"role": "user", "content": 5}]}',
            "messages[0].content",
            "expected",
        ),
        (b'{"model": "auto", "messages": [{"role": "user"}], "stream": "yes"}', "stream", "expected `bool"),
        (
            b'{"model": "auto", "messages": [{"role": "user"}], "max_tokens": "9"}',
            "max_tokens",
            "expected `int",
        ),
        (b'{"model": "auto", "messages": [{"role": "user"}], "tools": {}}', "tools", "expected `array"),
    ],
)
async def test_a_body_that_is_wrong_names_the_field(
    gateway: GatewayUnderTest, body: bytes, param: str | None, words: str
):
    status, error = await refusal(gateway, content=body)
    assert status == 400
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit(start_gateway: StartGateway, announced: bool):
    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield b" " * 1000

    async with start_gateway(server={"max_body_bytes": 2000}) as gateway:
        status, error = await refusal(gateway, content=b" " * 3000 if announced else pieces())
    assert (status, error["code"]) == (413, "request_too_large")
    assert "2000" in error["message"]


async def test_a_model_that_the_tenant_may_not_use(start_gateway: StartGateway):
    async with start_gateway(tenant={"models": ["flash"]}) as gateway:
        status, error = await refusal(gateway, json={"model": "standard", "messages": MESSAGES})
    assert (status, error["code"]) == (404, "model_not_found")
    assert "acme" in error["message"]


async def test_an_engine_that_is_down_is_named_when_there_is_no_other(start_gateway: StartGateway):
    async with start_gateway(flash=NOBODY, tenant={"routing": {"fallback": []}}) as gateway:
        status, error = await refusal(gateway, json={"model": "flash", "messages": MESSAGES})
        assert gateway.in_flight() == 0
    assert (status, error["code"]) == (503, "model_unavailable")
    assert "flash/main/0" in error["message"]
    assert "127.0.0.1" not in error["message"]


async def test_a_request_falls_back_before_the_first_byte_and_says_so(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def die(talk: Talk) -> None:
        talk.abort()

    flash.script = die
    async with gateway.http() as client:
        answer = await client.post("/v1/chat/completions", json={"model": "flash", "messages": MESSAGES})
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert answer.headers[f"{HEADER}model"] == "standard"
    assert answer.headers[f"{HEADER}reason"] == "forced:flash;fallback:flash"
    assert record.attempts == 2
    assert any("flash/main/0" in note for note in record.trace)


async def test_an_engine_that_is_known_to_be_down_is_not_asked(start_gateway: StartGateway):
    async with start_gateway(flash=NOBODY) as gateway, gateway.http() as client:
        answer = await client.post("/v1/chat/completions", json={"model": "flash", "messages": MESSAGES})
        record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert answer.headers[f"{HEADER}model"] == "standard"
    assert record.attempts == 1
    assert any("flash/main/0" in note for note in record.trace)


async def test_an_engine_that_dies_before_it_answers_is_replaced_by_the_next_replica(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async def die(talk: Talk) -> None:
        await talk.head()
        talk.abort()

    standard.script = die  # plays flash's first replica here
    async with start_gateway(flash=[standard.url, flash.url]) as gateway, gateway.http() as client:
        body = {"model": "flash", "messages": MESSAGES, "stream": True}
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.headers[f"{HEADER}replica"] == "flash/main/1"
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, {"error": {"message": "too long: maximum context length is 8"}}, "context_length_exceeded"),
        (400, {"object": "error", "message": "bad temperature", "code": 400}, None),
        (422, {"error": "no such field"}, None),
    ],
)
async def test_what_an_engine_says_against_a_request_reaches_the_client(
    gateway: GatewayUnderTest,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    status: int,
    body: Any,
    code: str | None,
):
    async def refuse(talk: Talk) -> None:
        await talk.json(body, status)

    flash.script = refuse
    told, error = await refusal(gateway, json={"model": "flash", "messages": MESSAGES})
    assert (told, error["code"]) == (400, code)
    assert error["message"] in str(body)
    assert not standard.requests  # another model would be no answer to a wrong request


@pytest.mark.parametrize(("status", "expected"), [(429, 429), (503, 503)])
async def test_an_overloaded_engine_says_when_to_come_again(
    start_gateway: StartGateway, flash: ScriptedUpstream, status: int, expected: int
):
    async def overload(talk: Talk) -> None:
        await talk.json({"error": {"message": "busy"}}, status, {"retry-after": "7"})

    flash.script = overload
    async with start_gateway(tenant={"routing": {"fallback": []}}) as gateway, gateway.http() as client:
        answer = await client.post("/v1/chat/completions", json={"model": "flash", "messages": MESSAGES})
    assert answer.status_code == expected
    assert answer.headers["retry-after"] == "7"


async def test_our_own_wrong_key_to_an_engine_is_not_the_clients_fault(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async def refuse(talk: Talk) -> None:
        await talk.json({"error": {"message": "Incorrect API key: sk-upstream"}}, 401)

    flash.script = refuse
    async with start_gateway(tenant={"routing": {"fallback": []}}) as gateway:
        status, error = await refusal(gateway, json={"model": "flash", "messages": MESSAGES})
    assert status == 502
    assert "api_key_env" in error["message"]
    assert "sk-upstream" not in error["message"]


async def test_an_answer_that_is_not_json_is_an_error(start_gateway: StartGateway, flash: ScriptedUpstream):
    async def babble(talk: Talk) -> None:
        await talk.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n<html")

    flash.script = babble
    async with start_gateway(tenant={"routing": {"fallback": []}}) as gateway:
        status, error = await refusal(gateway, json={"model": "flash", "messages": MESSAGES})
    assert (status, error["code"]) == (502, "upstream_error")


async def test_pages_that_do_not_exist_answer_in_the_same_shape(gateway: GatewayUnderTest):
    async with gateway.http() as client:
        for path in ("/v1/nothing", "/v1/requests/req_0", "/v1/models/gpt-9"):
            answer = await client.get(path)
            assert answer.status_code == 404
            assert answer.json()["error"]["message"]


async def test_a_refused_request_is_counted(gateway: GatewayUnderTest):
    await refusal(gateway, key=None, json={})
    async with gateway.http() as client:
        metrics = (await client.get("/metrics")).text
    assert 'flashlane_refused_total{code="invalid_api_key"} 1.0' in metrics


async def test_an_input_over_the_tenants_bound_is_refused_when_policy_says_so(start_gateway: StartGateway):
    rule = {"context": {"max_input_tokens": 20, "on_overflow": "reject"}}
    long = [{"role": "user", "content": "word " * 100}]
    async with start_gateway(tenant=rule) as gateway:
        status, error = await refusal(gateway, json={"model": "auto", "messages": long})
    assert (status, error["code"]) == (400, "context_length_exceeded")


async def test_an_input_over_the_tenants_bound_loses_its_oldest_turns(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    rule = {"context": {"max_input_tokens": 40, "on_overflow": "truncate"}, "routing": {"mode": "flash"}}
    turns = [{"role": "system", "content": "Be brief."}]
    for index in range(10):
        turns += [
            {"role": "user", "content": f"question number {index}"},
            {"role": "assistant", "content": f"answer number {index}"},
        ]
    turns.append({"role": "user", "content": "and now?"})
    async with start_gateway(tenant=rule) as gateway, gateway.http() as client:
        answer = await client.post("/v1/chat/completions", json={"model": "auto", "messages": turns})
        assert answer.status_code == 200
    sent = flash.requests[-1].json()["messages"]
    assert sent[0] == turns[0]
    assert sent[-1] == turns[-1]
    assert 2 <= len(sent) < 10
    assert sent[1]["role"] == "user"


async def test_a_changed_tenant_file_holds_without_a_restart_and_a_wrong_one_changes_nothing(
    start_gateway: StartGateway,
):
    async with start_gateway() as gateway, gateway.http() as client:
        file = gateway.tenants_dir / "acme.yaml"
        good = file.read_text()
        file.write_text(good + "routing: {mode: sideways}\n")
        body = {"model": "auto", "messages": MESSAGES}

        async def model() -> str:
            answer = await client.post("/v1/chat/completions", json=body)
            return answer.headers[f"{HEADER}reason"]

        assert (await model()).startswith("complexity:")
        file.write_text(good + "routing: {mode: standard}\n")

        async def changed() -> bool:
            return await model() == "tenant-mode:standard"

        await until(changed, "the new policy to hold")
