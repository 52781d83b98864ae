"""How much of the first group that differs is still worth loading."""

_UNQUANTISED = frozenset({"auto", "half", "float16", "bfloat16", "float", "float32"})


def rebuild_threshold(kv_dtype: str) -> float:
    """Return which share of a group may have changed before it is rebuilt whole.

    It is lower where the KV cache is quantised, for there a group's scales were chosen for all of its tokens.
    """
    return 0.3 if kv_dtype in _UNQUANTISED else 0.2


def reusable_head(equal_tokens: int, *, group_size: int, block_size: int, threshold: float) -> int:
    """Return how many tokens at the head of a group are reused though its tail has changed.

    Args:
        equal_tokens: Tokens at its head that have not changed, in [0, group_size].
        group_size: Tokens a group, a multiple of `block_size`.
        block_size: Tokens a block of the engine, which loads whole blocks only.
        threshold: The share of the group, in [0, 1], of which no more may have changed.

    Returns:
        A multiple of `block_size`; 0 when the group is to be rebuilt.

    Raises:
        ValueError: The sizes do not go together.
    """
    if block_size < 1 or group_size % block_size:
        raise ValueError(
            f"group_size {group_size} is not a multiple of the engine's block of {block_size} tokens"
        )
    if not 0 <= equal_tokens <= group_size:
        raise ValueError(f"{equal_tokens} tokens cannot be equal in a group of {group_size}")
    changed = group_size - equal_tokens
    return 0 if changed > threshold * group_size else equal_tokens - equal_tokens % block_size
