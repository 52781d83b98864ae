"""The KV events of replicas that are found are followed, each at its own address, until it leaves."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import zmq.asyncio

from backends.fleet import Fleet, Member
from backends.gsm.naming import name_groups
from backends.placement.block_events import TrackedGroups
from backends.placement.naming import root_of
from backends.pools.event_following import EventFollowing
from backends.pools.membership import Membership
from backends.types import Discovery, Pool, Replica, ReplicaKind
from tests.fakes.backend import FakeBackend
from tests.fakes.kv_events import BLOCK, CLEARED, KvPublisher, at_work, stored
from tests.support.waiting import until

GROUP = 2 * BLOCK
TEMPLATE = Replica("flash/main/0", ReplicaKind.OPENAI, "http://engines.llm:8000", "m")
URL = "http://127.0.0.1:8000"


class Told:
    """A source that says what a test says."""

    def __init__(self) -> None:
        self.urls = frozenset({URL})

    async def addresses(self) -> frozenset[str]:
        return self.urls


class Scene:
    """A pool whose replicas are found, and what they publish."""

    def __init__(self, template: Replica) -> None:
        self.source = Told()
        pool = Pool("main", "any", (), discoveries=(Discovery("dns", template),))
        self.fleet = Fleet({"flash": (pool,)}, monotonic=lambda: 0.0, make=self._make)
        self.membership = Membership(self.fleet, make=lambda _: self.source)
        self.following = EventFollowing(
            self.fleet, lambda model: TrackedGroups(GROUP, lambda salt: root_of("m", salt))
        )

    def _make(self, *_: object) -> FakeBackend:
        return FakeBackend()

    async def found(self, *urls: str) -> list[Member]:
        self.source.urls = frozenset(urls)
        await self.membership.look()
        return self.fleet.members_of("flash")


def holds(member: Member, tokens: range) -> int:
    return member.standing.held.longest(name_groups(tokens, GROUP, root_of("m", "")), 0.0)


@asynccontextmanager
async def following() -> AsyncGenerator[tuple[KvPublisher, Scene]]:
    """Run a publisher at the address that will be found, and what follows members."""
    context = zmq.asyncio.Context()
    publisher = KvPublisher(context)
    events, again = (
        address.replace("127.0.0.1", "engines.llm") for address in (publisher.address, publisher.replay)
    )
    scene = Scene(replace(TEMPLATE, kv_events=events, kv_replay=again))
    async with at_work(context, publisher.serve_replay(), scene.following.keep_following()):
        yield publisher, scene


async def test_what_a_replica_that_was_found_publishes_is_what_it_holds():
    async with following() as (publisher, scene):
        await publisher.publish(stored([b"a", b"b"], range(8)), lost=True)
        (member,) = await scene.found(URL)
        await until(lambda: holds(member, range(8)) == 1, "what was published before it was found")
        await publisher.publish(CLEARED)
        await until(lambda: holds(member, range(8)) == 0, "an event of now")


async def test_one_that_has_left_is_not_followed_and_one_that_comes_back_is_another():
    async with following() as (publisher, scene):
        await scene.found(URL)
        assert await publisher.heard_of() == "subscribed"
        assert not await scene.found()
        assert await publisher.heard_of() == "left"
        await publisher.publish(stored([b"a", b"b"], range(8)), lost=True)
        (member,) = await scene.found(URL)
        await until(lambda: holds(member, range(8)) == 1, "the one that came back")
