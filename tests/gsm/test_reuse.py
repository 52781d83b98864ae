"""How much of a group that differs is loaded all the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gsm.reuse import rebuild_threshold, reusable_head


def test_a_group_is_rebuilt_sooner_where_its_values_are_quantised() -> None:
    assert rebuild_threshold("auto") == rebuild_threshold("bfloat16") == 0.3
    assert rebuild_threshold("fp8_e4m3") == rebuild_threshold("int8_per_token_head") == 0.2


@pytest.mark.parametrize(
    ("equal", "threshold", "tokens"),
    [
        (512, 0.3, 512),
        (511, 0.3, 496),
        (359, 0.3, 352),
        (358, 0.3, 0),
        (410, 0.2, 400),
        (409, 0.2, 0),
        (0, 1.0, 0),
    ],
)
def test_the_head_is_reused_in_whole_blocks_unless_too_much_has_changed(
    equal: int, threshold: float, tokens: int
) -> None:
    assert reusable_head(equal, group_size=512, block_size=16, threshold=threshold) == tokens


@given(st.integers(1, 8), st.integers(1, 8), st.floats(0, 1), st.data())
def test_never_more_is_reused_than_is_equal(
    block: int, blocks: int, threshold: float, data: st.DataObject
) -> None:
    equal = data.draw(st.integers(0, block * blocks))
    tokens = reusable_head(equal, group_size=block * blocks, block_size=block, threshold=threshold)
    assert tokens <= equal
    assert tokens % block == 0
    assert tokens > equal - block or block * blocks - equal > threshold * block * blocks


def test_sizes_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple of the engine's block of 128 tokens"):
        reusable_head(0, group_size=500, block_size=128, threshold=0.3)
    with pytest.raises(ValueError, match="cannot be equal"):
        reusable_head(513, group_size=512, block_size=16, threshold=0.3)
