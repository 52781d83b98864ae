"""What every `Backend` promises: the fake, an OpenAI-compatible server, and a provider through litellm."""

import json
import subprocess
import sys
from typing import Any

import pytest

from backends.engines.probes import free_port
from backends.errors import BackendError, BackendOverloaded, BackendRejected, BackendUnavailable
from backends.protocol import Answer
from backends.types import InferenceRequest
from tests.contracts.subjects import (
    API_KEY,
    NAME,
    Subject,
    forget_litellm,
    openai_server,
    provider,
    subject_named,
)
from tests.fakes.upstream import events
from tests.support.waiting import until

# litellm's own types, and what it asks of them
pytestmark = [pytest.mark.filterwarnings(f"ignore:{of}") for of in ("Item", "Accessing the")]


def ask(*, stream: bool) -> InferenceRequest:
    """Return a chat request."""
    body: dict[str, Any] = {"model": "engine-model", "messages": [{"role": "user", "content": "Capital?"}]}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return InferenceRequest("/v1/chat/completions", json.dumps(body).encode(), stream, {})


async def read_all(answer: Answer) -> bytes:
    """Read an answer to its end and let go of it."""
    parts: list[bytes] = []
    try:
        while part := await answer.read():
            parts.append(part)
    finally:
        await answer.aclose()
    return b"".join(parts)


async def refusal(subject: Subject, *, stream: bool) -> BackendError:
    """Open an answer that must be refused; return the error."""
    with pytest.raises(BackendError) as caught:
        await subject.backend.open(ask(stream=stream))
    assert caught.value.replica == NAME
    assert API_KEY not in str(caught.value)
    return caught.value


async def test_a_plain_answer_is_json_with_its_usage(subject: Subject):
    subject.will_answer()
    answer = await subject.backend.open(ask(stream=False))
    assert answer.content_type == "application/json"
    body = json.loads(await read_all(answer))
    assert body["choices"][0]["message"]["content"] == "Paris."
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 4


async def test_a_stream_is_server_sent_events_that_end_in_done(subject: Subject):
    subject.will_answer()
    answer = await subject.backend.open(ask(stream=True))
    assert answer.content_type.startswith("text/event-stream")
    *chunks, done, nothing = (await read_all(answer)).decode().split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    values = [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]
    deltas = [choice["delta"].get("content") or "" for value in values for choice in value["choices"]]
    assert "".join(deltas) == "Paris."
    assert [value["usage"]["prompt_tokens"] for value in values if value.get("usage")] == [12]


async def test_an_answer_that_ended_goes_on_saying_that_it_ended(subject: Subject):
    subject.will_answer()
    answer = await subject.backend.open(ask(stream=True))
    await read_all(answer)
    assert await answer.read() == b""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_request_is_rejected_with_the_engines_words(
    subject: Subject, status: int, stream: bool
):
    subject.will_refuse(status)
    error = await refusal(subject, stream=stream)
    assert isinstance(error, BackendRejected)
    assert error.status in {400, status}
    assert "no" in json.loads(error.body)["error"]["message"]
    assert API_KEY.encode() not in error.body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "seconds"), [(429, 7), (503, 7), (503, None)])
async def test_an_engine_that_is_busy_says_when_to_come_again(
    subject: Subject, status: int, seconds: int | None, stream: bool
):
    subject.will_refuse(status, retry_after=seconds)
    error = await refusal(subject, stream=stream)
    assert isinstance(error, BackendOverloaded)
    assert (error.status, error.retry_after) == (status, seconds)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [401, 404, 500, 502])
async def test_any_other_status_means_that_another_replica_may_be_tried(
    subject: Subject, status: int, stream: bool
):
    subject.will_refuse(status)
    assert isinstance(await refusal(subject, stream=stream), BackendUnavailable)


@pytest.mark.parametrize("name", ["server", "provider"])
async def test_a_key_that_is_not_accepted_is_told_with_the_remedy(name: str):
    async with subject_named(name) as subject:
        subject.will_refuse(401)
        assert "api_key_env" in str(await refusal(subject, stream=False))


@pytest.mark.parametrize("kind", ["server", "provider"])
async def test_a_refused_connection_is_unavailable(kind: str):
    url = f"http://127.0.0.1:{free_port()}"
    backend = openai_server(url) if kind == "server" else provider(url)
    with pytest.raises(BackendUnavailable) as caught:
        await backend.open(ask(stream=True))
    await backend.aclose()
    if kind == "provider":
        await forget_litellm()
    assert NAME in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_an_engine_that_dies_in_the_middle_raises_between_two_reads(subject: Subject):
    subject.will_die_after(events()[:3])
    answer = await subject.backend.open(ask(stream=True))
    seen: list[bytes] = []

    async def read() -> None:
        while piece := await answer.read():
            seen.append(piece)

    with pytest.raises(BackendError) as caught:
        await read()
    await answer.aclose()
    assert caught.value.replica == NAME
    assert b"Pa" in b"".join(seen)
    assert b"[DONE]" not in b"".join(seen)


@pytest.mark.parametrize("reads", [0, 1])
async def test_closing_an_unfinished_answer_stops_the_engine(subject: Subject, reads: int):
    subject.will_stream(events()[:3])
    answer = await subject.backend.open(ask(stream=True))
    for _ in range(reads):
        assert await answer.read()
    assert not subject.has_stopped()
    await answer.aclose()
    await until(subject.has_stopped, "the engine to be told to stop", patience=2)


async def test_closing_twice_is_closing_once(subject: Subject):
    subject.will_answer()
    answer = await subject.backend.open(ask(stream=False))
    await answer.aclose()
    await answer.aclose()


async def test_a_backend_whose_engine_answers_is_ready(subject: Subject):
    subject.will_answer()
    assert await subject.backend.is_ready()


async def test_a_server_that_is_down_is_not_ready():
    backend = openai_server(f"http://127.0.0.1:{free_port()}")
    assert not await backend.is_ready()
    await backend.aclose()


def test_nothing_heavy_is_imported_at_the_start():
    program = (
        "import sys, gateway.cli, gateway.runtime, backends.fleet, classifier.model\n"
        "print([m for m in ('litellm', 'torch', 'sklearn', 'scipy', 'vllm', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
