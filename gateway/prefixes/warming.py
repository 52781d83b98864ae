"""Computes the prefixes of tenants on every replica, before traffic and whenever one has lost them.

One job owns it. For each replica that has something to be looked at it runs one task, which asks for one
token of one prefix after another. The answer's own count of cached tokens says whether the prefix was there.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from backends.errors import BackendError, BackendOverloaded
from backends.fleet import Fleet, Member
from backends.types import CHAT_PATH, EngineFlavour, ReplicaKind, Usage
from gateway.clock import Clock
from gateway.errors import BodyInvalid
from gateway.prefixes.asking import Asker
from gateway.prefixes.entry import ASKED, CHANGED, EVICTED, HOT, LONGEST_CHECK, RESTART, START, Entry
from gateway.prefixes.hot import MARK, HotPrefixes
from gateway.prefixes.shared import AWAY, Residency, Row, SharedPrefixes
from gateway.prefixes.warm_up import Beginning, WarmUp, beginning_of, warm_up_for
from gateway.requests.protocol import ClientRequest
from gateway.salts import Salts
from policies.types import ModelTable, Prefix, Tenant

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
"""Between two looks for what is due."""

BEFORE_TRAFFIC_SECONDS = 30.0
"""For which the first requests wait for the prefixes; a replica that has come back gets requests after so
long at the latest, if others can take them."""

MOST_PREFIXES = 256
"""On one replica; those beyond are left out, and the log says so."""

NOTHING_REUSED = (
    "the engine says that it reuses nothing of it: it is shorter than a block, or prefix caching is off, "
    "or the engine does not tell (vLLM: --enable-prompt-tokens-details)"
)

Key = tuple[str, str, str]
"""Replica, tenant, prefix."""


class Tenants(Protocol):
    """Who the tenants are at this moment."""

    def tenants(self) -> Sequence[Tenant]:
        """Return all tenants."""
        ...


def is_warmed(member: Member) -> bool:
    """Tell whether prefixes are computed there: on engines, not with providers, whose cache is their own."""
    replica = member.replica
    return replica.kind is ReplicaKind.OPENAI and replica.flavour is not EngineFlavour.GENERIC


class Prefixes:
    """The prefixes of all tenants on all replicas."""

    def __init__(
        self,
        fleet: Fleet,
        tenants: Tenants,
        shared: SharedPrefixes,
        *,
        salts: Salts,
        models: ModelTable,
        clock: Clock,
        pinned: frozenset[str] = frozenset(),
    ) -> None:
        """Watch a fleet; nothing is asked of it yet.

        Args:
            fleet: Whose replicas.
            tenants: Whose prefixes.
            shared: What other processes know.
            salts: Keep tenants apart.
            models: Every configured model.
            clock: Tells the time.
            pinned: Models whose engines have GSM, which is asked to keep prefixes from eviction.
        """
        self._fleet = fleet
        self._tenants = tenants
        self._shared = shared
        self._salts = salts
        self._models = models
        self._clock = clock
        self._asker = Asker(clock.monotonic, pinned)
        self._entries: dict[Key, Entry] = {}
        self._leaving: list[Entry] = []
        self._beginnings: dict[str, Sequence[Beginning]] = {}
        self._hot = HotPrefixes()
        self._seen: tuple[Sequence[Tenant], Sequence[Member], int] | None = None
        self._busy: set[str] = set()
        self._ask = ""
        self._said: set[str] = set()
        self._progress = asyncio.Event()
        fleet.returned = self._returned

    def entries(self) -> Sequence[Entry]:
        """Return every prefix on every replica."""
        return list(self._entries.values())

    def answered(self, tenant: Tenant, member: Member, request: ClientRequest, usage: Usage) -> None:
        """Compare what an engine counted of a client's request with what it should have had."""
        if usage.estimated or request.path != CHAT_PATH or not is_warmed(member):
            return
        now, replica, tools = self._clock.monotonic(), member.replica.name, request.fields.get("tools")
        for beginning in self._beginnings.get(tenant.name, ()):
            entry = self._entries.get((replica, tenant.name, beginning.name))
            if entry is not None and beginning.fits(request.messages, tools):
                entry.answered(usage.cached, now)
                if not beginning.name.startswith(MARK):
                    return
                break
        self._hot.saw(tenant.name, _model_of(replica), request, now)

    async def keep_warm(self) -> None:
        """Look for what is due for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                self.plan()
                await self._exchange()
                for member in self._members():
                    self._begin(group, member)
                await asyncio.sleep(TICK_SECONDS)

    async def until_ready(self, seconds: float = BEFORE_TRAFFIC_SECONDS) -> None:
        """Wait until all replicas that can be asked have been, for so many seconds at most."""
        self.plan()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while any(self._is_awaited(entry) for entry in self._entries.values()):
                    self._progress.clear()
                    await self._progress.wait()

    def _is_awaited(self, entry: Entry) -> bool:
        """Tell whether a prefix has not been looked at yet, on a replica that can be asked."""
        is_there = entry.member.health.takes_requests(self._clock.monotonic())
        return entry.why == START and entry.failures == 0 and is_there

    def _members(self) -> list[Member]:
        return [member for _, member in self._fleet.members() if is_warmed(member)]

    def _returned(self, member: Member) -> None:
        """Note that a replica has come back: what it held may be gone."""
        now = self._clock.monotonic()
        for entry in self._of(member):
            entry.needed(now, RESTART)
            member.cold_until = now + BEFORE_TRAFFIC_SECONDS

    def _of(self, member: Member) -> list[Entry]:
        return [entry for entry in self._entries.values() if entry.member is member]

    # What there is to compute

    def plan(self) -> None:
        """Take in what changed: tenants' files, replicas that came or went."""
        now = self._clock.monotonic()
        self._hot.age(now)
        members = [member for _, member in self._fleet.members()]
        tenants, version = self._tenants.tenants(), self._hot.version
        if self._seen == (tenants, members, version):
            return
        first, self._seen = self._seen is None, (tenants, members, version)
        self._beginnings = {t.name: found for t in tenants if (found := self._beginnings_of(t))}
        wanted = dict(self._wanted(tenants))
        for key, entry in list(self._entries.items()):
            warm_up = wanted.get(key, (entry.member, None))[1]
            if (
                warm_up is None
                or warm_up.identity != entry.warm_up.identity
                or key[0] not in {member.replica.name for member in members}
            ):
                self._leaving.append(self._entries.pop(key))
        del self._leaving[:-MOST_PREFIXES]
        for key, (member, warm_up) in wanted.items():
            known = self._entries.get(key)
            if known is None or known.member is not member:
                replica, tenant, prefix = key
                found = Residency(tenant=tenant, prefix=prefix, model=_model_of(replica), replica=replica)
                found.identity = warm_up.identity
                why = START if first else HOT if prefix.startswith(MARK) else CHANGED
                self._entries[key] = Entry(member, warm_up, found, now, why, now)

    def _wanted(self, tenants: Sequence[Tenant]) -> Iterator[tuple[Key, tuple[Member, WarmUp]]]:
        for model, member in self._fleet.members():
            if not is_warmed(member):
                continue
            pairs = [(t, p) for t in tenants for p in self._prefixes_of(t) if _is_for(t, p, model)]
            if len(pairs) > MOST_PREFIXES:
                self._say(
                    f"Replica {member.replica.name} has {len(pairs)} prefixes; only {MOST_PREFIXES} are kept"
                )
            for tenant, prefix in pairs[:MOST_PREFIXES]:
                salt = self._salts.of(tenant, member.replica)
                try:
                    warm_up = warm_up_for(
                        prefix, model, member.replica, member.pool, salt=salt, models=self._models
                    )
                except BodyInvalid as error:
                    self._say(f"Prefix {prefix.name!r} of tenant {tenant.name!r} cannot be computed: {error}")
                    continue
                yield (member.replica.name, tenant.name, prefix.name), (member, warm_up)

    def _prefixes_of(self, tenant: Tenant) -> Sequence[Prefix]:
        return (*tenant.prefixes, *self._hot.of(tenant.name))

    def _beginnings_of(self, tenant: Tenant) -> Sequence[Beginning]:
        """Return what its requests may begin with, the longest first."""
        found: list[Beginning] = []
        for prefix in self._prefixes_of(tenant):
            with contextlib.suppress(BodyInvalid):
                found.append(beginning_of(prefix))
        return sorted(found, key=lambda each: -sum(len(text) for _, text in each.turns))

    def _say(self, text: str) -> None:
        """Log a warning once."""
        if text not in self._said and len(self._said) < MOST_PREFIXES:
            self._said.add(text)
            log.warning("%s", text)

    # With other processes

    async def _exchange(self) -> None:
        """Tell what requests found, and hear what is wished for; while Redis is away, later."""
        counts: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
        for (replica, tenant, prefix), entry in self._entries.items():
            if entry.hits or entry.misses:
                counts.setdefault(replica, {})[tenant, prefix] = (entry.hits, entry.misses)
        try:
            for replica, its in counts.items():
                await self._shared.count(replica, its)
                for (tenant, prefix), (hits, misses) in its.items():
                    entry = self._entries[replica, tenant, prefix]
                    entry.hits, entry.misses = entry.hits - hits, entry.misses - misses
            ask = await self._shared.asked() if self._entries else None
        except AWAY:
            return
        if ask is not None and ask.id != self._ask:
            self._ask, now = ask.id, self._clock.monotonic()
            for (_, tenant, prefix), entry in self._entries.items():
                if ask.tenant in {"", tenant} and ask.prefix in {"", prefix}:
                    entry.needed(now, ASKED, ask.id)

    async def _known(self, replica: str) -> tuple[Mapping[tuple[str, str], Row], float]:
        """Return what other processes know of a replica, and their time of day."""
        with contextlib.suppress(*AWAY):
            return await self._shared.read(replica), await self._shared.now()
        return {}, self._clock.now().timestamp()

    # On a replica

    def _begin(self, group: asyncio.TaskGroup, member: Member) -> None:
        now, name = self._clock.monotonic(), member.replica.name
        leaving = [entry for entry in self._leaving if entry.member is member]
        due = [entry for entry in self._of(member) if entry.due <= now]
        if not any(entry.why == RESTART for entry in due):
            member.cold_until = now
        if name in self._busy or not (due or leaving) or not member.health.takes_requests(now):
            return
        self._busy.add(name)
        group.create_task(self._tend(member, due, leaving))

    async def _tend(self, member: Member, due: Sequence[Entry], leaving: Sequence[Entry]) -> None:
        """Look at what is due on a replica, if no other process does."""
        name = member.replica.name
        try:
            async with self._shared.turn(name) as ours:
                if not ours:
                    return
                known, time_of_day = await self._known(name)
                offset = time_of_day - self._clock.monotonic()
                for entry in due:
                    if not member.has_room(self._clock.monotonic()):
                        return  # clients come first; what is due stays so until the next look
                    row = known.get((entry.residency.tenant, entry.residency.prefix))
                    await self._look_at(entry, None if row is None else row.residency, offset)
                await self._let_go(leaving)
                gone = [pair for pair, row in known.items() if self._is_gone(row, time_of_day)]
                with contextlib.suppress(*AWAY):
                    await self._shared.forget(name, gone)
        except Exception:
            log.exception("Prefixes on replica %s could not be looked at", name)
            for entry in due:
                entry.failed(self._clock.monotonic(), None)
        finally:
            self._busy.discard(name)
            self._progress.set()

    def _is_gone(self, row: Row, time_of_day: float) -> bool:
        """Tell whether nobody keeps a prefix; what is hot to another process is known by its age."""
        found = row.residency
        if (found.replica, found.tenant, found.prefix) in self._entries:
            return False
        return not found.prefix.startswith(MARK) or found.checked_at < time_of_day - 2 * LONGEST_CHECK

    async def _look_at(self, entry: Entry, known: Residency | None, offset: float) -> None:
        """Ask the engine whether it has a prefix, unless another process has just done so.

        Args:
            entry: The prefix.
            known: How it stands in the eyes of all processes; None when none has looked.
            offset: From monotonic to their time.
        """
        if known is not None and known.identity == entry.warm_up.identity:
            ours, entry.residency = entry.residency.checked_at, known
            is_new = known.checked_at > max(ours, entry.since + offset)
            if is_new and entry.ask in {"", known.asked} and not known.note:
                entry.looked_at(self._clock.monotonic())
                return
        found = entry.residency
        found.note, found.asked = "", entry.ask or found.asked
        try:
            await self._compute(entry)
        except BackendError as error:
            found.note = str(error)
            entry.failed(
                self._clock.monotonic(), error.retry_after if isinstance(error, BackendOverloaded) else None
            )
            self._say(f"Prefix {found.prefix!r} of tenant {found.tenant!r} on {found.replica}: {error}")
        else:
            entry.looked_at(self._clock.monotonic())
        found.checked_at = self._clock.monotonic() + offset
        with contextlib.suppress(*AWAY):
            await self._shared.write(found)

    async def _compute(self, entry: Entry) -> None:
        """Ask for one token; if the engine did not have the prefix, it has now, and is asked again."""
        found = entry.residency
        usage, seconds = await self._asker.one_token(entry)
        found.tokens, found.cached = usage.prompt, usage.cached
        if found.has(usage.cached) or (found.expected == 0 and 0 < usage.prompt <= 2 * usage.cached):
            found.expected, found.warm_seconds = max(found.expected, usage.cached), seconds
            entry.evictions = 0
            return
        if 10 * usage.cached <= usage.prompt:
            found.cold_seconds = seconds
        entry.evictions = entry.evictions + 1 if entry.why == EVICTED else 0
        again, found.warm_seconds = await self._asker.one_token(entry)
        found.cached = found.expected = again.cached
        found.computed, found.why = found.computed + 1, entry.why
        if found.expected == 0:
            found.note = NOTHING_REUSED
            entry.evictions = min(entry.evictions + 1, 8)
            self._say(f"Prefix {found.prefix!r} of tenant {found.tenant!r} on {found.replica}: {found.note}")

    async def _let_go(self, leaving: Sequence[Entry]) -> None:
        """Let GSM evict what is no longer registered; an engine that is away loses its pins by itself."""
        for entry in leaving:
            self._leaving.remove(entry)
            if self._asker.pins(entry):
                with contextlib.suppress(BackendError):
                    await self._asker.one_token(entry, pin=False)


def _model_of(replica: str) -> str:
    return replica.partition("/")[0]


def _is_for(tenant: Tenant, prefix: Prefix, model: str) -> bool:
    return tenant.may_use(model) and (prefix.models is None or model in prefix.models)
