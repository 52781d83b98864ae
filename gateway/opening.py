"""From a decision to an answer that has begun: who is asked, in which order, and what counts as a beginning.

An answer has begun when its first token is here, or, of a plain answer, when it is whole. Until then
nothing was sent to the client, so that an error can become a status, or another replica be tried.
"""

import logging
from collections.abc import Mapping

import msgspec

from backends.errors import BackendError, BackendOverloaded, BackendTimeout, BackendUnavailable, BackendUnfit
from backends.fleet import Member, Placed
from backends.protocol import Answer
from backends.types import EngineFlavour, InferenceRequest, Thinking, Usage
from gateway.answers import as_events, read_plain, tokens_in_answer, with_reasoning_content
from gateway.clock import Clock
from gateway.exchange import Exchange
from gateway.http import EVENT_STREAM, within
from gateway.placing import choices_of
from gateway.requests.length import shorten
from gateway.requests.protocol import ClientRequest
from gateway.requests.upstream import upstream_body
from gateway.route import Route, Step, leave
from gateway.services import Services
from gateway.sse import is_stream
from gateway.streaming import Relay, StreamState
from gateway.thinking.adapting import adapt
from policies.types import Caller, Decision

log = logging.getLogger(__name__)

TRIES_THAT_REACHED = 2
"""How many replicas may get to work on one request, one after the other."""

MAX_ANSWER = 64 * 1024 * 1024
"""Most bytes of a plain answer."""


class StreamReader:
    """Reads a stream's pieces within the deadlines of its model."""

    def __init__(
        self, answer: Answer, member: Member, state: StreamState, clock: Clock, since: float
    ) -> None:
        """Read `answer`, which `member` was asked for at `since`."""
        self._answer = answer
        self._member = member
        self._state = state
        self._clock = clock
        self._since = since
        self._last = clock.monotonic()

    async def read(self, patience: float) -> bytes | None:
        """Return the next bytes, b"" at the end, None when nothing came for `patience` seconds.

        Raises:
            BackendTimeout: A deadline passed.
            BackendError: The engine died.
        """
        deadline, what = self._deadline()
        left = deadline - self._clock.monotonic()
        if left <= 0.0:
            raise self._late(what)
        try:
            piece = await self._answer.read(max(0.0, min(patience, left)))
        except TimeoutError as error:
            if patience < left:
                return None
            raise self._late(what) from error
        self._last = self._clock.monotonic()
        if piece and self._state.has_token:
            self._member.health.progressed(self._last)
        return piece

    def _late(self, what: str) -> BackendTimeout:
        name = self._member.replica.name
        return BackendTimeout(f"Replica {name} {what}.", replica=name)

    def _deadline(self) -> tuple[float, str]:
        """Return when to give up, and what is said then."""
        timeouts = self._member.pool.timeouts
        ends = [(self._last + timeouts.idle, f"sent nothing for {timeouts.idle:g} s")]
        if not self._state.is_meaningful:
            first = timeouts.first_token
            ends = [(self._since + first, f"brought no token within {first:g} s")]
        if timeouts.total is not None:
            ends.append((self._since + timeouts.total, f"did not finish within {timeouts.total:g} s"))
        return min(ends)


class Order(msgspec.Struct, frozen=True):
    """What replicas are asked for.

    Attributes:
        caller: Who asks.
        request: What for.
        decision: Of which models.
        headers: Sent on to the engine.
    """

    caller: Caller
    request: ClientRequest
    decision: Decision
    headers: Mapping[str, str]


class BegunAnswer(msgspec.Struct, frozen=True):
    """A plain answer, here as a whole. `member.close(answer)` lets go of it."""

    member: Member
    answer: Answer
    body: bytes


class BegunStream(msgspec.Struct):
    """A stream that has begun. `member.close(answer)` lets go of it.

    Attributes:
        held: What has come so far, as it goes to the client.
        relay: Passes on what comes.
        reader: Waits for it.
    """

    member: Member
    answer: Answer
    held: bytes
    relay: Relay
    reader: StreamReader


Begun = BegunAnswer | BegunStream


async def begin(services: Services, exchange: Exchange, order: Order) -> Begun:
    """Start the answer on the first replica that brings it.

    Each try follows the last at once: nobody waits between two of them, so there is nothing to spread by
    jitter. A replica that says when to come again is not asked before that; when all have, the client is
    told at once, and waits where it costs no connection.

    Args:
        services: What requests work with.
        exchange: Takes down who was asked, and what came of it.
        order: What is asked for.

    Raises:
        BackendError: None brought it; the error is that of the last one tried that has the endpoint.
    """
    failure: BackendError | None = None
    reached, route = 0, Route(services, exchange, order.decision)
    try:
        while (step := await route.next()) is not None:
            placed = step.placed
            exchange.model, exchange.member, exchange.placed = step.model, placed.member, placed
            if placed.prompt.names or placed.choice.among > 1:
                exchange.notes.append(placed.choice.reason)
            exchange.attempts += 1
            if exchange.asked is None:
                exchange.asked = services.clock.monotonic()
            try:
                begun = await _try(services, exchange, order, placed)
            except (BackendUnavailable, BackendOverloaded, BackendUnfit) as error:
                if failure is None or not isinstance(error, BackendUnfit):
                    failure = error
                _note_failure(services, exchange, placed.member, error)
                await leave(services, exchange)
                reached += isinstance(error, BackendUnavailable) and error.reached
                if reached >= TRIES_THAT_REACHED:
                    break
            else:
                _note_begun(services, exchange, step)
                return begun
        exchange.model, exchange.member, exchange.placed = "", None, None  # the notes have who was asked
        raise failure or route.full or services.fleet.nobody(order.decision.model)
    finally:
        del failure  # it holds its frames, this one among them: neither would go before a look for cycles


async def _try(services: Services, exchange: Exchange, order: Order, placed: Placed) -> Begun:
    """Ask one replica, and note for its health how that went."""
    health, now = placed.member.health, services.clock.monotonic
    health.asked()
    try:
        begun = await _ask(services, exchange, order, placed)
    except (BackendUnavailable, BackendTimeout) as error:
        if isinstance(error, BackendUnavailable) and error.well:
            health.answered_4xx()
        else:
            health.brought_nothing(now())
        raise
    except BaseException as error:
        health.left_alone()  # a refusal, an overload, a client that left: no fault of its own
        if isinstance(error, BackendOverloaded) and error.retry_after is not None:
            health.asked_to_wait(now(), error.retry_after, error.status)
        raise
    if isinstance(begun, BegunAnswer) or begun.relay.state.is_meaningful:
        health.brought_token(now())
    return begun


class _Asked(msgspec.Struct, frozen=True):
    """A replica that was asked at `since`, and whose status is here."""

    member: Member
    answer: Answer
    since: float


async def _ask(services: Services, exchange: Exchange, order: Order, placed: Placed) -> Begun:
    request, since, member = order.request, services.clock.monotonic(), placed.member
    timeouts = member.pool.timeouts
    patience = timeouts.first_token if request.stream else timeouts.for_plain()
    engine_request = _request(services, exchange, order, member, patience)
    answer = await member.open(engine_request, services.fleet.send(exchange.model, placed))
    asked = _Asked(member, answer, since)
    try:
        if request.stream and answer.content_type.startswith(EVENT_STREAM):
            return await _peek(services, _stream(services, exchange, request, asked))
        left = patience - (services.clock.monotonic() - since)
        name = member.replica.name

        def late() -> BackendTimeout:
            return BackendTimeout(f"Replica {name} did not finish within {patience:g} s.", replica=name)

        begun = await within(left, late, _read_whole(exchange, request, asked))
        return _retold(_stream(services, exchange, request, asked), begun) if request.stream else begun
    except BaseException:
        await member.close(answer)
        raise


def _request(
    services: Services, exchange: Exchange, order: Order, member: Member, patience: float
) -> InferenceRequest:
    request, decision, tenant, replica = order.request, order.decision, order.caller.tenant, member.replica
    is_vllm = replica.flavour is EngineFlavour.VLLM
    adapted = adapt(request.fields, decision.effort, replica, member.pool.thinking)
    exchange.effort = adapted.effort
    if adapted.note:
        exchange.notes.append(f"{replica.name}: {adapted.note}")
    thinks = member.pool.thinking is Thinking.DEEPSEEK
    fields = shorten(adapted.fields, request, tenant.answers, replica.flavour, thinks=thinks)
    body = upstream_body(
        request,
        replica.upstream_model,
        max_output_tokens=decision.max_output_tokens,
        cache_salt=services.salts.of(tenant, replica),
        running_usage=is_vllm,
        adapted=fields,
    )
    return InferenceRequest(request.path, body, request.stream, order.headers, patience)


def _stream(services: Services, exchange: Exchange, request: ClientRequest, asked: _Asked) -> BegunStream:
    """Return a stream of which nothing was read yet."""
    member, answer = asked.member, asked.answer
    replica = member.replica
    cut_usage = replica.flavour is EngineFlavour.VLLM and not request.wants_running_usage
    choices = choices_of(request)
    relay = Relay(replica.name, show_usage=request.wants_usage, cut_usage=cut_usage, choices=choices)
    exchange.stream_state = relay.state
    reader = StreamReader(answer, member, relay.state, services.clock, asked.since)
    return BegunStream(member, answer, b"", relay, reader)


async def _peek(services: Services, begun: BegunStream) -> BegunStream:
    """Wait for a stream's first token, for a bounded time; a slow stream is one that has begun."""
    relay, reader = begun.relay, begun.reader
    bound = services.clock.monotonic() + begun.member.pool.timeouts.peek
    held: list[bytes] = []
    try:
        while not relay.state.is_meaningful and not relay.state.done:
            piece = await reader.read(bound - services.clock.monotonic())
            if piece is None:
                break
            if not piece:
                held.append(relay.finish())
                relay.check_end()
                break
            held.append(relay.feed(piece))
        if relay.state.done:
            relay.check_end()
    except BackendError as error:
        if type(error) is not BackendError:
            raise
        raise _before_the_start(error) from error
    begun.held = b"".join(held)
    return begun


async def _read_whole(exchange: Exchange, request: ClientRequest, asked: _Asked) -> BegunAnswer:
    """Read a plain answer."""
    name = asked.member.replica.name
    try:
        body = await _collect(asked.answer, name)
    except BackendError as error:
        if type(error) is not BackendError:
            raise
        raise _before_the_start(error) from error
    if request.stream and is_stream(body):
        return BegunAnswer(asked.member, asked.answer, body)
    exchange.usage = read_plain(body, name, request.answers_in)
    if exchange.usage is None:
        exchange.usage = Usage(request.input_tokens(), 0, tokens_in_answer(body), estimated=True)
    return BegunAnswer(asked.member, asked.answer, with_reasoning_content(body, "message"))


def _retold(stream: BegunStream, begun: BegunAnswer) -> BegunStream:
    """Return a whole answer as a stream that is here already: a client that asked for one reads no other.

    It may be one that has only the wrong name.
    """
    relay = stream.relay
    events = begun.body if is_stream(begun.body) else as_events(begun.body)
    stream.held = relay.feed(events) + relay.finish()
    if not relay.state.is_meaningful:
        relay.check_end()
    return stream


async def _collect(answer: Answer, name: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await answer.read():
        size += len(part)
        if size > MAX_ANSWER:
            raise BackendError(f"Replica {name} failed: it sent over {MAX_ANSWER} bytes.", replica=name)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _before_the_start(error: BackendError) -> BackendUnavailable:
    """Return what an error half way means before anything was sent on: it is one on the way."""
    return BackendUnavailable(str(error), replica=error.replica)


def _note_begun(services: Services, exchange: Exchange, step: Step) -> None:
    """Take down where an answer has begun, and why there."""
    now, member, pooled = services.clock.monotonic(), step.placed.member, step.pooled
    exchange.load = member.load(now)
    services.telemetry.placed(step.model, member.pool.name, pooled.choice.reason)
    if pooled.choice.reason != "only":
        exchange.notes.append(f"pool:{pooled.choice.reason}:{member.pool.name}")
    if pooled.conversation is not None:
        services.desk.homes.note(pooled.conversation, member.pool.name, now)


def _note_failure(services: Services, exchange: Exchange, member: Member, error: BackendError) -> None:
    services.telemetry.upstream_failed(member.replica.name, error)
    exchange.stream_state = None
    exchange.notes.append(str(error))
    # As text: a record that is kept would keep the error, its frames, and the prompt in them. What lies
    # behind it is named only: litellm repeats what a provider said, which may be our key or the prompt.
    cause = "" if error.__cause__ is None else f" ({type(error.__cause__).__name__})"
    log.warning("%s: %s%s", exchange.id, str(error), cause)
