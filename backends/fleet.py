"""Every replica of every model, which of them is asked next, and what is in flight on each."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import msgspec

from backends.errors import BackendError, BackendOverloaded, BackendUnavailable
from backends.health import FAILURES, Health
from backends.openai_server import OpenAIServer
from backends.placement.placer import Placer
from backends.placement.prompts import NO_PROMPT, Prompt
from backends.placement.standing import Standing, deepest
from backends.placement.types import Choice, ReplicaView
from backends.placement.work import Ticket
from backends.pools.engine_metrics import Acceptance, EngineCounts, EngineWord
from backends.protocol import Answer, Backend
from backends.provider import Provider
from backends.types import InferenceRequest, Pool, Replica, ReplicaKind, Timeouts

PROBE_SECONDS = 3.0
"""Between two looks at the health of all replicas."""

MOST_SESSIONS = 65536
"""Conversations of which it is known where they were last; the longest unused is forgotten."""


@dataclass(slots=True, eq=False)
class Member:
    """A replica at work.

    Attributes:
        pool: Its pool.
        monotonic: The clock.
        slots: Requests that it takes at once: its part of its pool's; None where none is stated. Kept by
            the fleet, as members come and go.
        in_flight: Requests on it now; changed by `open` and `close` alone.
        health: Whether it should get requests.
        standing: What it holds and has to do; its tickets are in the same hands as `in_flight`.
        word: What its engine said last of its load; changed by `heard` alone.
        acceptance: How its drafts do; as `word`.
        cold_until: Monotonic seconds until when others get requests first: it has come back, and what its
            requests begin with is being computed.
    """

    replica: Replica
    pool: Pool
    backend: Backend
    monotonic: Callable[[], float]
    slots: int | None = None
    in_flight: int = 0
    health: Health = field(default_factory=Health)
    standing: Standing = field(default_factory=Standing)
    word: EngineWord | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)
    _tickets: dict[int, Ticket] = field(default_factory=dict[int, Ticket])
    cold_until: float = float("-inf")

    def load(self, now: float) -> float:
        """Return the requests on it: ours now, and those of others as its engine said last."""
        return self.in_flight + (0.0 if self.word is None else self.word.others(now))

    def has_room(self, now: float) -> bool:
        """Tell whether it has fewer requests than it takes at once."""
        return self.slots is None or int(self.load(now)) < self.slots

    def heard(self, counts: EngineCounts, in_flight: int) -> bool:
        """Take in what its engine counted, when `in_flight` requests of ours were on it.

        Returns:
            Whether it has started anew, which nobody had noticed.
        """
        self.word = EngineWord(counts, self.monotonic(), in_flight)
        self.acceptance.saw(counts)
        return self.standing.saw_start(counts.started)

    async def open(self, request: InferenceRequest, ticket: Ticket | None = None) -> Answer:
        """Start `request` and count it until its answer is handed to `close`; see `Backend.open`.

        Args:
            request: As the engine shall get it.
            ticket: Of its prompt, from `Fleet.send`; let go of with the request.
        """
        self.in_flight += 1
        try:
            answer = await self.backend.open(request)
        except BaseException:
            self.in_flight -= 1
            self._drop(ticket)
            raise
        if ticket is not None:
            self._tickets[id(answer)] = ticket
        return answer

    def first_token(self, answer: Answer) -> None:
        """Note that a stream brought its first token: its prompt is read."""
        ticket = self._tickets.pop(id(answer), None)
        if ticket is not None:
            self.standing.queue.first_token(ticket, self.monotonic())

    async def close(self, answer: Answer) -> None:
        """Let go of an answer; see `Answer.aclose`."""
        self._drop(self._tickets.pop(id(answer), None))
        try:
            await answer.aclose()
        finally:
            self.in_flight -= 1

    def _drop(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            self.standing.queue.drop(ticket, self.monotonic())


class Placed(msgspec.Struct, frozen=True):
    """Where a request goes.

    Attributes:
        member: The replica.
        choice: Why.
        prompt: What was placed.
        predicted: Tokens that the replica holds of it, as far as is known.
        settled: Whether it reads no prompt now, which may be what is counted on.
        branch: The deepest group of it that any replica holds.
    """

    member: Member
    choice: Choice
    prompt: Prompt
    predicted: int
    settled: bool
    branch: bytes | None


def _nobody_listens(_member: Member) -> None:
    pass


def make_backend(replica: Replica, timeouts: Timeouts) -> Backend:
    """Return the adapter for a replica."""
    match replica.kind:
        case ReplicaKind.OPENAI:
            return OpenAIServer(replica, timeouts.connect)
        case ReplicaKind.LITELLM:
            return Provider(replica)


class Fleet:
    """The members of all pools, by model."""

    def __init__(
        self,
        pools: Mapping[str, Sequence[Pool]],
        *,
        monotonic: Callable[[], float],
        make: Callable[[Replica, Timeouts], Backend] = make_backend,
    ) -> None:
        """Make a backend for every replica; nothing is connected yet."""
        self.pools = pools
        self._monotonic = monotonic
        self.returned: Callable[[Member], None] = _nobody_listens
        """Told of a replica that has come back or started anew, where it can be before its first request."""
        self._make = make
        self._members: dict[str, list[Member]] = {
            model: [
                Member(replica, pool, make(replica, pool.timeouts), monotonic)
                for pool in its_pools
                for replica in pool.replicas
            ]
            for model, its_pools in pools.items()
        }
        self._placers = {model: Placer() for model in pools}
        self._sessions: OrderedDict[bytes, Member] = OrderedDict()
        for model, its_pools in pools.items():
            for pool in its_pools:
                self._share_slots(model, pool)

    def pool(self, model: str, name: str) -> Pool:
        """Return a pool by its name."""
        return next(pool for pool in self.pools[model] if pool.name == name)

    def members_of(self, model: str, pool: str | None = None) -> list[Member]:
        """Return the members of a model; those of one of its pools when that is given."""
        return [member for member in self._members[model] if pool in {None, member.pool.name}]

    def join(self, model: str, pool: Pool, replica: Replica) -> Member:
        """Take in a replica that was found; it holds nothing, and gets a growing share of requests."""
        member = Member(replica, pool, self._make(replica, pool.timeouts), self._monotonic)
        member.health.joined = self._monotonic()
        self._members[model].append(member)
        self._share_slots(model, pool)
        return member

    async def remove(self, model: str, member: Member) -> None:
        """Forget a replica on which nothing is in flight, and what it held."""
        self._members[model].remove(member)
        self._share_slots(model, member.pool)
        for session in [session for session, last in self._sessions.items() if last is member]:
            del self._sessions[session]
        await member.backend.aclose()

    def _share_slots(self, model: str, pool: Pool) -> None:
        members = self.members_of(model, pool.name)
        for member in members:
            most = pool.max_concurrency
            member.slots = None if most is None else max(1, most // len(members))

    def place(
        self,
        model: str,
        tried: Sequence[Member] = (),
        prompt: Prompt = NO_PROMPT,
        pools: Sequence[str] | None = None,
    ) -> Placed | None:
        """Choose the replica of `model` on which a prompt costs least; see `backends.placement.cost`.

        One that has just come gets a growing share, and, while its prefixes are computed, only what no other
        can take; one that is out, busy, or in `tried`, is not chosen. Nothing changes: what is sent is told
        to `send`.

        Args:
            model: The model.
            tried: Not to be chosen again.
            prompt: What its prompt is known by.
            pools: Of whose replicas; None for those of all pools.

        Returns:
            None when there is none to choose.
        """
        now = self._monotonic()
        members = [
            m
            for m in self._members[model]
            if (pools is None or m.pool.name in pools) and m not in tried and m.health.takes_requests(now)
        ]
        if not members:
            return None
        members = [member for member in members if now >= member.cold_until] or members
        if len(members) == 1 and not prompt.names:
            return _alone(members[0], prompt, now)
        placer = self._placers[model]
        last = self._sessions.get(prompt.session) if prompt.session is not None else None
        held: list[tuple[int, int]] = []
        groups = 0
        for member in members:
            held.append(member.standing.holds(prompt, now, groups))
            groups = held[-1][0] or groups
        branch = deepest(prompt, [groups for groups, _ in held])
        choice = placer.choose(
            [
                _view(member, tokens, placer, now, session=member is last)
                for member, (_, tokens) in zip(members, held, strict=True)
            ],
            prompt.tokens,
            now=now,
            branch=branch,
            slots=[member.slots for member in members],
        )
        member, predicted = members[choice.index], held[choice.index][0] * prompt.group_tokens
        return Placed(member, choice, prompt, predicted, not len(member.standing.queue), branch)

    def has_choice(self, model: str) -> bool:
        """Tell whether there is more than one replica of `model`."""
        return len(self._members[model]) > 1

    def send(self, model: str, placed: Placed) -> Ticket:
        """Note that a request goes where it was placed; the ticket is for `Member.open`."""
        now, member, prompt = self._monotonic(), placed.member, placed.prompt
        if self.has_choice(model):
            placer = self._placers[model]
            placer.placed(member.replica.name, placed.choice.work, now=now, branch=placed.branch)
        if prompt.session is not None:
            self._sessions[prompt.session] = member
            self._sessions.move_to_end(prompt.session)
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return member.standing.began(prompt, placed.choice.uncached, now)

    def nobody(self, model: str) -> BackendError:
        """Return the error for a model none of whose replicas takes requests now.

        Where some have asked to be left alone, it says as they did when the first of them may be asked.
        """
        now = self._monotonic()
        waits = [(wait, m) for m in self._members[model] if (wait := m.health.busy_for(now)) > 0.0]
        if waits:
            wait, first = min(waits, key=itemgetter(0))
            return BackendOverloaded(
                f"Every replica of {model!r} that answers has asked to be left alone for a while.",
                replica=first.replica.name,
                status=first.health.busy_status,
                retry_after=wait,
            )
        names = ", ".join(member.replica.name for member in self._members[model])
        return BackendUnavailable(
            f"No replica of {model!r} answers now ({names}).",
            replica=names,
            reached=False,
            retry_after=PROBE_SECONDS,
        )

    def members(self) -> Iterator[tuple[str, Member]]:
        """Return every model and member."""
        for model, members in self._members.items():
            for member in tuple(members):
                yield model, member

    async def probe(self) -> dict[str, dict[str, bool]]:
        """Ask every replica whether it can serve, all at once, and note what it says.

        Returns:
            Model -> replica name -> ready.
        """
        return await self._ask_all(count_silence=True)

    async def readiness(self) -> dict[str, dict[str, bool]]:
        """Ask every replica whether it can serve, all at once, on behalf of whoever looks at our health.

        What is said is noted, so that requests go where we say that they can. Silence is not: how often
        somebody looks must not decide when a busy replica counts as gone.

        Returns:
            Model -> replica name -> ready.
        """
        return await self._ask_all(count_silence=False)

    async def _ask_all(self, *, count_silence: bool) -> dict[str, dict[str, bool]]:
        pairs, since = list(self.members()), self._monotonic()
        states = await asyncio.gather(*(member.backend.is_ready() for _, member in pairs))
        found: dict[str, dict[str, bool]] = {model: {} for model in self._members}
        for (model, member), ready in zip(pairs, states, strict=True):
            if member.health.draining:
                continue
            was_gone = member.health.probes_missed >= FAILURES
            if ready is not None or count_silence:
                member.health.was_probed(self._monotonic(), ready=ready, since=since)
            if was_gone and ready:
                member.standing.restarted()
                self.returned(member)
            found[model][member.replica.name] = bool(ready)
        return found

    async def keep_probing(self) -> None:
        """Look at the health of all replicas for ever."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await self.probe()

    async def aclose(self) -> None:
        """Close every backend."""
        for _, member in self.members():
            await member.backend.aclose()


def _alone(member: Member, prompt: Prompt, now: float) -> Placed:
    """Place a prompt of which nothing can be held on the only replica there is: there is nothing to weigh."""
    queue = member.standing.queue
    work = prompt.tokens / queue.rate.tokens_per_second
    choice = Choice(
        0, ttft=queue.seconds(now) + work, cached=0, uncached=prompt.tokens, work=work, among=1, reason=""
    )
    return Placed(member, choice, prompt, predicted=0, settled=not len(queue), branch=None)


def _view(member: Member, cached: int, placer: Placer, now: float, *, session: bool) -> ReplicaView:
    health, queue, word = member.health, member.standing.queue, member.word
    return ReplicaView(
        cached,
        queue.seconds(now),
        queue.rate.tokens_per_second,
        int(member.load(now)),
        placer.demand.recent(member.replica.name),
        health.share(now),
        0.0 if word is None else word.kv_use(now),
        health.failures == 0,
        session,
    )
