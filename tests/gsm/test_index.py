"""The index of who holds what: as a plain set of prefixes would have it, within its bytes."""

import gc
import random
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.index import PrefixIndex, Shard
from backends.gsm.naming import Scope, name_groups

ROOT = Scope("m").root()
SEQUENCES = st.lists(st.integers(0, 2), max_size=8).map(lambda tokens: name_groups(tokens, 1, ROOT))


def named(*tokens: int) -> list[bytes]:
    return name_groups(tokens, 1, ROOT)


def prefix_in(held: set[bytes], names: Sequence[bytes]) -> int:
    return next((place for place, name in enumerate(names) if name not in held), len(names))


@given(st.lists(st.tuples(SEQUENCES, st.booleans()), max_size=80), SEQUENCES)
def test_with_room_enough_it_says_what_a_plain_set_of_prefixes_says(
    steps: list[tuple[list[bytes], bool]], asked: list[bytes]
) -> None:
    shard = Shard(1 << 24)
    sequences: list[list[bytes]] = []
    for names, taken_out in steps:
        if taken_out:
            shard.remove(names)
            if names:
                sequences = [
                    each[: each.index(names[-1])] if names[-1] in each else each for each in sequences
                ]
        else:
            assert shard.add(names, 0.0) == len(names)
            sequences.append(names)
        held = {name for each in sequences for name in each}
        assert len(shard) == len(held)
        assert shard.match(asked) == prefix_in(held, asked)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add"] * 6 + ["pin", "unpin", "remove", "wait"]), st.integers(0, 10**6)),
    max_size=120,
)


@given(STEPS, st.integers(8192, 12_000))
def test_it_never_takes_more_bytes_than_it_may_and_gives_up_nothing_pinned(
    steps: list[tuple[str, int]], max_bytes: int
) -> None:
    shard, now = Shard(max_bytes), 0.0
    pinned: list[list[bytes]] = []
    for what, seed in steps:
        chance = random.Random(seed % 500)
        names = named(
            *(chance.choice((1, 1, 1, 2)) for _ in range(chance.randint(0, 4))), *range(chance.randint(0, 70))
        )
        if what == "add":
            held = shard.add(names, now)
            assert held == shard.match(names) <= 64
        elif what == "pin":
            if shard.pin(names):
                pinned.append(names)
        elif what == "unpin" and pinned:
            shard.unpin(pinned.pop())
        elif what == "remove" and names and not any(names[-1] in each for each in pinned):
            shard.remove(names)
        elif what == "wait":
            now += 2.0
        assert shard.size <= shard.statistics.peak_bytes or what != "add"
        assert shard.size <= max_bytes
        assert all(shard.match(each) == len(each) for each in pinned)
    for names in pinned:
        shard.unpin(names)
    for start in range(60):
        shard.add(named(9, start), now + 10.0 + start)
    assert shard.match(named(9, 59)) == 2, "an index that was full takes in new groups all the same"


def test_the_bytes_it_counts_are_those_it_takes() -> None:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    shard = Shard(1 << 22)
    chance = random.Random(5)
    for number in range(1500):
        shard.add(
            named(7, number % 90, *(chance.randrange(9) for _ in range(chance.randrange(30)))), float(number)
        )
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.75 * shard.size < taken <= shard.size


def test_the_least_recently_used_goes_first_from_its_end() -> None:
    shard = Shard(12_000, min_ttl=0.0)
    shard.add(named(1, 2, 3), 0.0)
    shard.add(named(1, 2, 4), 1.0)
    number = 0
    while shard.match(named(1, 2, 3)) == 3:
        number += 1
        shard.add(named(100 + number), 1.0 + number)
    assert shard.match(named(1, 2, 3)) == 2
    assert shard.match(named(1, 2, 4)) == 3
    assert shard.statistics.evicted == {"bytes": 1, "engine": 0, "cleared": 0}


def test_what_was_used_just_now_makes_no_room() -> None:
    shard = Shard(9000)
    kept = [named(number, 1) for number in range(40) if shard.add(named(number, 1), 5.0)]
    assert 0 < len(kept) < 40
    assert shard.add(named(77), 6.9) == 0
    assert shard.statistics.refused["bytes"] > 0
    assert shard.add(named(77), 7.0) == 1


def test_no_more_of_a_sequence_is_held_than_it_may_have() -> None:
    shard = Shard(1 << 20, max_groups=3)
    assert shard.add(named(1, 2, 3, 4, 5), 0.0) == 3
    assert shard.statistics.refused["max_groups"] == 2


def test_it_counts_hits_by_the_unbroken_prefix() -> None:
    shard = Shard(1 << 20)
    shard.add(named(1, 2, 3), 0.0)
    assert shard.look_up(named(1, 2, 4, 5)) == 2
    assert shard.look_up([]) == 0
    assert (shard.statistics.asked, shard.statistics.hits) == (4, 2)
    assert shard.statistics.hit_rate == 0.5
    assert shard.statistics.reused_tokens(512) == 1024
    shard.clear()
    assert (len(shard), shard.match(named(1)), shard.statistics.evicted["cleared"]) == (0, 0, 3)


def test_each_replica_has_a_shard_of_its_own_and_an_equal_part_of_the_bytes() -> None:
    index = PrefixIndex(["a", "b"], 40_000, min_ttl=0.0)
    index["a"].add(named(1, 2), 0.0)
    assert index.match(named(1, 2, 3)) == {"a": 2, "b": 0}
    for number in range(500):
        index["b"].add(named(number), 1.0)
    assert index.match(named(1, 2)) == {"a": 2, "b": 1 if index["b"].match(named(1)) else 0}
    assert index["b"].size <= 20_000
    assert index.size <= 40_000


def test_a_bound_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="holds nothing; give each replica 8192 at least"):
        PrefixIndex(["a", "b"], 16_000)
