"""The order in which pages go."""

from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.engine.order import PageOrder


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def order_of(clock: Clock, *chains: str, min_ttl: float = 0.0, pages_a_group: int = 4) -> PageOrder:
    """Hold chains written as paths, one letter a page: `abc` is a, then b behind it, then c."""
    order = PageOrder(min_ttl, clock)
    for chain in chains:
        for place in range(len(chain)):
            key = chain[: place + 1].encode()
            if key not in order:
                clock.now += 1
                order.add(key, chain[:place].encode() or None, place // pages_a_group)
    return order


def test_a_leaf_goes_before_its_parent() -> None:
    order = order_of(Clock(), "abcd", pages_a_group=1)

    assert order.evict(2) == [b"abcd", b"abc"]


def test_the_least_recently_used_branch_goes_first() -> None:
    clock = Clock()
    order = order_of(clock, "ab", "ac", pages_a_group=1)
    clock.now += 1
    order.touch([b"a", b"ab"])

    assert order.evict(1) == [b"ac"]


def test_a_group_that_is_cut_into_goes_whole() -> None:
    order = order_of(Clock(), "abcdefgh", pages_a_group=4)

    assert order.evict(1) == [b"abcdefgh", b"abcdefg", b"abcdef", b"abcde"]


def test_the_head_that_another_group_shares_stays() -> None:
    order = order_of(Clock(), "abcd", "abxy", pages_a_group=4)

    assert order.evict(1) == [b"abcd", b"abc"]


def test_what_was_used_a_moment_ago_stays() -> None:
    clock = Clock()
    order = order_of(clock, "ab", min_ttl=10.0)

    assert order.evict(1) == []
    clock.now += 10
    assert order.evict(1) == [b"ab", b"a"]


def test_what_is_pinned_busy_or_protected_stays_until_it_is_not() -> None:
    order = order_of(Clock(), "a", "b", "c", "d")
    order.pin([b"a"])
    order.hold(b"b")

    assert order.evict(4, {b"c"}) == [b"d"]
    order.release(b"b")
    order.unpin([b"a"])
    assert order.evict(4) == [b"a", b"b", b"c"]


def test_a_pin_holds_for_a_page_that_comes_later() -> None:
    order = PageOrder(0.0, Clock())
    order.pin([b"a"])
    order.add(b"a", None, 0)

    assert order.evict(1) == []


def test_a_page_that_comes_back_before_its_parent_is_still_its_child() -> None:
    order = PageOrder(0.0, Clock())
    order.add(b"ab", b"a", 0)
    order.add(b"a", None, 0)

    assert order.evict(1) == [b"ab", b"a"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.text("abc", min_size=1, max_size=6)),
            st.tuples(st.just("touch"), st.text("abc", min_size=1, max_size=6)),
            st.tuples(st.just("pin"), st.text("abc", min_size=1, max_size=4)),
            st.tuples(st.just("unpin"), st.text("abc", min_size=1, max_size=4)),
            st.tuples(st.just("hold"), st.text("abc", min_size=1, max_size=4)),
            st.tuples(st.just("evict"), st.integers(1, 5)),
        ),
        max_size=60,
    )
)
def test_eviction_leaves_no_hole_and_takes_nothing_that_has_to_stay(
    steps: list[tuple[str, str | int]],
) -> None:
    clock = Clock()
    order = PageOrder(3.0, clock)
    used: dict[bytes, float] = {}
    busy: set[bytes] = set()
    for what, value in steps:
        clock.now += 1
        if isinstance(value, int):
            held = set(order)
            gone = order.evict(value)
            assert len(gone) == len(set(gone)) == len(held) - len(set(order))
            assert not set(gone) & (busy | order.pinned)
            assert all(used[key] <= clock.now - 3 for key in gone)
            assert all(key[:-1] in order for key in order if key[:-1])
            # Nothing was spared that could have gone.
            leaves = {key for key in order if not any(other[:-1] == key for other in order)}
            spare = {key for key in leaves - busy - order.pinned if used[key] <= clock.now - 3}
            assert len(gone) >= value or not spare
            continue
        path = [value[: end + 1].encode() for end in range(len(value))]
        if what == "add":
            for place, key in enumerate(path):
                if key not in order:
                    order.add(key, key[:-1] or None, place // 2)
                    used[key] = clock.now
        elif what == "touch":
            order.touch(path)
            used.update(dict.fromkeys(path, clock.now))
        elif what == "pin":
            order.pin(path)
        elif what == "unpin":
            order.unpin(path)
        elif path[-1] in order and path[-1] not in busy:
            order.hold(path[-1])
            busy.add(path[-1])
