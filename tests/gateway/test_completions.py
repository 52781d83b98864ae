"""`POST /v1/completions`, by the official client and by hand, over scripted engines."""

import json
from typing import Any

import httpx
import openai
import pytest

from backends.types import CHAT_PATH, COMPLETIONS_PATH
from gateway.errors import BodyInvalid
from gateway.exchange import HEADER
from gateway.requests.completions import DEFAULT_MAX_TOKENS, parse_completion
from gateway.requests.prompt import Prompt
from gateway.requests.upstream import upstream_body
from tests.cases.playing import HARD
from tests.fakes.upstream import ScriptedUpstream, Talk, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest
from tests.support.waiting import until

EASY = "The capital of France is"
EASY_ZH = "法国的首都是"
HARD_ZH = "请证明模4余3的素数有无穷多个。写出每一步并逐一说明理由，再解释为什么同样的证明对模4余1不成立。"
IDS: list[Prompt] = [[504, 3575], [[504, 3575], [1]]]


def chunk(text: str, finish: str | None = None, **more: Any) -> str:
    """Return an event of a completion's stream."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return _event([choice], **more)


def _event(choices: list[Any], **more: Any) -> str:
    body = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "engine-model"}
    return f"data: {json.dumps({**body, 'choices': choices, **more}, separators=(',', ':'))}\n\n"


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
STREAM = [chunk(" Par"), chunk("is."), chunk("", "stop"), _event([], usage=USAGE), "data: [DONE]\n\n"]


async def completing(talk: Talk) -> None:
    """Go on with a text, as engines do."""
    if talk.request.path != COMPLETIONS_PATH:
        await well_behaved(talk)
        return
    if talk.request.json().get("stream"):
        await talk.head()
        for event in STREAM:
            await talk.send(event)
        await talk.end()
        return
    body = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "engine-model"}
    choices = [{"index": 0, "text": " Paris.", "logprobs": None, "finish_reason": "stop"}]
    await talk.json({**body, "choices": choices, "usage": USAGE})


@pytest.fixture(autouse=True)
def engines(flash: ScriptedUpstream, standard: ScriptedUpstream):
    """Make both engines complete texts."""
    flash.script = standard.script = completing


async def post(gateway: GatewayUnderTest, body: dict[str, Any]) -> httpx.Response:
    """Post a body for flash, unless it says otherwise."""
    async with gateway.http() as client:
        return await client.post(COMPLETIONS_PATH, json={"model": "flash", "prompt": EASY, **body})


@pytest.mark.parametrize("model", ["flash", "standard", "auto"])
async def test_the_official_client_gets_a_plain_completion_and_a_stream(
    gateway: GatewayUnderTest, model: str
):
    async with gateway.openai() as client:
        whole = await client.completions.create(model=model, prompt=EASY)
        stream = await client.completions.create(
            model=model, prompt=EASY, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert (whole.choices[0].text, whole.object) == (" Paris.", "text_completion")
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == " Paris."
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("prompt", "model"),
    [(EASY, "flash"), (HARD, "standard"), ([EASY, EASY], "flash"), (EASY_ZH, "flash"), (HARD_ZH, "standard")],
)
async def test_auto_judges_the_prompt(gateway: GatewayUnderTest, prompt: Any, model: str):
    answer = await post(gateway, {"model": "auto", "prompt": prompt})
    assert answer.status_code == 200
    assert answer.headers[f"{HEADER}model"] == model
    assert answer.headers[f"{HEADER}reason"].startswith("complexity:")


@pytest.mark.parametrize("prompt", IDS)
async def test_auto_cannot_judge_token_ids_and_says_what_to_do(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, prompt: Any
):
    answer = await post(gateway, {"model": "auto", "prompt": prompt})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "prompt")
    assert "name the model" in error["message"]
    assert not flash.requests


@pytest.mark.parametrize("prompt", [EASY, [EASY, HARD_ZH], *IDS])
async def test_every_field_travels_as_it_came(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, prompt: Any
):
    body = {
        "prompt": prompt,
        "echo": True,
        "suffix": " and more",
        "best_of": 3,
        "n": 2,
        "logprobs": 5,
        "max_tokens": 0,
        "stop": None,
        "temperature": 0.30000000000000004,
        "min_p": 0.1,
    }
    await post(gateway, body | {"cache_salt": "theirs", "prompt_embeds": "AAAA"})
    (seen,) = flash.requests
    assert seen.path == COMPLETIONS_PATH
    assert seen.json() == {**body, "model": "flash-upstream"}


async def test_a_stream_is_passed_on_byte_for_byte_and_counted(gateway: GatewayUnderTest):
    answer = await post(gateway, {"stream": True})
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert answer.text == "".join([*STREAM[:3], STREAM[-1]])
    assert (record.endpoint, record.prompt_tokens, record.completion_tokens) == (COMPLETIONS_PATH, 5, 2)
    assert record.ttft_ms is not None
    assert not record.usage_estimated


async def test_a_failure_before_the_first_token_is_answered_by_the_other_model(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        talk.abort()

    flash.script = script
    answer = await post(gateway, {"stream": True})
    assert answer.headers[f"{HEADER}model"] == "standard"
    assert answer.text.endswith("[DONE]\n\n")


async def test_token_ids_are_not_given_to_a_model_with_another_tokenizer(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.json({"error": {"message": "no"}}, 500)

    flash.script = script
    assert (await post(gateway, {"prompt": [504, 3575]})).status_code == 502
    assert not standard.requests


async def test_a_stream_that_is_cut_has_an_error_and_no_end(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(STREAM[0])
        talk.abort()

    flash.script = script
    answer = await post(gateway, {"stream": True})
    assert "[DONE]" not in answer.text
    assert '"error"' in answer.text


async def test_a_client_that_leaves_stops_the_engine_and_is_counted(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(STREAM[0])
        await talk.until_closed()

    flash.script = script
    body = {"model": "flash", "prompt": EASY, "stream": True}
    async with gateway.http() as client, client.stream("POST", COMPLETIONS_PATH, json=body) as answer:
        assert STREAM[0].encode() in await anext(answer.aiter_bytes())
    await until(lambda: gateway.in_flight() == 0, "the engine to be let go", patience=2)
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert (record.status, record.prompt_tokens, record.completion_tokens) == ("cancelled", 6, 1)


@pytest.mark.parametrize(
    ("asked", "sent"), [({}, DEFAULT_MAX_TOKENS), ({"max_tokens": 9}, 9), ({"max_tokens": 900}, 30)]
)
async def test_a_cap_shortens_answers_and_lengthens_none(
    start_gateway: StartGateway, flash: ScriptedUpstream, asked: dict[str, int], sent: int
):
    async with start_gateway(tenant={"output": {"max_tokens": 30}}) as gateway:
        await post(gateway, asked)
    seen = flash.requests[0].json()
    assert seen.get("max_tokens") == sent


@pytest.mark.parametrize("prompt", ["word " * 40, ["word " * 20] * 2, [7] * 40, [[7] * 20] * 2, "很长" * 40])
@pytest.mark.parametrize("rule", ["reject", "truncate"])
async def test_a_prompt_over_the_tenants_bound_is_refused_and_never_cut(
    start_gateway: StartGateway, flash: ScriptedUpstream, prompt: Any, rule: str
):
    async with start_gateway(tenant={"context": {"max_input_tokens": 30, "on_overflow": rule}}) as gateway:
        answer = await post(gateway, {"prompt": prompt})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert not flash.requests


@pytest.mark.parametrize("prompt", ["null", "[]", "7", '{"a":1}', "[null]", "[1.5]", '[["a"]]', "true"])
def test_a_prompt_of_another_kind_is_refused_by_name(prompt: str):
    with pytest.raises(BodyInvalid) as caught:
        parse_completion(b'{"model":"flash","prompt":%s}' % prompt.encode())
    assert (caught.value.param or "").startswith("prompt")


@pytest.mark.parametrize(
    ("prompt", "running"),
    [
        (EASY, True),
        ([EASY_ZH], True),
        ([1, 2], True),
        ([[1, 2]], True),
        ([EASY, EASY], False),
        ([[1], [2]], False),
    ],
)
def test_usage_is_asked_for_as_it_goes_where_there_is_one_answer(prompt: Any, running: bool):
    request = parse_completion(json.dumps({"model": "flash", "prompt": prompt, "stream": True}).encode())
    body = upstream_body(request, "engine", max_output_tokens=None, cache_salt=None, running_usage=True)
    options = json.loads(body)["stream_options"]
    assert options["include_usage"] is True
    assert options.get("continuous_usage_stats", False) is running


async def test_an_engine_without_the_endpoint_is_told_apart_from_one_that_failed(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        if talk.request.path == COMPLETIONS_PATH:
            await talk.json({"detail": "Not Found"}, 404)
        else:
            await well_behaved(talk)

    flash.script = script
    async with start_gateway(tenant={"routing": {"fallback": []}}) as gateway, gateway.openai() as client:
        for _ in range(4):  # more than take a replica out
            with pytest.raises(openai.BadRequestError, match="flash/main/0 does not serve /v1/completions"):
                await client.completions.create(model="flash", prompt=EASY)
        chat = {"model": "flash", "messages": [{"role": "user", "content": EASY}]}
        async with gateway.http() as http:
            assert (await http.post(CHAT_PATH, json=chat)).status_code == 200
