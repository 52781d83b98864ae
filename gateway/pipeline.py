"""The life of a request, from the key to the record: `answer_request` is the story, the rest its steps."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable

from msgspec.structs import replace

from backends.errors import BackendError, BackendRejected
from backends.types import CHAT_PATH, Usage
from classifier.types import Conversation
from gateway.errors import ClientLeft, KeyMissing, LedgerUnavailable, to_answer
from gateway.exchange import HEADER, Exchange
from gateway.http import EVENT_STREAM, JSON, ClientPresence, Receive, Reply, Scope, Send, header, read_body
from gateway.opening import BegunAnswer, BegunStream, Order, begin
from gateway.placing import volatile_in, weighed
from gateway.records import RequestRecord, Status
from gateway.requests.needs import needs_of, token_ids_of
from gateway.requests.protocol import ClientRequest
from gateway.route import leave
from gateway.second_stage import SecondStage
from gateway.services import Services
from gateway.sse import DONE, KEEP_ALIVE
from gateway.thinking.wishes import forces_a_tool, read_wish
from policies.decision import COMPLEXITY, QUALITY, decide, needs_estimate
from policies.types import STANDARD, Ask, Caller, Decision, Hardness, Prices

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 10.0
"""After so much silence of an engine a client is told that its request is still alive."""

KEY_HEADERS = frozenset({b"authorization", b"x-api-key"})
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""A `traceparent` of W3C's Trace Context; what is none goes no further."""


class Endpoint:
    """An endpoint of OpenAI's as a plain ASGI application."""

    def __init__(self, services: Services, path: str, read: Callable[[bytes], ClientRequest]) -> None:
        """Answer what comes to `path`, once `read` has made a request of its body."""
        self._services = services
        self._path = path
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = Reply(send, scope)
        await answer_request(self._services, scope, receive, reply, endpoint=self._path, read=self._read)


async def answer_request(
    services: Services,
    scope: Scope,
    receive: Receive,
    reply: Reply,
    *,
    endpoint: str,
    read: Callable[[bytes], ClientRequest],
) -> None:
    """Answer a request: identify, estimate, decide, place, open, stream, settle, record.

    Args:
        services: What requests work with.
        scope: Of ASGI.
        receive: Of ASGI.
        reply: Takes the answer; one that speaks another API translates it.
        endpoint: Stands in the record.
        read: Makes a request of the body; may raise `BodyInvalid`.
    """
    exchange = Exchange(services.clock, endpoint)
    reply.unread = receive
    try:
        caller = exchange.caller = identify(services, scope)
        body = await exchange.waiting(read_body(scope, receive, services.max_body_bytes))
        reply.unread = None
        request = exchange.request = read(body)
        ask = _ask_of(services, caller, request)
        _look_for_volatile(services, caller, request, exchange)
        _estimate(services, caller, request, ask, exchange)
        if services.second_stage is not None:
            await _refine(services.second_stage, services, caller, request, exchange)
        decision = _decide(services, caller, request, ask, exchange)
        decision = exchange.decision = await weighed(services, exchange, decision)
        order = Order(caller, request, decision, _headers_to_hand_on(scope))
        with ClientPresence(scope):
            begun = await begin(services, exchange, order)
            try:
                if isinstance(begun, BegunAnswer):
                    await _send_whole(services, exchange, begun, reply)
                else:
                    await _send_stream(services, exchange, begun, reply)
            finally:
                await begun.member.close(begun.answer)
    except ClientLeft:
        await _settle(services, exchange, "cancelled", 499, "client_left", wait=False)
    except asyncio.CancelledError:
        await _settle(services, exchange, "cancelled", 499, "shutdown", wait=False)
        raise
    except Exception as error:  # noqa: BLE001 - the last place that can turn an error into an answer
        await _fail(services, exchange, error, reply)
    finally:
        await leave(services, exchange)


def identify(services: Services, scope: Scope) -> Caller:
    """Return who sent a request.

    Raises:
        KeyMissing: No API key came with it.
        UnknownKey: Nobody has this key.
    """
    found = [(name, value) for name, value in scope["headers"] if name in KEY_HEADERS]
    given = dict(found)
    if len(given) < len(found):
        names = [name for name, _ in found]
        twice = max(names, key=names.count).decode()
        raise KeyMissing(f"The request has more than one {twice} header. Send one.")
    bearer = given.get(b"authorization", b"")
    if bearer[:7].lower() == b"bearer ":
        key = bearer[7:].strip().decode("latin-1")
    else:
        key = given.get(b"x-api-key", b"").decode("latin-1")
    if not key:
        raise KeyMissing("No API key came with the request. Send one: 'Authorization: Bearer sk-fl-...'.")
    return services.tenants.identify(key)


def _ask_of(services: Services, caller: Caller, request: ClientRequest) -> Ask:
    """Return what the decision looks at."""
    is_chat = request.path == CHAT_PATH
    return Ask(
        model=request.model,
        input_tokens=request.input_tokens(),
        max_output_tokens=request.max_output_tokens,
        text=request.pending_text() if caller.tenant.routing.standard_keywords else "",
        needs=needs_of(request),
        token_ids=token_ids_of(request),
        may_think=is_chat,
        effort=read_wish(request.fields, request.model, services.models) if is_chat else None,
        tool_forced=is_chat and forces_a_tool(request.fields),
    )


def _estimate(
    services: Services, caller: Caller, request: ClientRequest, ask: Ask, exchange: Exchange
) -> None:
    if not needs_estimate(ask, caller.tenant, services.models):
        return
    conversation, tenant = _with_task(request.conversation(), caller, exchange.endpoint), caller.tenant
    classifier = services.rankers.of(tenant.name).classifier
    try:
        exchange.estimate = classifier.estimate(
            conversation, with_domain=bool(tenant.routing.standard_domains)
        )
    except Exception:
        # A request is not refused for want of an estimate: the policy decides without one.
        log.exception("%s: the classifier failed", exchange.id)
        services.telemetry.classifier_failed()


async def _refine(
    stage: SecondStage, services: Services, caller: Caller, request: ClientRequest, exchange: Exchange
) -> None:
    """Let the second stage better the estimate, for a tenant whose version has one."""
    ranker = services.rankers.of(caller.tenant.name)
    if exchange.estimate is not None and ranker.refines:
        conversation = _with_task(request.conversation(), caller, exchange.endpoint)
        exchange.estimate = await stage.refine(ranker.classifier, conversation, exchange.estimate)


def _with_task(conversation: Conversation, caller: Caller, endpoint: str) -> Conversation:
    """Return a conversation whose task is known by what the tenant's tasks are to be known by."""
    parts = caller.tenant.routing.task_by
    key = caller.key_name if "key" in parts else ""
    endpoint = endpoint if "endpoint" in parts else ""
    if "prompt" in parts:
        return replace(conversation, key=key, endpoint=endpoint) if key or endpoint else conversation
    return replace(conversation, task=key + endpoint)


def _decide(
    services: Services, caller: Caller, request: ClientRequest, ask: Ask, exchange: Exchange
) -> Decision:
    tenant, estimate, scores = caller.tenant, exchange.estimate, services.scores
    if estimate is None:
        decision = decide(ask, None, tenant, services.models)
    else:
        share = tenant.routing.standard_share
        hardness = Hardness(estimate.score, estimate.domain)
        cut, bound = scores.cut(tenant.name, share), services.rankers.of(tenant.name).bound
        decision = decide(ask, hardness, tenant, services.models, cut=cut, bound=bound)
        if decision.rule == COMPLEXITY:
            scores.add(tenant.name, estimate.score, share=share, sent=decision.model == STANDARD)
        elif decision.rule == QUALITY:
            scores.see(tenant.name, estimate.score)
    exchange.decision = decision
    if decision.keep_input_tokens is not None:
        request.keep_last(decision.keep_input_tokens)
    return decision if request.portable else replace(decision, fallbacks=())


def _look_for_volatile(
    services: Services, caller: Caller, request: ClientRequest, exchange: Exchange
) -> None:
    """Report what spoils the reuse of a prefix; the prompt stays as it is."""
    found = volatile_in(request)
    if found is not None:
        services.telemetry.volatile_prefix(caller.tenant.name)
        exchange.notes.append(
            f"prefix:volatile: {found.what} at character {found.before} of the system prompt"
        )


def _headers_to_hand_on(scope: Scope) -> dict[str, str]:
    trace = header(scope, b"traceparent")
    return {"traceparent": trace} if trace is not None and _TRACE.fullmatch(trace) else {}


async def _send_whole(services: Services, exchange: Exchange, begun: BegunAnswer, reply: Reply) -> None:
    record = await _settle(services, exchange, "ok", 200, "", wait=True)
    headers = {**begun.answer.rate_limits, **exchange.headers()}
    if record is not None:
        headers[HEADER + "cached-tokens"] = str(record.cached_tokens)
        headers[HEADER + "cost-usd"] = f"{record.cost_usd:.9f}"
    await reply.whole(200, JSON, headers, begun.body)


async def _send_stream(services: Services, exchange: Exchange, begun: BegunStream, reply: Reply) -> None:
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    headers |= {**begun.answer.rate_limits, **exchange.headers()}
    await reply.start(200, EVENT_STREAM, headers)
    await _pump(services, exchange, begun, reply)
    state = begun.relay.state
    if state.failed:
        await _settle(services, exchange, "incomplete", 200, "upstream_error", wait=True)
    else:
        await _settle(services, exchange, "ok", 200, "", wait=True)
    await reply.end(DONE if state.done else b"")


async def _pump(services: Services, exchange: Exchange, begun: BegunStream, reply: Reply) -> None:
    """Pass a stream on until it ends; in silence, tell the client that it is alive.

    Raises:
        BackendError: It did not end well.
    """
    relay, reader, health = begun.relay, begun.reader, begun.member.health
    state, passed = relay.state, begun.held
    try:
        while True:
            if exchange.first_token is None and state.has_token:
                exchange.first_token = services.clock.monotonic()
                health.brought_token(exchange.first_token)
                begun.member.first_token(begun.answer)
            if passed:
                await reply.write(passed)
            if state.done or state.failed:
                break
            piece = await reader.read(KEEP_ALIVE_SECONDS)
            if piece == b"":
                await reply.write(relay.finish())
                break
            passed = KEEP_ALIVE if piece is None else relay.feed(piece)
        relay.check_end()
    except (BackendRejected, asyncio.CancelledError):
        health.left_alone()
        raise
    except BackendError:
        if not state.has_token:
            health.brought_nothing(services.clock.monotonic())
        raise


async def _fail(services: Services, exchange: Exchange, error: Exception, reply: Reply) -> None:
    """Tell the client of an error: by a status while none was sent, else by an event and no `[DONE]`."""
    answer = to_answer(error)
    if answer.status >= 500:
        known = isinstance(error, BackendError)
        log.error("%s: %s", exchange.id, str(error), exc_info=None if known else error)
    code = answer.code or answer.type
    if isinstance(error, BackendRejected):
        exchange.usage = Usage()  # it did no work
    if not reply.started:
        await _settle(services, exchange, "error", answer.status, code, wait=True)
        await reply.whole(answer.status, JSON, {**exchange.headers(), **answer.headers}, answer.body())
        return
    if isinstance(error, BackendError) and exchange.member is not None:
        services.telemetry.upstream_failed(error.replica, error)
    await _settle(services, exchange, "incomplete", 200, code, wait=True)
    await reply.end(b"data: " + answer.body() + b"\n\n")


def _learn(services: Services, exchange: Exchange, usage: Usage) -> None:
    """Compare what a replica was taken to hold with what its engine counted."""
    placed = exchange.placed
    if placed is None or not (placed.prompt.names and placed.settled) or usage.estimated or not usage.prompt:
        return
    if placed.member.standing.told(placed.predicted, usage.cached):
        services.telemetry.prefix_told(placed.member.replica.name, placed.predicted, usage.cached)


async def _settle(
    services: Services, exchange: Exchange, status: Status, http_status: int, error: str, *, wait: bool
) -> RequestRecord | None:
    """Count the request and write its record, once.

    With `wait` the record is durable on return; nobody waits for a client that left.

    Returns:
        The record; None when no tenant is known, or the record was written before.
    """
    if exchange.settled:
        return None
    exchange.settled = True
    if exchange.caller is None:
        services.telemetry.refused(error)
        return None
    prices, usage = services.prices.get(exchange.model, Prices()), exchange.final_usage()
    record = exchange.record(status, http_status, error, prices, usage)
    services.telemetry.settled(record)
    _learn(services, exchange, usage)
    _note_pace(services, exchange, record)
    if status == "ok" and exchange.member is not None and exchange.request is not None:
        services.prefixes.answered(exchange.caller.tenant, exchange.member, exchange.request, usage)
    writing = services.ledger.record(record)
    if wait:
        with contextlib.suppress(
            LedgerUnavailable
        ):  # the record is in the log; no answer is held back for it
            await writing
    return record


def _note_pace(services: Services, exchange: Exchange, record: RequestRecord) -> None:
    """Tell the desk how fast a stream came that went well; a plain answer does not show when it began."""
    first, member = exchange.first_token, exchange.member
    if record.status == "ok" and first is not None and member is not None:
        now = services.clock.monotonic()
        load = (exchange.load + member.load(now)) / 2
        services.desk.answered(
            record.model, member, load=load, tokens=record.completion_tokens - 1, seconds=now - first
        )
