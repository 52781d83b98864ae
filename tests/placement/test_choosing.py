"""Which replica gets a request, and what that is weighed by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.placement.choosing import (
    FULL,
    pick,
    score_idle,
    score_memory,
    score_prefix,
    score_session,
    with_memory,
    with_room,
)
from backends.placement.cost import costs, reading_seconds
from backends.placement.demand import MEMORY_SECONDS, Demand
from backends.placement.placer import Placer
from backends.placement.types import ReplicaView

VIEWS = st.lists(
    st.builds(
        ReplicaView,
        cached=st.integers(0, 100_000),
        queue=st.floats(0, 1000),
        rate=st.floats(50, 200_000),
        running=st.integers(0, 500),
        recent=st.floats(0, 300),
        share=st.floats(0.1, 1),
        kv_usage=st.floats(0, 1),
        well=st.booleans(),
        session=st.booleans(),
    ),
    min_size=1,
    max_size=16,
)


def choose(*views: ReplicaView, tokens: int = 4096) -> int:
    """Return the index of the replica that an idle model's placer chooses."""
    return Placer().choose(views, tokens, now=0.0).index


def test_the_replica_that_holds_the_prefix_is_chosen_while_all_are_idle():
    assert choose(ReplicaView(), ReplicaView(cached=3584), ReplicaView()) == 1


def test_a_queue_that_is_longer_than_reading_all_anew_sends_a_request_elsewhere():
    assert choose(ReplicaView(), ReplicaView(cached=3584, queue=60.0)) == 0


def test_a_faster_replica_is_chosen_when_nobody_holds_anything():
    assert choose(ReplicaView(rate=2000), ReplicaView(rate=16_000)) == 1


def test_of_equal_replicas_the_one_that_worked_less_is_chosen_and_then_the_first():
    assert choose(ReplicaView(recent=2.0), ReplicaView(recent=1.0), ReplicaView(recent=1.0)) == 1


def test_of_equal_replicas_the_one_where_the_conversation_was_is_chosen():
    assert choose(ReplicaView(), ReplicaView(recent=9.0, session=True), ReplicaView(), tokens=500) == 1


def test_what_no_replica_holds_is_read_where_less_was_read_lately_wherever_its_conversation_was():
    assert choose(ReplicaView(), ReplicaView(recent=9.0, session=True), ReplicaView(), tokens=5000) == 0


def test_a_short_prefix_does_not_outweigh_the_room_that_its_holder_lacks_and_a_long_one_does():
    for cached, chosen in ((256, 1), (3584, 0)):
        assert choose(ReplicaView(cached=cached, recent=2.0), ReplicaView(recent=1.0)) == chosen


def test_requests_that_run_elsewhere_count():
    assert choose(ReplicaView(running=3), ReplicaView(running=2), tokens=0) == 1


def test_the_busier_the_replicas_the_dearer_is_a_lost_prefix():
    holder, other = ReplicaView(cached=3584, queue=4.0), ReplicaView(queue=1.0)
    works = reading_seconds([holder, other], 4096)
    idle = costs([holder, other], works, crowding=0.0, reuse=1.0)
    busy = costs([holder, other], works, crowding=20.0, reuse=1.0)
    assert idle[0] > idle[1]
    assert busy[0] < busy[1]


def test_a_prefix_that_many_go_on_from_spreads_and_the_turn_of_one_conversation_stays():
    holder, other = ReplicaView(cached=3584, queue=1.0), ReplicaView()
    placer = Placer()
    assert placer.choose([holder, other], 4096, now=0.0, branch=b"turn").index == 0
    for _ in range(100):
        placer.placed("holder", 0.01, now=0.0, branch=b"system")
    assert placer.choose([holder, other], 4096, now=0.0, branch=b"system").index == 1
    assert placer.choose([holder, other], 4096, now=0.0, branch=b"turn").index == 0


def test_what_is_said_of_a_choice_is_what_was_weighed():
    choice = Placer().choose([ReplicaView(), ReplicaView(cached=8000, queue=0.5, rate=4000)], 9000, now=0.0)
    assert (choice.index, choice.cached, choice.uncached) == (1, 8000, 1000)
    assert choice.ttft == pytest.approx(0.75)
    assert choice.reason.startswith("placement:holds 8000 of 9000 tokens, queue 0.50 s")


def test_full_replicas_are_left_out_unless_all_are():
    assert with_room([8, 3, 9], [8, 8, None]) == [1, 2]
    assert with_room([8, 8], [8, 8]) == [0, 1]
    full, free = ReplicaView(kv_usage=FULL), ReplicaView(kv_usage=0.5)
    assert with_memory([full, free], [0, 1]) == [1]
    assert with_memory([full, free], [0]) == [0]


@given(VIEWS, st.integers(0, 200_000))
def test_scores_are_in_0_to_1_and_one_of_those_left_is_chosen(views: list[ReplicaView], tokens: int):
    for scores in (score_session(views), score_prefix(views, tokens), score_idle(views), score_memory(views)):
        assert len(scores) == len(views)
        assert all(0 <= score <= 1 for score in scores)
    weighed = costs(views, reading_seconds(views, tokens), crowding=1.0, reuse=1.0)
    left = with_memory(views, range(len(views)))
    assert pick(weighed, views, left, tokens) in left


def test_crowding_grows_with_load_and_is_bounded_and_forgotten():
    light, heavy, flooded = Demand(), Demand(), Demand()
    for demand, work in ((light, 0.5), (heavy, 3.0), (flooded, 30.0)):
        for second in range(600):
            demand.age(float(second))
            demand.add("a", work)
    found = [demand.crowding(4) for demand in (light, heavy, flooded)]
    assert found == sorted(found)
    assert found[2] < 20 * 600
    heavy.age(600 + 20 * MEMORY_SECONDS)
    assert heavy.crowding(4) < 1e-6
    assert heavy.recent("a") < 1e-3
