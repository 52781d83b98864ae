"""Follows the KV events of the replicas that publish them, of those that come and go too."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from backends.fleet import Fleet, Member
from backends.placement.block_events import TrackedGroups
from backends.placement.event_reader import KvEventReader

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Between two looks at who is there; what was published until then is asked for again."""

RESTART_SECONDS: Final = 5.0
"""Before a reader that failed is started again."""


class EventFollowing:
    """Keeps what the replicas of a fleet hold as they publish it."""

    def __init__(self, fleet: Fleet, make_groups: Callable[[str], TrackedGroups]) -> None:
        """Prepare; nothing is connected yet.

        Args:
            fleet: Whose members are followed.
            make_groups: Returns what keeps the groups of a replica of a model: one that holds nothing.
        """
        self._fleet = fleet
        self._make_groups = make_groups

    async def keep_following(self) -> None:
        """Follow all, for ever; one that has left no more."""
        readers: dict[Member, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                here = {member: model for model, member in self._fleet.members() if member.replica.kv_events}
                for member in readers.keys() - here.keys():
                    readers.pop(member).cancel()
                for member in here.keys() - readers.keys():
                    reader = self._reader(here[member], member)
                    name = f"follow KV events of {member.replica.name}"
                    readers[member] = group.create_task(_keep_reading(reader, name), name=name)
                await asyncio.sleep(LOOK_SECONDS)

    def _reader(self, model: str, member: Member) -> KvEventReader:
        """Return what keeps the groups that a member holds from now on."""
        groups, standing = self._make_groups(model), member.standing
        standing.held, standing.kept_by_events = groups, True
        return KvEventReader(member.replica.kv_events or "", member.replica.kv_replay, groups)


async def _keep_reading(reader: KvEventReader, name: str) -> None:
    while True:
        try:
            await reader.follow()
        except Exception:
            log.exception("The job %r failed; it is started again in %g s", name, RESTART_SECONDS)
        await asyncio.sleep(RESTART_SECONDS)
