"""What is known of a replica: what it holds, how fast it reads, its queue, and when that is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.placement.held import SentGroups
from backends.placement.prompts import Prompt
from backends.placement.standing import SENT_SECONDS, Standing
from backends.placement.work import FIRST_RATE, PrefillQueue, PrefillRate


def names(*letters: str) -> list[bytes]:
    """Return the names of a chain of groups."""
    return ["/".join(letters[: end + 1]).encode() for end in range(len(letters))]


def prompt(*letters: str) -> Prompt:
    return Prompt(len(letters) * 512 + 100, names(*letters))


def test_a_model_of_a_cache_finds_the_longest_beginning():
    held = SentGroups(10)
    held.sent(names("a", "b", "c"), 0.0)
    assert held.longest(names("a", "b", "x"), 0.0) == 2
    assert held.longest(names("a", "b", "c", "d"), 0.0) == 3
    assert held.longest(names("x"), 0.0) == 0
    assert held.longest([], 0.0) == 0


def test_leaves_that_were_not_used_for_longest_are_given_up_first_and_old_groups_do_not_count():
    held = SentGroups(4, ttl=60.0)
    held.sent(names("a", "b", "c"), 0.0)
    held.sent(names("a", "x"), 50.0)
    assert held.longest(names("a", "b", "c"), 50.0) == 3
    held.sent(names("y"), 50.0)
    assert held.longest(names("a", "b", "c"), 50.0) == 2
    assert held.longest(names("a", "b", "c"), 61.0) == 1  # of the first request only the head was used again


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=40), st.integers(1, 12))
def test_there_is_never_a_hole_and_never_more_than_there_is_room_for(prompts: list[list[int]], room: int):
    held = SentGroups(room)
    for at, letters in enumerate(prompts):
        chain = names(*map(str, letters))
        held.sent(chain, float(at))
        assert len(held) <= room
        assert held.longest(chain, float(at)) == min(len(chain), room)


def test_the_rate_is_learned_and_what_every_request_takes_is_not_taken_for_it():
    rate = PrefillRate()
    assert rate.tokens_per_second == pytest.approx(FIRST_RATE)
    for _ in range(300):
        for tokens in (100, 1000, 4000):
            rate.learn(tokens, 0.2 + tokens / 2000)
    assert rate.tokens_per_second == pytest.approx(2000, rel=0.05)


@pytest.mark.parametrize("rate", [100, 2000, 20_000])
def test_a_rate_far_from_the_first_is_known_after_a_few_requests_of_usual_lengths(rate: int):
    found = PrefillRate()
    for tokens in (500, 560, 480, 200, 210, 190, 520, 250):
        found.learn(tokens, 0.002 + tokens / rate)
    assert found.tokens_per_second == pytest.approx(rate, rel=0.5)


def test_a_replica_whose_short_prompts_take_longer_is_not_taken_for_a_fast_one():
    found = PrefillRate()
    for _ in range(20):
        for tokens, seconds in ((100, 3.0), (600, 2.0)):
            found.learn(tokens, seconds)
    assert found.tokens_per_second < FIRST_RATE


def test_a_queue_is_what_was_sent_and_has_no_first_token():
    queue = PrefillQueue()
    first, second = queue.add(8000, 0.0), queue.add(16_000, 0.0)
    assert queue.seconds(0.0) == pytest.approx(3.0)
    assert queue.seconds(0.5) == pytest.approx(2.5)
    queue.first_token(first, 1.0)
    assert queue.seconds(1.0) == pytest.approx(2.0, rel=0.05)
    queue.drop(first, 1.1)  # the answer is over: no prompt any more
    queue.drop(second, 1.2)
    assert queue.seconds(1.2) == 0.0
    assert len(queue) == 0


def test_a_replica_that_is_late_is_expected_to_stay_so():
    queue = PrefillQueue()
    queue.add(8000, 0.0)
    assert queue.seconds(11.0) == pytest.approx(10.0)


def test_an_engine_that_says_that_nothing_was_cached_is_believed_after_a_few_answers():
    standing = Standing()
    standing.began(prompt("a", "b"), 1124, 0.0)
    assert standing.holds(prompt("a", "b"), 0.0) == (2, 1024)
    standing.told(1024, 1024)
    for _ in range(3):
        assert standing.holds(prompt("a", "b"), 0.0)[0] == 2
        standing.told(1024, 0)
    assert standing.holds(prompt("a", "b"), 0.0) == (0, 0)


def test_an_engine_that_never_tells_of_cached_tokens_proves_nothing():
    standing = Standing()
    standing.began(prompt("a"), 612, 0.0)
    assert not any(standing.told(512, 0) for _ in range(20))
    assert standing.holds(prompt("a"), 0.0) == (1, 512)


def test_nothing_is_held_for_ever():
    standing = Standing()
    standing.began(prompt("a"), 612, 0.0)
    assert standing.holds(prompt("a"), SENT_SECONDS - 1)[0] == 1
    assert standing.holds(prompt("a"), SENT_SECONDS + 1)[0] == 0


def test_an_engine_that_started_at_another_time_holds_nothing():
    standing = Standing()
    standing.saw_start(1.0)
    standing.began(prompt("a"), 612, 0.0)
    for started in (1.0, None):
        standing.saw_start(started)
        assert standing.holds(prompt("a"), 0.0)[0] == 1
    standing.saw_start(2.0)
    assert standing.holds(prompt("a"), 0.0)[0] == 0
