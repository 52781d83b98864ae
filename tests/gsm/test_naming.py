"""Names of groups: equal for equal prefixes in equal scopes, and for nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.naming import NAME_BYTES, Scope, name_groups

TOKENS = st.lists(st.integers(0, 3), max_size=24)
WORDS = st.sampled_from(["", "a", "ab", "b", "全"])
SCOPES = st.builds(Scope, model=WORDS, revision=WORDS, kv_dtype=WORDS, lora=WORDS, salt=WORDS)


@given(TOKENS, TOKENS, st.integers(1, 5))
def test_two_names_are_equal_exactly_where_all_tokens_up_to_there_are(
    one: list[int], other: list[int], size: int
) -> None:
    root = Scope("m").root()
    for place, (a, b) in enumerate(
        zip(name_groups(one, size, root), name_groups(other, size, root), strict=False), 1
    ):
        assert (a == b) == (one[: place * size] == other[: place * size])


@given(TOKENS, st.integers(1, 5))
def test_one_sequence_never_has_a_name_twice_even_where_its_tokens_repeat(
    tokens: list[int], size: int
) -> None:
    names = name_groups(tokens, size, Scope("m").root())
    assert len(set(names)) == len(names) == len(tokens) // size


@given(SCOPES, SCOPES)
def test_scopes_share_names_only_when_all_their_fields_are_equal(one: Scope, other: Scope) -> None:
    assert (one.root() == other.root()) == (one == other)


@given(TOKENS, st.integers(1, 5), st.integers(0, 4))
def test_naming_may_go_on_where_it_stopped(tokens: list[int], size: int, cut: int) -> None:
    root = Scope("m").root()
    whole = name_groups(tokens, size, root)
    head = name_groups(tokens[: cut * size], size, root)
    assert head + name_groups(tokens[cut * size :], size, head[-1] if head else root) == whole


def test_a_name_is_the_same_on_every_machine_and_for_ever() -> None:
    names = name_groups([1, 2, 3, 70_000], 2, Scope("m", "r", "fp8", "l", "s").root())
    assert [name.hex() for name in names] == [
        "90d91490aea9a7b2a50a4b57cb1b32ff",
        "f8595700fae537542bd4276c6a23312f",
    ]
    assert {len(name) for name in names} == {NAME_BYTES}


@pytest.mark.parametrize("token", [-1, 2**32, 1.5, "x"])
def test_a_token_that_is_none_is_refused(token: Any) -> None:
    with pytest.raises(ValueError, match=r"not an integer in \[0, 2\^32\)"):
        name_groups([token], 1, Scope("m").root())


def test_a_group_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        name_groups([1], 0, Scope("m").root())
