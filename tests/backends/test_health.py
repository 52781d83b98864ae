"""When a replica gets requests: the breaker, the probes, the ramp."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import BackendOverloaded, BackendUnavailable
from backends.fleet import Fleet, Member
from backends.health import FAILURES, FIRST_REST, LONGEST_REST, LONGEST_WAIT, RAMP_SECONDS, Health
from backends.types import Pool, Replica, ReplicaKind
from tests.fakes.backend import FakeBackend


def failing(times: int, now: float = 0.0) -> Health:
    """Return the health of a replica that brought nothing so many times in a row."""
    health = Health()
    for _ in range(times):
        health.asked()
        health.brought_nothing(now)
    return health


def test_a_few_requests_without_a_token_take_a_replica_out():
    assert failing(FAILURES - 1).takes_requests(0.0)
    assert not failing(FAILURES).takes_requests(0.0)


def test_a_token_between_failures_forgives_them():
    health = failing(FAILURES - 1)
    health.brought_token(1.0)
    health.brought_nothing(2.0)
    assert health.takes_requests(2.0)


def test_after_its_rest_one_request_is_a_trial():
    health = failing(FAILURES)
    assert not health.takes_requests(FIRST_REST - 0.1)
    assert health.takes_requests(FIRST_REST)
    health.asked()
    assert not health.takes_requests(FIRST_REST)  # one at a time
    health.brought_token(FIRST_REST + 1)
    assert health.takes_requests(FIRST_REST + 1)


def test_a_trial_that_fails_makes_the_next_rest_longer_up_to_a_bound():
    health, now = failing(FAILURES), 0.0
    for rest in (FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST):
        now += rest
        assert health.takes_requests(now)
        health.asked()
        health.brought_nothing(now)
        assert not health.takes_requests(now + rest)
    for _ in range(10):
        now += LONGEST_REST
        health.asked()
        health.brought_nothing(now)
    assert health.takes_requests(now + LONGEST_REST)


def test_requests_that_were_on_a_replica_as_it_went_out_make_its_rest_no_longer():
    health = Health()
    for _ in range(20):
        health.asked()
    for late in range(20):
        health.brought_nothing(late / 20)
    assert health.takes_requests(1.0 + FIRST_REST)
    health.asked()
    health.brought_nothing(1.0 + FIRST_REST)
    assert health.takes_requests(1.0 + 3 * FIRST_REST)  # the second rest is twice the first, no more


def test_a_trial_whose_client_left_can_be_made_again():
    health = failing(FAILURES)
    health.asked()
    health.left_alone()
    assert health.takes_requests(FIRST_REST)


def test_probes_that_are_missed_take_it_out_and_one_that_is_answered_brings_it_back():
    health = Health()
    for at in range(FAILURES):
        assert health.takes_requests(at)
        health.was_probed(at, ready=None, since=at)
    assert not health.takes_requests(FAILURES)
    health.was_probed(9.0, ready=True, since=9.0)
    assert health.takes_requests(9.0)


def test_a_token_outweighs_a_probe_that_was_missed_meanwhile():
    health = Health()
    for at in range(10):
        health.brought_token(at + 0.5)
        health.was_probed(at + 0.9, ready=None, since=float(at))
    assert health.takes_requests(10.0)


@given(st.floats(0, 2 * RAMP_SECONDS), st.floats(0, 2 * RAMP_SECONDS))
def test_one_that_has_come_back_gets_a_growing_share(earlier: float, later: float):
    health = failing(FAILURES)
    health.brought_token(0.0)
    earlier, later = sorted((earlier, later))
    assert 0 < health.share(earlier) <= health.share(later) <= 1
    assert health.share(RAMP_SECONDS) == 1


def fleet(now: list[float], count: int = 2) -> Fleet:
    """Return a fleet of one model with so many replicas."""
    replicas = [Replica(f"flash/main/{i}", ReplicaKind.OPENAI, "http://x", "m") for i in range(count)]
    pools = {"flash": [Pool("main", "any", replicas)]}
    return Fleet(pools, monotonic=lambda: now[0], make=lambda _replica, _timeouts: FakeBackend())


def chosen(members: Fleet) -> Member | None:
    """Return the replica that would get a request now."""
    placed = members.place("flash")
    return None if placed is None else placed.member


def test_a_replica_that_has_just_come_is_not_flooded():
    now = [100.0]
    members = fleet(now)
    old, new = (member for _, member in members.members())
    old.in_flight = 30
    new.health.joined = 100.0
    placed: list[Member] = []
    for _ in range(10):
        member = chosen(members)
        assert member is not None
        member.in_flight += 1
        placed.append(member)
    assert 1 <= placed.count(new) <= 5
    now[0] += RAMP_SECONDS
    assert chosen(members) is new


async def test_a_replica_that_was_never_there_gets_nothing_until_it_answers():
    now = [0.0]
    members = fleet(now, count=1)
    (_, member) = next(members.members())
    backend = member.backend
    assert isinstance(backend, FakeBackend)
    backend.ready = False
    await members.probe()
    assert chosen(members) is None
    assert "flash/main/0" in str(members.nobody("flash"))
    backend.ready = True
    await members.probe()
    assert chosen(members) is member


@pytest.mark.parametrize("seconds", [0.5, 7.0, LONGEST_WAIT, 86400.0])
def test_a_replica_that_asks_to_be_left_alone_is_left_alone_for_a_bounded_time(seconds: float):
    health = Health()
    health.asked_to_wait(100.0, seconds, 429)
    health.brought_token(100.1)  # of a request that it already had
    wait = min(seconds, LONGEST_WAIT)
    assert not health.takes_requests(100.0 + wait - 0.1)
    assert health.takes_requests(100.0 + wait)
    assert health.failures == 0


def test_a_shorter_wish_does_not_end_a_longer_one():
    health = Health()
    health.asked_to_wait(0.0, 30.0, 429)
    health.asked_to_wait(1.0, 2.0, 503)
    assert not health.takes_requests(29.0)


def test_others_are_asked_while_one_is_busy_and_when_all_are_the_first_to_be_free_is_named():
    now = [0.0]
    members = fleet(now)
    one, other = (member for _, member in members.members())
    one.health.asked_to_wait(0.0, 7.0, 429)
    assert [chosen(members) for _ in range(3)] == [other] * 3
    other.health.asked_to_wait(0.0, 30.0, 503)
    now[0] = 3.0
    assert chosen(members) is None
    error = members.nobody("flash")
    assert isinstance(error, BackendOverloaded)
    assert (error.replica, error.status, error.retry_after) == ("flash/main/0", 429, 4.0)
    now[0] = 7.0
    assert chosen(members) is one


def test_a_busy_replica_that_is_gone_promises_nothing():
    members = fleet([0.0], count=1)
    (_, member) = next(members.members())
    member.health.asked_to_wait(0.0, 7.0, 429)
    member.health.probes_missed = FAILURES
    assert isinstance(members.nobody("flash"), BackendUnavailable)


def test_one_that_says_it_cannot_serve_is_out_at_once_whatever_it_still_brings():
    health = Health()
    health.brought_token(1.0)
    health.was_probed(1.1, ready=False, since=0.5)
    health.progressed(1.2)
    assert not health.takes_requests(1.2)
    health.was_probed(4.1, ready=True, since=4.0)
    assert health.takes_requests(4.1)
    assert health.share(4.1) < 1


def test_of_replicas_with_as_many_requests_one_that_failed_is_not_chosen():
    members = fleet([100.0])
    first, second = (member for _, member in members.members())
    assert chosen(members) is first
    first.health.brought_nothing(100.0)
    assert chosen(members) is second
    second.in_flight = 1
    assert chosen(members) is first


async def test_what_a_look_at_our_health_finds_counts_at_once_and_its_silence_never():
    members = fleet([0.0], count=1)
    (_, member) = next(members.members())
    backend = member.backend
    assert isinstance(backend, FakeBackend)
    backend.ready = False
    assert await members.readiness() == {"flash": {"flash/main/0": False}}
    assert chosen(members) is None
    backend.ready = True
    assert await members.readiness() == {"flash": {"flash/main/0": True}}
    assert chosen(members) is member
    backend.ready = None
    for _ in range(FAILURES + 1):
        assert await members.readiness() == {"flash": {"flash/main/0": False}}
    assert chosen(members) is member
