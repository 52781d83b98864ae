"""Prefixes that nobody registered, found by what requests begin with.

A system prompt that comes again and again is worth as much beforehand as a registered one: a replica that
starts, or has lost it, gets it before the next request. Texts are held in memory only, and only while hot.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import msgspec
from msgspec import Raw

from gateway.requests.chat import SYSTEM_ROLES
from gateway.requests.protocol import ClientRequest
from gateway.thinking.wishes import WORDS
from policies.types import Prefix

MARK = "~"
"""How names of found prefixes begin; no registered one can."""

LEAST_CHARACTERS = 2000
"""Of a system prompt that is worth it: about a group of tokens."""

LONGEST_CHARACTERS = 400_000

HOT_REQUESTS = 10.0
"""Requests, each worth half after `HALF_LIFE`, from which on a beginning is hot, until it is below one."""

HALF_LIFE = 600.0
"""Seconds."""

MOST_HOT = 4
"""Of one tenant."""

MOST_TALLIES = 4096
"""Beginnings that are counted; the one that was not seen for longest is forgotten."""

SWITCHES = ("tools", *sorted(WORDS))
"""What else stands at the head of a prompt, or may."""


@dataclass(slots=True)
class _Tally:
    count: float = 0.0
    last: float = 0.0
    models: set[str] = field(default_factory=set[str])

    def at(self, now: float) -> float:
        return self.count * 0.5 ** ((now - self.last) / HALF_LIFE)


class HotPrefixes:
    """What the requests of each tenant begin with, lately.

    Attributes:
        version: Another number when `of` returns something else.
    """

    def __init__(self) -> None:
        self.version = 0
        self._tallies: OrderedDict[tuple[str, int], _Tally] = OrderedDict()
        self._hot: dict[tuple[str, int], Prefix] = {}

    def saw(self, tenant: str, model: str, request: ClientRequest, now: float) -> None:
        """Count a request that was answered; `now` is monotonic seconds."""
        count = _system_messages(request)
        texts = [message.text() for message in request.messages[:count]]
        if not LEAST_CHARACTERS <= sum(map(len, texts)) <= LONGEST_CHARACTERS:
            return
        switches = [bytes(request.fields[name]) for name in SWITCHES if name in request.fields]
        key = (tenant, hash((*switches, *texts)))  # of one process; ten times as fast as a digest
        tally = self._tallies.setdefault(key, _Tally())
        self._tallies.move_to_end(key)
        tally.count, tally.last = tally.at(now) + 1.0, now
        known_models = len(tally.models)
        tally.models.add(model)
        if key in self._hot:
            self.version += len(tally.models) != known_models
        elif tally.count >= HOT_REQUESTS and self._has_room(tenant, tally.count, now):
            self._hot[key] = _beginning(request, count)
            self.version += 1
        if len(self._tallies) > MOST_TALLIES:
            self._drop(next(iter(self._tallies)))

    def age(self, now: float) -> None:
        """Forget what is no longer hot."""
        for key in [key for key in self._hot if self._tallies[key].at(now) < 1.0]:
            self._drop(key)

    def of(self, tenant: str) -> tuple[Prefix, ...]:
        """Return what is hot of a tenant."""
        return tuple(
            replace(prefix, models=frozenset(self._tallies[key].models))
            for key, prefix in self._hot.items()
            if key[0] == tenant
        )

    def _has_room(self, tenant: str, count: float, now: float) -> bool:
        """Make room for a beginning, unless all that are hot are hotter."""
        hot = [(self._tallies[key].at(now), key) for key in self._hot if key[0] == tenant]
        if len(hot) < MOST_HOT:
            return True
        least, key = min(hot)
        if least < count / 2:  # else two that are about as hot would take turns
            del self._hot[key]
            return True
        return False

    def _drop(self, key: tuple[str, int]) -> None:
        del self._tallies[key]
        if self._hot.pop(key, None) is not None:
            self.version += 1


def _system_messages(request: ClientRequest) -> int:
    """Count the system messages before the first other one."""
    for index, message in enumerate(request.messages):
        if message.role not in SYSTEM_ROLES:
            return index
    return len(request.messages)


def _beginning(request: ClientRequest, count: int) -> Prefix:
    """Return what a request begins with, by a name that other processes give it, too."""
    fields = {name: request.fields[name] for name in SWITCHES if name in request.fields}
    messages = msgspec.json.decode(request.fields["messages"], type=list[Raw])[:count]
    body = msgspec.json.encode({**fields, "messages": messages})
    return Prefix(MARK + blake2b(body, digest_size=6).hexdigest(), body)
