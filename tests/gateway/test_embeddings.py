"""`POST /v1/embeddings`, by the official client and by hand, over scripted engines."""

import base64
import struct
from typing import Any

import httpx
import openai
import pytest

from backends.errors import BackendUnavailable
from backends.types import CHAT_PATH, EMBEDDINGS_PATH
from gateway.answers import read_plain
from gateway.exchange import HEADER
from tests.fakes.upstream import ScriptedUpstream, Talk, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest

VECTOR = [0.5, -0.25, 0.125]
TEXTS = ["a river in Vienna", "维也纳的一条河"]
NO_EMBEDDINGS = {"error": {"code": 501, "message": "This server does not support embeddings."}}


async def embedding(talk: Talk) -> None:
    """Turn texts into vectors, as engines do."""
    if talk.request.path != EMBEDDINGS_PATH:
        await well_behaved(talk)
        return
    asked = talk.request.json()
    count = len(asked["input"]) if isinstance(asked["input"], list) else 1
    vector: Any = VECTOR
    if asked.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack("<3f", *VECTOR)).decode()
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(count)]
    usage = {"prompt_tokens": 9, "total_tokens": 9}
    await talk.json({"object": "list", "data": data, "model": "engine-model", "usage": usage})


@pytest.fixture(autouse=True)
def engine(flash: ScriptedUpstream):
    """Make flash embed texts."""
    flash.script = embedding


async def post(gateway: GatewayUnderTest, body: dict[str, Any]) -> httpx.Response:
    """Post a body for flash, unless it says otherwise."""
    async with gateway.http() as client:
        return await client.post(EMBEDDINGS_PATH, json={"model": "flash", "input": TEXTS, **body})


async def test_the_official_client_gets_vectors(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    async with gateway.openai() as client:
        found = await client.embeddings.create(model="flash", input=TEXTS)
        floats = await client.embeddings.create(model="flash", input="one", encoding_format="float")
    assert [item.embedding for item in found.data] == [VECTOR, VECTOR]
    assert floats.data[0].embedding == VECTOR
    assert [seen.json()["encoding_format"] for seen in flash.requests] == ["base64", "float"]
    assert {seen.path for seen in flash.requests} == {EMBEDDINGS_PATH}


async def test_fields_travel_and_the_record_counts_the_input(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    body = {"input": [[1, 2], [3]], "dimensions": 3, "user": "u", "truncate_prompt_tokens": 8}
    answer = await post(gateway, body | {"cache_salt": "theirs"})
    record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert flash.requests[0].json() == {**body, "model": "flash-upstream"}
    assert (record.endpoint, record.model, record.status) == (EMBEDDINGS_PATH, "flash", "ok")
    assert (record.prompt_tokens, record.completion_tokens, record.usage_estimated) == (9, 0, False)
    assert answer.headers[f"{HEADER}cost-usd"] == "0.000000900"


async def test_auto_names_no_model_to_embed_with(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    async with gateway.openai() as client:
        with pytest.raises(openai.BadRequestError, match="Name the model") as caught:
            await client.embeddings.create(model="auto", input=TEXTS)
    assert caught.value.param == "model"
    assert not flash.requests


async def test_no_other_model_embeds_in_place_of_the_one_that_was_named(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        talk.abort()

    flash.script = script
    assert (await post(gateway, {})).status_code == 502
    assert not standard.requests


async def test_a_chat_engine_says_that_it_cannot_and_goes_on_chatting(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        if talk.request.path == EMBEDDINGS_PATH:
            await talk.json(NO_EMBEDDINGS, 501)
        else:
            await well_behaved(talk)

    flash.script = script
    for _ in range(4):  # more than take a replica out
        answer = await post(gateway, {})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "unsupported_endpoint")
        assert "flash/main/0 does not serve /v1/embeddings" in error["message"]
    async with gateway.http() as client:
        chat = {"model": "flash", "messages": [{"role": "user", "content": "Hi"}]}
        assert (await client.post(CHAT_PATH, json=chat)).headers[f"{HEADER}model"] == "flash"
    assert not standard.requests


@pytest.mark.parametrize("rule", ["reject", "truncate"])
async def test_an_input_over_the_tenants_bound_is_refused(
    start_gateway: StartGateway, flash: ScriptedUpstream, rule: str
):
    async with start_gateway(tenant={"context": {"max_input_tokens": 8, "on_overflow": rule}}) as gateway:
        answer = await post(gateway, {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert not flash.requests


async def test_a_cap_on_the_output_adds_no_field(start_gateway: StartGateway, flash: ScriptedUpstream):
    async with start_gateway(tenant={"output": {"max_tokens": 30}}) as gateway:
        await post(gateway, {"stream": True})
    assert flash.requests[0].json() == {"model": "flash-upstream", "input": TEXTS, "stream": True}


@pytest.mark.parametrize(
    "body", [b'{"data":[]}', b'{"choices":[{}]}', b'{"data":null}', b'{"data":7}', b"[]"]
)
def test_an_answer_without_vectors_is_none(body: bytes):
    with pytest.raises(BackendUnavailable):
        read_plain(body, "r", "data")
