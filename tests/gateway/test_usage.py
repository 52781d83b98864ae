"""Usage: counted as it goes where the engine can, shown to those who asked, and not believed blindly."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.types import CHAT_PATH, COMPLETIONS_PATH, Usage
from gateway.answers import read_plain
from gateway.exchange import HEADER
from gateway.streaming import Relay
from gateway.usage import cut_last_usage, without_usage
from tests.cases.playing import DONE, ask
from tests.fakes.upstream import ScriptedUpstream, Talk
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest
from tests.support.waiting import until

RUNNING = {"include_usage": True, "continuous_usage_stats": True}


def usage(completion: int) -> dict[str, Any]:
    """Return usage as vLLM writes it."""
    return {"prompt_tokens": 12, "total_tokens": 12 + completion, "completion_tokens": completion}


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    """Return a chunk as vLLM writes it: usage last."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return event(choices=[choice], **more)


def event(**fields: Any) -> str:
    """Return an event of vLLM's."""
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    return f"data: {json.dumps(body, separators=(',', ':'), ensure_ascii=False)}\n\n"


def stream(*, counted: bool) -> list[str]:
    """Return a stream of vLLM's, with usage in every chunk or without."""

    def told(completion: int) -> dict[str, Any]:
        return {"usage": usage(completion)} if counted else {}

    role = {**told(0), "prompt_token_ids": None, "prompt_text": None}
    return [
        chunk({"role": "assistant", "content": ""}, **role),
        chunk({"content": "Wien \U0001f600"}, **told(3)),
        chunk({"content": ',"usage":{"prompt_tokens":1}}'}, **told(5)),
        chunk({"content": ""}, "stop", **told(6), stop_reason=None),
    ]


TOTAL = event(choices=[], usage={**usage(6), "prompt_tokens_details": {"cached_tokens": 4}})


async def talkative(talk: Talk) -> None:
    """Stream as vLLM does: usage in every chunk where that was asked for."""
    options: dict[str, bool] = talk.request.json().get("stream_options") or {}
    await talk.head()
    for piece in [*stream(counted=options.get("continuous_usage_stats", False)), TOTAL, DONE]:
        await talk.send(piece)
    await talk.end()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (None, stream(counted=False)),
        ({"include_usage": False}, stream(counted=False)),
        ({"continuous_usage_stats": True}, stream(counted=False)),
        ({"include_usage": True}, [*stream(counted=False), TOTAL]),
        (RUNNING, [*stream(counted=True), TOTAL]),
    ],
)
async def test_a_client_of_vllm_sees_the_usage_it_asked_for_and_all_else_as_it_came(
    start_gateway: StartGateway, flash: ScriptedUpstream, options: Any, shown: list[str]
):
    flash.script = talkative
    async with start_gateway(engine="vllm") as gateway:
        answer = await ask(gateway, stream=True, stream_options=options)
        record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert flash.requests[0].json()["stream_options"] == RUNNING
    assert answer.text == "".join([*shown, DONE])
    assert (record.prompt_tokens, record.cached_tokens, record.completion_tokens) == (12, 4, 6)
    assert not record.usage_estimated


async def test_another_engine_is_not_asked_for_what_only_vllm_knows(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = talkative
    async with start_gateway() as gateway:
        answer = await ask(gateway, stream=True)
    assert flash.requests[0].json()["stream_options"] == {"include_usage": True}
    assert answer.text == "".join([*stream(counted=False), DONE])


@pytest.mark.parametrize(("engine", "counts"), [("vllm", (12, 5, False)), ("openai", (7, 11, True))])
@pytest.mark.parametrize("leaves", [True, False])
async def test_a_stream_that_is_cut_has_the_engines_count_where_it_told_one_and_an_estimate_elsewhere(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str, counts: Any, leaves: bool
):
    async def script(talk: Talk) -> None:
        options = talk.request.json()["stream_options"]
        await talk.head()
        for piece in stream(counted=options.get("continuous_usage_stats", False))[:3]:
            await talk.send(piece)
        if leaves:
            await talk.until_closed()
        else:
            talk.abort()

    flash.script = script
    body = {"model": "flash", "messages": [{"role": "user", "content": "维也纳?"}], "stream": True}
    async with start_gateway(engine=engine) as gateway:
        async with gateway.http() as client, client.stream("POST", CHAT_PATH, json=body) as answer:
            seen = b""
            async for piece in answer.aiter_bytes():
                seen += piece
                if leaves and b"prompt_tokens" in seen:
                    break
        await until(lambda: gateway.in_flight() == 0, "the engine to be let go")
        record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert record.status == ("cancelled" if leaves else "incomplete")
    assert (record.prompt_tokens, record.completion_tokens, record.usage_estimated) == counts
    assert not leaves or seen == "".join(stream(counted=False)[:3]).encode()


async def test_the_messages_api_counts_a_stream_of_vllm_once(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    flash.script = talkative
    body = {
        "model": "flash",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }
    async with start_gateway(engine="vllm") as gateway, gateway.http() as client:
        answer = await client.post("/v1/messages", json=body)
    assert '"input_tokens":8' in answer.text
    assert '"output_tokens":6' in answer.text


async def test_a_completion_of_vllm_is_counted_as_it_goes(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    async def script(talk: Talk) -> None:
        choice = {"index": 0, "text": "Wien", "logprobs": None, "finish_reason": None}
        await talk.head()
        await talk.send(event(choices=[choice], usage=usage(3)))
        await talk.send(event(choices=[choice], usage=usage(4)))
        talk.abort()

    flash.script = script
    async with start_gateway(engine="vllm") as gateway, gateway.http() as client:
        body = {"model": "flash", "prompt": "The river of Vienna is", "stream": True}
        answer = await client.post(COMPLETIONS_PATH, json=body)
        record = await gateway.record(answer.headers[f"{HEADER}request-id"])
    assert "usage" not in answer.text
    assert (record.prompt_tokens, record.completion_tokens, record.usage_estimated) == (12, 4, False)


values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=6) | st.just(',"usage":{'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | st.just("usage"), inner)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["id", "x", "choices"]), values), st.integers(0, 9), st.booleans())
def test_usage_is_cut_off_a_chunk_and_nothing_else(fields: dict[str, Any], completion: int, last: bool):
    count = {"usage": usage(completion)}
    whole = {"model": "m", **fields, **count} if last else {**count, "model": "m", **fields}
    payload = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
    del whole["usage"]
    found = cut_last_usage(payload)
    if last:
        assert found is not None
        assert found[0] == json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        assert found[1].to_usage() == Usage(12, 0, completion)
    elif found is not None:
        assert json.loads(found[0]) == whole
    assert json.loads(without_usage(payload)) == whole


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 12}, Usage(10, 10, 0)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 11}}, Usage(10, 10, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 2}, Usage(0, 0, 2)),
        ({"prompt_tokens": 1, "completion_tokens": -2}, Usage(1, 0, 0)),
    ],
)
def test_counts_that_cannot_be_are_mended_and_logged_with_the_replica(
    caplog: pytest.LogCaptureFixture, counts: dict[str, Any], expected: Usage
):
    relay = Relay("flash/main/0", show_usage=False)
    relay.feed(event(choices=[], usage=counts).encode())
    plain = json.dumps({"choices": [{}], "usage": counts}).encode()
    with caplog.at_level(logging.WARNING):
        assert relay.state.usage == read_plain(plain, "flash/main/0") == expected
    assert len(caplog.records) == 2
    assert all("flash/main/0 counts what cannot be" in record.getMessage() for record in caplog.records)


def test_counts_that_can_be_are_not_worth_a_word(caplog: pytest.LogCaptureFixture):
    counts = {"prompt_tokens": 10, "completion_tokens": 0, "prompt_cache_hit_tokens": 10}
    assert read_plain(json.dumps({"choices": [{}], "usage": counts}).encode(), "r") == Usage(10, 10, 0)
    assert not caplog.records


WHOLE = {
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Seven words are in this short text."}}
    ]
}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"input_tokens": 12, "output_tokens": 3}, Usage(12, 0, 3)),
        ({"prompt_tokens": 12, "total_tokens": 15}, Usage(12, 0, 3)),
        ({"completion_tokens": 3, "total_tokens": 15}, Usage(12, 0, 3)),
        (
            {"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 8, "completion_tokens": 3},
            Usage(12, 4, 3),
        ),
        ({"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": []}, Usage(12, 0, 3)),
        ({"prompt_tokens": "many", "prompt_cache_miss_tokens": 12, "completion_tokens": 3}, Usage(12, 0, 3)),
        ({"prompt_tokens": 12, "completion_tokens": 0, "total_tokens": 15}, Usage(12, 0, 0)),
    ],
)
def test_usage_is_read_in_every_spelling_and_past_what_is_odd(said: dict[str, Any], meant: Usage):
    assert read_plain(json.dumps({**WHOLE, "usage": said}).encode(), "r") == meant


@pytest.mark.parametrize(
    "said",
    [None, {}, [], {"total_tokens": 15}, {"prompt_tokens": 10**30, "completion_tokens": 9000}, {"x": 1}],
)
async def test_an_answer_that_was_not_counted_is_estimated_from_its_text(
    gateway: GatewayUnderTest, flash: ScriptedUpstream, said: Any
):
    async def script(talk: Talk) -> None:
        await talk.json({**WHOLE, "usage": said})

    flash.script = script
    body = {"model": "flash", "messages": [{"role": "user", "content": "How many words are in it?"}]}
    async with gateway.http() as client:
        reply = await client.post(CHAT_PATH, json=body)
    record = await gateway.record(reply.headers[f"{HEADER}request-id"])
    assert (reply.status_code, record.usage_estimated) == (200, True)
    assert 5 <= record.prompt_tokens <= 15
    assert 5 <= record.completion_tokens <= 12
