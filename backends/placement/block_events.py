"""vLLM's KV events, and which groups of ours an engine holds by them.

An engine names blocks of its own size in its own way, and tells the tokens of each. Groups are longer: the
tokens of a chain of blocks are gathered, and each group that becomes whole is named as everywhere.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from backends.gsm.naming import name_groups

BlockHash = int | bytes

MOST_BLOCKS = 1_000_000
"""Blocks of an engine of which is known what they hold; the oldest are forgotten."""


class BlockStored(msgspec.Struct, tag=True, kw_only=True):
    """Blocks that were stored; fields as in vLLM's `distributed/kv_events.py`."""

    block_hashes: list[BlockHash]
    token_ids: list[int]
    block_size: int
    parent_block_hash: BlockHash | None = None
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None


class BlockRemoved(msgspec.Struct, tag=True, kw_only=True):
    """Blocks that were given up."""

    block_hashes: list[BlockHash]
    medium: str | None = None
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True):
    """The whole cache was emptied."""


Event = BlockStored | BlockRemoved | AllBlocksCleared


class _Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[Event]
    data_parallel_rank: int | None = None


_decoder = msgspec.msgpack.Decoder(_Batch)


def read_events(payload: bytes) -> list[Event]:
    """Read a batch as vLLM publishes it.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return _decoder.decode(payload).events


class _Block(NamedTuple):
    """A block: the group that its tokens belong to.

    Attributes:
        group: The name of the group that it ends, None when it ends none.
        parent: The name of the group before.
        tail: Tokens from the end of that group to the end of the block; none when it ends a group.
        places: Where it is stored: medium and group of layers.
    """

    group: bytes | None
    parent: bytes
    tail: tuple[int, ...]
    places: frozenset[tuple[str | None, int | None]]


class TrackedGroups:
    """The groups of one engine by its events; see `HeldGroups`."""

    def __init__(self, group_tokens: int, root_of: Callable[[str], bytes]) -> None:
        """Know of none.

        Args:
            group_tokens: Tokens a group; a multiple of the engine's block.
            root_of: Gives the name before the first group of the prompts with a salt, which may be empty.
        """
        self._group_tokens = group_tokens
        self._root_of = root_of
        self._blocks: OrderedDict[BlockHash, _Block] = OrderedDict()
        self._groups: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Return how many groups are held."""
        return len(self._groups)

    def longest(self, names: Sequence[object], now: float, guess: int = 0) -> int:  # noqa: ARG002 - events do not age
        """See `HeldGroups`."""
        for count, name in enumerate(names):
            if name not in self._groups:
                return count
        return len(names)

    def sent(self, names: Sequence[object], now: float) -> None:
        """Do nothing: the engine tells what it stored."""

    def clear(self) -> None:
        """See `HeldGroups`."""
        self._blocks.clear()
        self._groups.clear()

    def apply(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case BlockStored():
                self._store(event)
            case BlockRemoved():
                for block in event.block_hashes:
                    self._remove(block, (event.medium, event.group_idx))
            case AllBlocksCleared():
                self.clear()

    def _store(self, event: BlockStored) -> None:
        if event.lora_name is not None or event.lora_id is not None:
            return  # no request of ours asks for an adapter
        if "window" in (event.kv_cache_spec_kind or ""):
            return  # layers that see but the last tokens say nothing of a whole prefix
        start = self._start(event)
        if start is None:
            return
        parent, tail = start
        place = (event.medium, event.group_idx)
        for index, block in enumerate(event.block_hashes):
            if index and event.extra_keys and any(event.extra_keys[index] or ()):
                return  # from here on it is made of more than tokens
            tokens = event.token_ids[index * event.block_size : (index + 1) * event.block_size]
            tail = (*tail, *tokens)
            group: bytes | None = None
            if len(tail) == self._group_tokens:
                group = parent = name_groups(tail, self._group_tokens, parent)[0]
                tail = ()
            self._keep(block, group, parent, tail, place)

    def _start(self, event: BlockStored) -> tuple[bytes, tuple[int, ...]] | None:
        """Return the group before the first block, and the tokens since; None when they are not known."""
        if self._group_tokens % event.block_size:
            return None
        if event.parent_block_hash is not None:
            before = self._blocks.get(event.parent_block_hash)
            return None if before is None else (before.parent, before.tail)
        extra = (event.extra_keys[0] if event.extra_keys else None) or []
        if len(extra) > 1 or not all(isinstance(key, str) for key in extra):
            return None
        return self._root_of(extra[0] if extra else ""), ()

    def _keep(
        self,
        block: BlockHash,
        group: bytes | None,
        parent: bytes,
        tail: tuple[int, ...],
        place: tuple[str | None, int | None],
    ) -> None:
        known = self._blocks.get(block)
        places = frozenset({place}) if known is None else known.places | {place}
        self._blocks[block] = _Block(group, parent, tail, places)
        if known is None and group is not None:
            self._groups[group] = self._groups.get(group, 0) + 1
        if len(self._blocks) > MOST_BLOCKS:
            self._forget(next(iter(self._blocks)))

    def _remove(self, block: BlockHash, place: tuple[str | None, int | None]) -> None:
        known = self._blocks.get(block)
        if known is None:
            return
        left = known.places - {place}
        if left:
            self._blocks[block] = known._replace(places=left)
        else:
            self._forget(block)

    def _forget(self, block: BlockHash) -> None:
        known = self._blocks.pop(block)
        if known.group is None:
            return
        self._groups[known.group] -= 1
        if not self._groups[known.group]:
            del self._groups[known.group]
