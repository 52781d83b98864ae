"""The order of eviction: leaves first, nothing pinned, plain LRU until it knows better."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.errors import GroupUnknown
from backends.gsm.order import EvictionOrder
from backends.gsm.simulation import simulate
from tests.gsm.conversations import conversations

Path = tuple[int, ...]
# A group is named by the path to it, so that equal names stand for equal prefixes.
PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=5).map(
    lambda steps: [tuple(steps[:n]) for n in range(1, len(steps) + 1)]
)


class Owner:
    """Who owns the bytes: stores requests in a room of a few groups, and checks what must always hold."""

    def __init__(self, room: int, *, believed: int | None = None) -> None:
        self.room = room
        self.order: EvictionOrder[Path] = EvictionOrder(believed or room)
        self.held: set[Path] = set()
        self.pinned: list[Path] = []

    def serve(self, names: Sequence[Path]) -> list[Path]:
        missing = [name for name in names if name not in self.held]
        evicted: list[Path] = []
        for name in missing:
            if len(self.held) >= self.room:
                gone = self.order.evict(1, set(names), 0.0)
                if gone is None:
                    break
                evicted += gone
                self.held -= set(gone)
            self.order.insert(name, name[:-1] or None, 0.0)
            self.held.add(name)
        self.order.use(names, 0.0)
        self.check()
        return evicted

    def check(self) -> None:
        assert len(self.order) == len(self.held) <= self.room
        assert all(name in self.order for name in self.held)
        assert all(name[:-1] in self.held for name in self.held if len(name) > 1), "a hole"
        assert set(self.pinned) <= self.held


class PlainLru:
    """The model: all groups in a list, the least recently used first; a scan for the first leaf."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.held: list[Path] = []

    def serve(self, names: Sequence[Path]) -> list[Path]:
        evicted: list[Path] = []
        for name in names:
            if name in self.held:
                continue
            if len(self.held) >= self.room:
                leaves = [
                    each
                    for each in self.held
                    if each not in names and not any(other[:-1] == each for other in self.held)
                ]
                if not leaves:
                    break
                evicted.append(leaves[0])
                self.held.remove(leaves[0])
            self.held.append(name)
        for name in reversed(names):
            if name in self.held:
                self.held.remove(name)
                self.held.append(name)
        return evicted


@given(st.lists(PATHS, max_size=60), st.integers(1, 12))
def test_an_order_that_has_learned_nothing_is_lru(requests: list[list[Path]], room: int) -> None:
    # With room for all that it has seen, as it believes, there is nothing to be learned.
    owner, model = Owner(room, believed=1000), PlainLru(room)
    for names in requests:
        assert owner.serve(names) == model.serve(names)


@given(
    st.lists(
        st.tuples(PATHS, st.sampled_from(["use", "use", "pin", "unpin", "remove", "evict"])), max_size=150
    ),
    st.integers(1, 12),
)
def test_there_is_never_a_hole_and_nothing_pinned_is_evicted(
    steps: list[tuple[list[Path], str]], room: int
) -> None:
    owner = Owner(room)
    for names, what in steps:
        name = names[-1]
        if what == "use":
            owner.serve(names)
        elif what == "pin" and name in owner.held:
            owner.order.pin(name)
            owner.pinned.append(name)
        elif what == "unpin" and name in owner.pinned:
            owner.order.unpin(name)
            owner.pinned.remove(name)
        elif what == "remove":
            gone = owner.order.remove(name)
            assert set(gone) == {each for each in owner.held if each[: len(name)] == name}
            owner.held -= set(gone)
            owner.pinned = [each for each in owner.pinned if each not in gone]
        elif what == "evict":
            before = set(owner.held)
            gone = owner.order.evict(3, {name}, 0.0)
            assert gone is None or (len(set(gone)) == 3 and name not in gone)
            owner.held -= set(gone or ())
            assert before >= owner.held
        owner.check()


@given(st.lists(PATHS, min_size=1, max_size=30))
def test_what_cannot_be_evicted_whole_leaves_all_as_it_was(requests: list[list[Path]]) -> None:
    one, other = Owner(20), Owner(20)
    for names in requests:
        one.serve(names)
        other.serve(names)
    assert one.order.evict(len(one.held) + 1, (), 0.0) is None
    one.check()
    assert one.order.evict(len(one.held), (), 0.0) == other.order.evict(len(one.held), (), 0.0)
    assert len(one.order) == 0


def test_a_group_stays_for_its_least_time_after_use_and_goes_after_it() -> None:
    order: EvictionOrder[str] = EvictionOrder(1, min_ttl=2.0)
    order.insert("a", None, 10.0)
    order.use(["a"], 11.0)
    assert order.evict(1, (), 12.9) is None
    assert order.evict(1, (), 13.0) == ["a"]


def test_a_group_is_pinned_until_every_pin_is_gone() -> None:
    order: EvictionOrder[str] = EvictionOrder(1)
    order.insert("a", None, 0.0)
    order.pin("a")
    order.pin("a")
    order.unpin("a")
    assert order.evict(1, (), 0.0) is None
    order.unpin("a")
    assert order.evict(1, (), 0.0) == ["a"]
    order.unpin("a")


def test_a_group_behind_a_hole_is_refused() -> None:
    order: EvictionOrder[str] = EvictionOrder(1)
    with pytest.raises(GroupUnknown, match="'a' is not held"):
        order.insert("b", "a", 0.0)
    with pytest.raises(GroupUnknown, match="'b' is not held"):
        order.pin("b")


def test_a_group_is_not_held_twice() -> None:
    order: EvictionOrder[str] = EvictionOrder(1)
    order.insert("a", None, 0.0)
    with pytest.raises(ValueError, match="'a' is held"):
        order.insert("a", None, 0.0)


def test_what_it_remembers_stays_bounded() -> None:
    order: EvictionOrder[int] = EvictionOrder(10)
    for name in range(30_000):
        if len(order) == 10:
            assert order.evict(1, (), 0.0) is not None
        order.insert(name, None, 0.0)
        order.use([name], 0.0)
    assert order.remembered <= 10 * (4 + 1) + 8192


@pytest.mark.parametrize("seed", [1, 2])
def test_on_conversations_it_hits_far_more_than_lru_where_room_is_short_and_no_less_where_it_is_not(
    seed: int,
) -> None:
    trace = conversations(seed, 1500)
    for capacity, factor in ((250, 1.05), (1000, 1.05), (100_000, 1.0)):
        gsm = simulate(trace, capacity=capacity, policy="gsm").hit_rate
        lru = simulate(trace, capacity=capacity, policy="lru").hit_rate
        best = simulate(trace, capacity=capacity, policy="belady").hit_rate
        assert lru * factor <= gsm <= best
