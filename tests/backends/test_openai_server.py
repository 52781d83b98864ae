"""What `OpenAIServer` promises beyond the contract of all backends."""

import asyncio
import json

import msgspec
import pytest

from backends.errors import BackendTimeout, BackendUnavailable
from backends.openai_server import OpenAIServer
from backends.refusals import error_message
from backends.types import InferenceRequest, Replica, ReplicaKind
from tests.contracts.subjects import API_KEY, openai_server
from tests.contracts.test_backend import ask, read_all
from tests.fakes.upstream import ScriptedUpstream, Talk, answer, events, well_behaved
from tests.support.waiting import until


async def test_bytes_pass_as_they_came_and_the_request_goes_as_it_was_given():
    sent = [": odd\r\n\r\n", *events(), 'data: {"x" : 1.10}\r\n\r\n']

    async def script(talk: Talk) -> None:
        await talk.head()
        for piece in sent:
            await talk.send(piece)
        await talk.end()

    async with ScriptedUpstream(script) as upstream:
        backend = openai_server(upstream.url)
        request = InferenceRequest("/v1/chat/completions", b'{"n" : 1.0}', True, {"traceparent": "00-1"})
        assert await read_all(await backend.open(request)) == "".join(sent).encode()
        await backend.aclose()
    (seen,) = upstream.requests
    assert (seen.method, seen.path, seen.body) == ("POST", request.path, request.body)
    assert seen.headers["authorization"] == f"Bearer {API_KEY}"
    assert seen.headers["traceparent"] == "00-1"


async def test_an_answer_read_to_its_end_leaves_its_connection_for_the_next():
    async with ScriptedUpstream(well_behaved) as upstream:
        backend = openai_server(upstream.url)
        for stream in (False, True, False):
            await read_all(await backend.open(ask(stream=stream)))
        assert await backend.is_ready()
        assert upstream.connections == 1
        await backend.aclose()
        await until(lambda: upstream.open_connections == 0, "the kept connection to close")


async def test_a_stream_that_is_silent_can_be_waited_for_again():
    go_on = asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.head()
        await go_on.wait()
        await talk.send("data: x\n\n")
        await talk.until_closed()

    async with ScriptedUpstream(script) as upstream:
        backend = openai_server(upstream.url)
        begun = await backend.open(ask(stream=True))
        with pytest.raises(TimeoutError):
            await begun.read(0.02)
        go_on.set()
        assert await begun.read(5) == b"data: x\n\n"
        await begun.aclose()
        await until(lambda: upstream.open_connections == 0, "the engine to be told to stop")
        await backend.aclose()


async def test_an_engine_that_does_not_answer_is_given_up_and_told_to_stop():
    async def script(talk: Talk) -> None:
        await talk.until_closed()

    async with ScriptedUpstream(script) as upstream:
        backend = openai_server(upstream.url)
        with pytest.raises(BackendTimeout, match=r"no answer within 0\.05 s"):
            await backend.open(msgspec.structs.replace(ask(stream=False), patience=0.05))
        await until(lambda: upstream.open_connections == 0, "the engine to be told to stop")
        await backend.aclose()


async def test_the_words_of_an_engine_that_fails_stay_with_it():
    async def script(talk: Talk) -> None:
        await talk.json({"error": {"message": f"no memory for {API_KEY}"}}, 500)

    async with ScriptedUpstream(script) as upstream:
        backend = openai_server(upstream.url)
        with pytest.raises(BackendUnavailable) as caught:
            await backend.open(ask(stream=False))
        await backend.aclose()
    assert "answered 500" in str(caught.value)
    assert "memory" not in str(caught.value)
    assert API_KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"error": "a"}', "a"),
        (b'{"message": "a"}', "a"),
        (b'{"error": {"code": 1}}', ""),
        (b'{"error": null}', ""),
        (b'["a"]', ""),
        (b"<html>", ""),
        (b"\xff", ""),
        (b"", ""),
        (json.dumps(answer()).encode(), ""),
    ],
)
def test_the_message_of_an_error_body(body: bytes, message: str):
    assert error_message(body) == message


@pytest.mark.parametrize("status", [200, 204, 302, 400, 401, 404, 405, 422, 429])
async def test_a_server_that_answers_is_ready_whatever_it_thinks_of_the_question(status: int):
    async def page(talk: Talk) -> None:
        await talk.json({"error": "what is this?"}, status)

    async with ScriptedUpstream(well_behaved, health=page) as upstream:
        backend = openai_server(upstream.url)
        assert await backend.is_ready() is True
        await backend.aclose()


@pytest.mark.parametrize(("status", "ready"), [(503, False), (500, None), (502, None), (504, None)])
async def test_only_503_says_that_a_server_cannot_serve_and_other_errors_may_pass(
    status: int, ready: bool | None
):
    async def page(talk: Talk) -> None:
        await talk.json({}, status)

    async with ScriptedUpstream(well_behaved, health=page) as upstream:
        backend = openai_server(upstream.url)
        assert await backend.is_ready() is ready
        await backend.aclose()


@pytest.mark.parametrize("cut", [False, True])
async def test_a_health_page_is_judged_by_its_status_not_by_its_end(cut: bool):
    async def page(talk: Talk) -> None:
        await talk.head()
        await talk.send("data: and so on\n\n")
        if cut:
            talk.abort()
        else:
            await talk.until_closed()

    async with ScriptedUpstream(well_behaved, health=page) as upstream:
        backend = openai_server(upstream.url)
        assert await backend.is_ready() is True
        await until(lambda: upstream.open_connections == 0, "the page to be let go")
        await backend.aclose()


async def test_nobody_listening_is_said_at_once_and_silence_is_not_taken_for_it():
    async def page(talk: Talk) -> None:
        await talk.until_closed()

    async with ScriptedUpstream(well_behaved, health=page) as upstream:
        busy = OpenAIServer(Replica("flash/main/0", ReplicaKind.OPENAI, upstream.url, "m"), 0.1)
        assert await busy.is_ready() is None
        await busy.aclose()
    gone = openai_server(upstream.url)
    assert await gone.is_ready() is False
    await gone.aclose()


async def test_a_login_goes_out_as_http_has_it():
    async with ScriptedUpstream(well_behaved) as upstream:
        replica = Replica("flash/main/0", ReplicaKind.OPENAI, upstream.url, "m", login="bWU6cHc=")
        backend = OpenAIServer(replica, 5.0)
        await read_all(await backend.open(ask(stream=False)))
        await backend.aclose()
    assert upstream.requests[0].headers["authorization"] == "Basic bWU6cHc="
