"""What an engine tells over ZeroMQ is what the index holds: stored, removed, cleared, missed, begun anew."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
import zmq
import zmq.asyncio

from backends.gsm.naming import name_groups
from backends.placement.block_events import TrackedGroups, read_events
from backends.placement.event_reader import KvEventReader
from backends.placement.naming import root_of
from tests.fakes.kv_events import CLEARED, Event, KvPublisher, at_work, batch, removed, stored
from tests.support.waiting import until

GROUP = 8
RECORDED = bytes.fromhex(
    "93cb0000000000000000928ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392c40161c40162b1"
    "706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473980001020304050607aa626c6f636b5f73697a6504a7"
    "6c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b6579739291a461636d65c0a9"
    "67726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e84a474797065"
    "ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391c40162a66d656469756da3475055a967726f75705f6964"
    "780000"
)
"""A batch as vLLM 0.32 writes it (`KVEventBatch` of its `distributed/kv_events.py`, by its encoder).

Tokens 0 to 7 stored as the blocks b"a" and b"b" with the salt "acme" on the GPU, then b"b" removed.
"""


def tracked() -> TrackedGroups:
    return TrackedGroups(GROUP, lambda salt: root_of("m", salt))


def holds(groups: TrackedGroups, tokens: Sequence[int], salt: str = "") -> int:
    return groups.longest(name_groups(tokens, GROUP, root_of("m", salt)), 0.0)


def after(*events: Event) -> TrackedGroups:
    groups = tracked()
    for event in read_events(batch(*events)):
        groups.apply(event)
    return groups


def test_what_vllm_writes_is_read():
    groups = tracked()
    first, second = read_events(RECORDED)
    groups.apply(first)
    assert holds(groups, range(8), "acme") == 1
    assert holds(groups, range(8)) == 0
    groups.apply(second)
    assert holds(groups, range(8), "acme") == 0


def test_groups_are_made_of_blocks_that_come_one_by_one():
    groups = after(stored([b"a"], range(4)), stored([b"b", b"c", b"d"], range(4, 16), b"a"))
    assert holds(groups, range(20)) == 2


def test_blocks_behind_one_that_is_not_known_count_for_nothing():
    assert len(after(stored([b"b", b"c"], range(8), b"missed"))) == 0


def test_a_block_that_is_on_the_host_too_is_held_until_it_is_gone_from_both():
    on_host = stored([b"a", b"b"], range(8)) | {"medium": "CPU"}
    both = [stored([b"a", b"b"], range(8)), on_host, removed(b"b")]
    assert holds(after(*both), range(8)) == 1
    assert holds(after(*both, removed(b"b", medium="CPU")), range(8)) == 0


@pytest.mark.parametrize(
    "more",
    [{"lora_name": "x"}, {"kv_cache_spec_kind": "sliding_window"}, {"extra_keys": [["salt", 7], None]}],
)
def test_what_is_made_of_more_than_tokens_and_a_salt_is_not_counted(more: Event):
    assert len(after(stored([b"a", b"b"], range(8), **more))) == 0


def test_nothing_is_held_of_a_cache_that_was_emptied():
    assert len(after(stored([b"a", b"b"], range(8)), CLEARED)) == 0


@asynccontextmanager
async def publishing(
    *before: Event, replay: bool = True
) -> AsyncGenerator[tuple[KvPublisher, TrackedGroups]]:
    """Run a publisher that has published some events before, and a reader that follows it."""
    context, groups = zmq.asyncio.Context(), tracked()
    publisher = KvPublisher(context)
    for event in before:
        await publisher.publish(event, lost=True)
    reader = KvEventReader(publisher.address, publisher.replay if replay else None, groups)
    async with at_work(context, publisher.serve_replay(), reader.follow()):
        await publisher.subscribed()
        yield publisher, groups


async def test_what_was_published_before_anyone_listened_is_asked_for():
    async with publishing(stored([b"a", b"b"], range(8))) as (_, groups):
        await until(lambda: holds(groups, range(8)) == 1, "the replay")


async def test_events_are_followed_and_one_that_was_lost_is_asked_for():
    async with publishing() as (publisher, groups):
        await publisher.publish(stored([b"a"], range(4)))
        await publisher.publish(stored([b"b"], range(4, 8), b"a"), lost=True)
        await publisher.publish(stored([b"c", b"d"], range(8, 16), b"b"))
        await until(lambda: holds(groups, range(16)) == 2, "all events")


async def test_after_a_loss_that_cannot_be_made_good_nothing_is_held_but_what_comes_then():
    async with publishing(replay=False) as (publisher, groups):
        await publisher.publish(stored([b"a", b"b"], range(8)))
        await until(lambda: holds(groups, range(8)) == 1, "the first event")
        await publisher.publish(removed(b"b"), lost=True)
        await publisher.publish(stored([b"x", b"y"], range(50, 58)))
        await until(lambda: holds(groups, range(50, 58)) == 1, "the last event")
        assert holds(groups, range(8)) == 0


async def test_an_engine_that_begins_anew_holds_nothing_of_before():
    async with publishing() as (publisher, groups):
        for _ in range(3):
            await publisher.publish(stored([b"a", b"b"], range(8)))
        await until(lambda: holds(groups, range(8)) == 1, "the first life")
        publisher.sent.clear()
        await publisher.publish(stored([b"x", b"y"], range(50, 58)))
        await until(lambda: holds(groups, range(50, 58)) == 1, "the second life")
        assert holds(groups, range(8)) == 0
