"""What `Provider` promises beyond the contract of all backends."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from backends import provider as provider_module
from backends.errors import BackendError, BackendRejected, BackendUnavailable, BackendUnfit
from backends.provider import Provider, ProviderAnswer
from backends.types import (
    CHAT_PATH,
    COMPLETIONS_PATH,
    EMBEDDINGS_PATH,
    InferenceRequest,
    Replica,
    ReplicaKind,
)
from tests.contracts.subjects import API_KEY, SocketSubject, provider, subject_named
from tests.contracts.test_backend import ask, read_all
from tests.fakes.upstream import ScriptedUpstream, Talk, events, well_behaved
from tests.support.waiting import until

# litellm's own types, and what it asks of them
pytestmark = [pytest.mark.filterwarnings(f"ignore:{of}") for of in ("Item", "Accessing the")]


async def test_it_asks_for_the_providers_model_with_its_key():
    async with subject_named("provider") as subject:
        assert isinstance(subject, SocketSubject)
        await read_all(await subject.backend.open(ask(stream=True)))
        (seen,) = subject.upstream.requests
    assert seen.json()["model"] == "engine-model"
    assert seen.json()["stream_options"] == {"include_usage": True}
    assert seen.headers["authorization"] == f"Bearer {API_KEY}"


@pytest.mark.parametrize("sent", [[], events()[:2]])
async def test_no_end_is_made_up_for_a_stream_that_stops(sent: list[str]):
    async def script(talk: Talk) -> None:
        await talk.head()
        for piece in sent:
            await talk.send(piece)
        await talk.end()

    async def passed(subject: SocketSubject) -> bytes:
        seen: list[bytes] = []
        answer = await subject.backend.open(ask(stream=True))
        try:
            while piece := await answer.read():
                seen.append(piece)
        finally:
            await answer.aclose()
        return b"".join(seen)

    async with subject_named("provider") as subject:
        assert isinstance(subject, SocketSubject)
        subject.upstream.script = script
        with pytest.raises(BackendError, match="standard/main/0"):
            await passed(subject)


async def test_an_error_as_the_first_event_may_be_tried_elsewhere():
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send('data: {"error": {"message": "boom", "code": 500}}\n\n')
        await talk.until_closed()

    async with subject_named("provider") as subject:
        assert isinstance(subject, SocketSubject)
        subject.upstream.script = script
        with pytest.raises(BackendUnavailable):
            await subject.backend.open(ask(stream=True))
        await until(subject.has_stopped, "the engine to be told to stop")


async def test_a_refusal_in_the_providers_words_holds_no_key():
    async def script(talk: Talk) -> None:
        await talk.json({"error": {"message": f"{API_KEY} and sk-SECRET42 may not do that"}}, 400)

    async with subject_named("provider") as subject:
        assert isinstance(subject, SocketSubject)
        subject.upstream.script = script
        with pytest.raises(BackendRejected) as caught:
            await subject.backend.open(ask(stream=False))
    assert b"may not do that" in caught.value.body
    assert API_KEY.encode() not in caught.value.body
    assert b"SECRET" not in caught.value.body


class Stuck:
    """A stream of litellm's that neither goes on nor closes."""

    async def aclose(self) -> None:
        await asyncio.Event().wait()


async def test_a_stream_that_cannot_be_closed_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provider_module, "CLOSE_SECONDS", 0.05)

    async def pieces() -> AsyncGenerator[bytes]:
        await asyncio.Event().wait()
        yield b""

    answer = ProviderAnswer(pieces(), "a/b/0", "text/event-stream", Stuck())
    with pytest.raises(TimeoutError):
        await answer.read(0.01)
    async with asyncio.timeout(10):
        await answer.aclose()


async def test_it_has_no_text_completions_and_says_what_has():
    backend = Provider(Replica("a/b/0", ReplicaKind.LITELLM, "", "openai/x"))
    with pytest.raises(BackendUnfit, match=r"litellm.*'url' or 'embedded'"):
        await backend.open(InferenceRequest(COMPLETIONS_PATH, b"{}", stream=False, headers={}))


async def test_a_provider_is_ready_without_being_asked():
    assert await provider("http://127.0.0.1:9").is_ready()


async def test_what_is_said_of_thinking_reaches_deepseek():
    turns = [
        {"role": "user", "content": "天气？"},
        {"role": "assistant", "content": "a", "reasoning_content": "Hm."},
    ]
    asked = [
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "enabled"}},
        {"thinking": {"type": "enabled"}, "reasoning_effort": "max"},
    ]
    async with ScriptedUpstream(well_behaved) as upstream:
        replica = Replica(
            "flash/main/0", ReplicaKind.LITELLM, upstream.url, "deepseek/deepseek-flash", api_key="sk"
        )
        for words in asked:
            body = json.dumps({"model": "m", "messages": turns, **words}).encode()
            await read_all(await Provider(replica).open(InferenceRequest(CHAT_PATH, body, False, {})))
    bodies = [request.json() for request in upstream.requests]
    assert [{name: body[name] for name in body if name in asked[2]} for body in bodies] == asked
    assert [body["messages"] for body in bodies] == [turns] * len(asked)


async def test_it_embeds_by_the_providers_own_endpoint():
    async def script(talk: Talk) -> None:
        data = [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]
        usage = {"prompt_tokens": 9, "total_tokens": 9}
        await talk.json({"object": "list", "data": data, "model": "engine-model", "usage": usage})

    body = b'{"model":"x","input":["a river","\xe6\xb2\xb3"],"encoding_format":"float"}'
    async with subject_named("provider") as subject:
        assert isinstance(subject, SocketSubject)
        subject.upstream.script = script
        request = InferenceRequest(EMBEDDINGS_PATH, body, stream=False, headers={})
        answer = json.loads(await read_all(await subject.backend.open(request)))
        (seen,) = subject.upstream.requests
    assert seen.path == EMBEDDINGS_PATH
    assert (seen.json()["model"], seen.json()["input"]) == ("engine-model", ["a river", "\u6cb3"])
    assert answer["data"][0]["embedding"] == [0.5, -0.25]
    assert answer["usage"]["prompt_tokens"] == 9
