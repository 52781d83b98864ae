"""What an engine says of its limits in headers."""

from datetime import UTC, datetime

import pytest

from backends.errors import BackendOverloaded
from backends.rate_limits import rate_limits_in, seconds_to_wait
from tests.contracts.subjects import SocketSubject, subject_named
from tests.contracts.test_backend import ask, read_all, refusal
from tests.fakes.upstream import Talk, answer, events, well_behaved

LIMITS = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}

# litellm's own types, and what it asks of them
pytestmark = [pytest.mark.filterwarnings(f"ignore:{of}") for of in ("Item", "Accessing the")]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e9"}, 86400.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT"}, 9.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Monday, 30-Nov-26 12:00:09 GMT"}, 9.0),
        ({"retry-after": "Tue, 31 Feb 2026 12:00:09 GMT"}, None),
        # A server whose clock is two hours behind says it by its own clock.
        ({"retry-after": "Mon, 30 Nov 2026 10:00:09 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, 9.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:09 GMT", "date": "today"}, 9.0),
    ],
)
def test_when_to_come_again_is_read_in_every_form(headers: dict[str, str], seconds: float | None):
    assert seconds_to_wait(headers, lambda: datetime(2026, 11, 30, 12, tzinfo=UTC)) == seconds


def test_only_limits_are_for_the_client():
    assert rate_limits_in({**LIMITS, "retry-after": "1", "set-cookie": "a", "x-ratelimit": "b"}) == LIMITS


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["server", "provider"])
async def test_limits_come_with_an_answer_and_with_a_refusal(kind: str, stream: bool):
    async def limited(talk: Talk) -> None:
        if not stream:
            await talk.json(answer(), headers=LIMITS)
            return
        await talk.head(headers=LIMITS)
        for event in events():
            await talk.send(event)
        await talk.end()

    async def refusing(talk: Talk) -> None:
        await talk.json({"error": {"message": "slow down"}}, 429, {"retry-after-ms": "1500", **LIMITS})

    async with subject_named(kind) as subject:
        assert isinstance(subject, SocketSubject)
        subject.upstream.script = limited
        begun = await subject.backend.open(ask(stream=stream))
        await read_all(begun)
        assert begun.rate_limits == LIMITS
        subject.upstream.script = refusing
        error = await refusal(subject, stream=stream)
        assert isinstance(error, BackendOverloaded)
        assert (error.retry_after, error.rate_limits) == (1.5, LIMITS)
        subject.upstream.script = well_behaved
        assert (await subject.backend.open(ask(stream=False))).rate_limits == {}
