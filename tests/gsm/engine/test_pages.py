"""Which pages a tier holds, and in which order they go. The order itself is tested with the core."""

from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.engine.pages import PageOrder


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def hold(order: PageOrder, *chains: str) -> None:
    """Hold chains written as paths, one letter a page: `abc` is a, then b behind it, then c."""
    for chain in chains:
        for end in range(len(chain)):
            key = chain[: end + 1].encode()
            if key not in order:
                order.add(key, chain[:end].encode() or None)


def test_a_leaf_goes_before_its_parent() -> None:
    order = PageOrder(9, 0.0, Clock())
    hold(order, "abcd")

    assert order.evict(2) == [b"abcd", b"abc"]
    assert order.evict(9) == [b"ab", b"a"]


def test_what_was_used_a_moment_ago_stays() -> None:
    clock = Clock()
    order = PageOrder(9, 10.0, clock)
    hold(order, "ab")

    assert order.evict(2) == []
    clock.now += 10
    order.use([b"a"])
    assert order.evict(2) == [b"ab"]


def test_what_is_pinned_busy_or_protected_stays_until_it_is_not() -> None:
    order = PageOrder(9, 0.0, Clock())
    hold(order, "a", "b", "c", "d")
    order.pin([b"a", b"a", b"not held"])
    order.hold(b"b")

    assert order.evict(4, {b"c"}) == [b"d"]
    order.release(b"b")
    order.unpin([b"a", b"not held"])
    assert sorted(order.evict(4)) == [b"a", b"b", b"c"]


def test_a_page_that_is_being_written_stays_until_it_is_released() -> None:
    order = PageOrder(9, 0.0, Clock())
    order.add(b"a", None, busy=True)

    assert order.evict(1) == []
    order.release(b"a")
    order.release(b"a")
    assert order.evict(1) == [b"a"]


def test_pages_behind_one_that_was_lost_stay_as_busy_and_pinned_as_they_were() -> None:
    order = PageOrder(9, 0.0, Clock())
    hold(order, "abcd")
    order.pin([b"abcd"])
    order.hold(b"abc")
    order.discard(b"ab")
    order.discard(b"ab")

    assert sorted(order) == [b"a", b"abc", b"abcd"]
    assert order.evict(9) == [b"a"]
    order.unpin([b"abcd"])
    order.release(b"abc")
    assert order.evict(9) == [b"abcd", b"abc"]


def test_a_page_is_followed_while_a_page_behind_it_is_held() -> None:
    order = PageOrder(9, 0.0, Clock())
    hold(order, "ab", "ac")

    order.discard(b"ab")
    assert order.is_followed(b"a")
    assert order.evict(1) == [b"ac"]
    assert not order.is_followed(b"a")


def test_a_page_whose_parent_is_elsewhere_is_held_on_its_own() -> None:
    order = PageOrder(9, 0.0, Clock())
    order.add(b"ab", b"a")

    assert order.evict(1) == [b"ab"]


def test_nothing_is_left_of_what_was_cleared() -> None:
    order = PageOrder(9, 0.0, Clock())
    hold(order, "ab")
    order.pin([b"ab"])
    order.clear()
    hold(order, "ab")

    assert (len(order), order.pinned) == (2, 0)
    assert order.evict(2) == [b"ab", b"a"]


_PATHS = st.text("abc", min_size=1, max_size=5)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["add", "use", "pin", "unpin", "hold", "release"]), _PATHS),
            st.tuples(st.just("evict"), st.integers(1, 5)),
        ),
        max_size=60,
    )
)
def test_eviction_leaves_no_hole_and_takes_nothing_that_has_to_stay(
    steps: list[tuple[str, str | int]],
) -> None:
    clock = Clock()
    order = PageOrder(8, 3.0, clock)
    used: dict[bytes, float] = {}
    busy: set[bytes] = set()
    for what, value in steps:
        clock.now += 1
        if isinstance(value, int):
            held = set(order)
            gone = order.evict(value)
            assert len(gone) == len(set(gone)) == len(held) - len(set(order)) <= value
            assert not any(key in busy or order.is_pinned(key) for key in gone)
            assert all(used[key] <= clock.now - 3 for key in gone)
            assert all(key[:-1] in order for key in order if key[:-1])
            parents = {key[:-1] for key in order}
            may_go = [
                key
                for key in order
                if key not in parents | busy and not order.is_pinned(key) and used[key] <= clock.now - 3
            ]
            assert len(gone) == value or not may_go
            continue
        path = [value[: end + 1].encode() for end in range(len(value))]
        key = path[-1]
        if what == "add":
            used.update({each: clock.now for each in path if each not in order})
            hold(order, value)
        elif what == "use":
            order.use(path)
            used.update(dict.fromkeys(path, clock.now))
        elif what == "pin":
            order.pin([key])
        elif what == "unpin":
            order.unpin([key])
        elif what == "hold" and key in order and key not in busy:
            order.hold(key)
            busy.add(key)
        elif what == "release" and key in busy:
            order.release(key)
            busy.remove(key)
