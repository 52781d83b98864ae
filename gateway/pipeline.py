"""The life of a request, from the key to the record. `answer_chat` is the story; the rest are its steps."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from backends.errors import BackendError, BackendOverloaded, BackendUnavailable
from backends.fleet import Member, all_tried
from backends.protocol import Answer
from backends.types import EngineFlavour, InferenceRequest
from gateway.errors import ClientLeft, KeyMissing, LedgerUnavailable, to_answer
from gateway.exchange import HEADER, Exchange
from gateway.http import ClientPresence, Receive, Reply, Scope, Send, header, read_body
from gateway.records import RequestRecord, Status
from gateway.services import Services
from gateway.streaming import DONE, Relay, usage_of_answer
from gateway.wire import ChatRequest, parse_chat
from policies.decision import decide, needs_estimate
from policies.types import Ask, Caller, Hardness, Prices

log = logging.getLogger(__name__)

CHAT_PATH = "/v1/chat/completions"
REPLICAS_PER_MODEL = 2
"""How many replicas of a model are tried before the next model is."""

MAX_ANSWER = 64 * 1024 * 1024
EVENT_STREAM = "text/event-stream"


class ChatCompletions:
    """`POST /v1/chat/completions` as a plain ASGI application."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await answer_chat(self._services, scope, receive, Reply(send))


async def answer_chat(services: Services, scope: Scope, receive: Receive, reply: Reply) -> None:
    """Answer a chat request: identify, estimate, decide, place, open, stream, settle, record."""
    exchange = Exchange(services.clock, CHAT_PATH)
    try:
        exchange.caller = identify(services, scope)
        body = await exchange.waiting(read_body(scope, receive, services.max_body_bytes))
        exchange.chat = parse_chat(body)
        _estimate(services, exchange.caller, exchange.chat, exchange)
        _decide(services, exchange.caller, exchange.chat, exchange)
        with ClientPresence(receive):
            member, answer = await _open(services, exchange.caller, exchange.chat, exchange, scope)
            try:
                if exchange.chat.stream and answer.content_type.startswith(EVENT_STREAM):
                    await _stream(services, exchange, answer, reply)
                else:
                    await _plain(services, exchange, answer, reply)
            finally:
                await member.close(answer)
    except ClientLeft:
        await _settle(services, exchange, "cancelled", 499, "client_left", wait=False)
    except asyncio.CancelledError:
        await _settle(services, exchange, "cancelled", 499, "shutdown", wait=False)
        raise
    except Exception as error:  # noqa: BLE001 - the last place that can turn an error into an answer
        await _fail(services, exchange, error, reply)


def identify(services: Services, scope: Scope) -> Caller:
    """Return who sent a request.

    Raises:
        KeyMissing: No API key came with it.
        UnknownKey: Nobody has this key.
    """
    bearer = header(scope, b"authorization")
    if bearer is not None and bearer[:7].lower() == "bearer ":
        key = bearer[7:].strip()
    else:
        key = header(scope, b"x-api-key") or ""
    if not key:
        raise KeyMissing("No API key came with the request. Send one: 'Authorization: Bearer sk-fl-...'.")
    return services.tenants.identify(key)


def _estimate(services: Services, caller: Caller, chat: ChatRequest, exchange: Exchange) -> None:
    if not needs_estimate(chat.model, caller.tenant):
        return
    exchange.estimate = services.classifier.estimate(chat.conversation())


def _decide(services: Services, caller: Caller, chat: ChatRequest, exchange: Exchange) -> None:
    tenant, estimate = caller.tenant, exchange.estimate
    ask = Ask(
        model=chat.model,
        input_tokens=chat.input_tokens(),
        max_output_tokens=chat.max_output_tokens,
        text=chat.messages[chat.pending()].text() if tenant.routing.standard_keywords else "",
    )
    exchange.decision = decide(
        ask,
        None if estimate is None else Hardness(estimate.score, estimate.domain),
        tenant,
        services.models,
        cut=services.scores.cut(tenant.name, tenant.routing.standard_share),
    )
    if estimate is not None:
        services.scores.add(tenant.name, estimate.score)
    if exchange.decision.keep_input_tokens is not None:
        chat.keep_last(exchange.decision.keep_input_tokens)


async def _open(
    services: Services, caller: Caller, chat: ChatRequest, exchange: Exchange, scope: Scope
) -> tuple[Member, Answer]:
    """Start the answer on the first replica that takes it.

    Returns:
        The replica and its answer; the answer must be given back to `Member.close`.

    Raises:
        BackendError: None took it; the error is that of the last one tried.
    """
    failure: BackendError | None = None
    for model, member in _candidates(services, exchange):
        exchange.model, exchange.member = model, member
        exchange.attempts += 1
        if exchange.asked is None:
            exchange.asked = services.clock.monotonic()
        try:
            return member, await member.open(_request(caller, chat, exchange, member, scope))
        except (BackendUnavailable, BackendOverloaded) as error:
            failure = error
            _note_failure(services, exchange, member, error)
    nobody = failure or all_tried(exchange.model)
    exchange.model, exchange.member = "", None  # the notes have who was asked
    raise nobody


def _candidates(services: Services, exchange: Exchange) -> Iterator[tuple[str, Member]]:
    """Yield where to try, in order: the replicas of the chosen model, then those of its fallbacks."""
    if exchange.decision is None:
        return
    for model in (exchange.decision.model, *exchange.decision.fallbacks):
        tried: list[Member] = []
        while len(tried) < REPLICAS_PER_MODEL and (member := services.fleet.place(model, tried)) is not None:
            tried.append(member)
            yield model, member


def _note_failure(services: Services, exchange: Exchange, member: Member, error: BackendError) -> None:
    services.fleet.failed(member)
    services.telemetry.upstream_failed(member.replica.name, error)
    exchange.notes.append(str(error))
    log.warning("%s: %s (%s)", exchange.id, error, error.__cause__ or "no more is known")


def _request(
    caller: Caller, chat: ChatRequest, exchange: Exchange, member: Member, scope: Scope
) -> InferenceRequest:
    replica = member.replica
    salted = replica.flavour is EngineFlavour.VLLM and not caller.tenant.shared_cache
    body = chat.upstream_body(
        replica.upstream_model,
        max_output_tokens=exchange.decision.max_output_tokens if exchange.decision else None,
        cache_salt=caller.tenant.name if salted else None,
    )
    trace = header(scope, b"traceparent")
    return InferenceRequest(CHAT_PATH, body, chat.stream, {"traceparent": trace} if trace else {})


async def _plain(services: Services, exchange: Exchange, answer: Answer, reply: Reply) -> None:
    parts: list[bytes] = []
    size = 0
    while part := await answer.read():
        size += len(part)
        if size > MAX_ANSWER:
            raise _broken(exchange, f"sent more than {MAX_ANSWER} bytes")
        parts.append(part)
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    try:
        exchange.usage = usage_of_answer(body)
    except ValueError as error:
        raise _broken(exchange, str(error)) from error
    record = await _settle(services, exchange, "ok", 200, "", wait=True)
    headers = exchange.headers()
    if record is not None:
        headers[HEADER + "cached-tokens"] = str(record.cached_tokens)
        headers[HEADER + "cost-usd"] = f"{record.cost_usd:.9f}"
    await reply.whole(200, "application/json", headers, body)


async def _stream(services: Services, exchange: Exchange, answer: Answer, reply: Reply) -> None:
    relay = Relay(show_usage=exchange.chat.wants_usage if exchange.chat else False)
    exchange.stream_state = state = relay.state
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no", **exchange.headers()}
    await reply.start(200, answer.content_type, headers)
    while not state.done and (piece := await answer.read()):
        try:
            passed = relay.feed(piece)
        except ValueError as error:
            raise _broken(exchange, str(error)) from error
        if state.has_token and exchange.first_token is None:
            exchange.first_token = services.clock.monotonic()
        if passed:
            await reply.write(passed)
    relay.check_end(exchange.member.replica.name if exchange.member else "")
    if state.failed:
        await _settle(services, exchange, "incomplete", 200, "upstream_error", wait=True)
    else:
        await _settle(services, exchange, "ok", 200, "", wait=True)
    await reply.end(DONE if state.done else b"")


async def _fail(services: Services, exchange: Exchange, error: Exception, reply: Reply) -> None:
    """Tell the client of an error: by a status while none was sent, else by an event and no `[DONE]`."""
    answer = to_answer(error)
    if answer.status >= 500:
        known = isinstance(error, BackendError)
        log.error("%s: %s", exchange.id, error, exc_info=None if known else error)
    code = answer.code or answer.type
    if not reply.started:
        await _settle(services, exchange, "error", answer.status, code, wait=True)
        await reply.whole(
            answer.status, "application/json", {**exchange.headers(), **answer.headers}, answer.body()
        )
        return
    if isinstance(error, BackendError) and exchange.member is not None:
        services.telemetry.upstream_failed(error.replica, error)
    await _settle(services, exchange, "incomplete", 200, code, wait=True)
    await reply.end(b"data: " + answer.body() + b"\n\n")


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
    prices = services.prices.get(exchange.model, Prices())
    record = exchange.record(status, http_status, error, prices)
    services.telemetry.settled(record)
    writing = services.ledger.record(record)
    if wait:
        with contextlib.suppress(
            LedgerUnavailable
        ):  # the record is in the log; no answer is held back for it
            await writing
    return record


def _broken(exchange: Exchange, what: str) -> BackendError:
    name = exchange.member.replica.name if exchange.member else ""
    return BackendError(f"Replica {name} failed: {what}.", replica=name)
