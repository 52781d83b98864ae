"""What placement is told of a request: the pools that it is for, and the names of its prompt's groups."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Raw

from backends.placement.naming import ByteNamer, PromptNamer, PromptText, TokenNamer
from backends.placement.prompts import Prompt
from backends.placement.template import TemplateFailed, load_template
from backends.placement.tokens import PrefixTokenizer
from backends.pools.choice import PoolChoice, Work
from backends.types import CHAT_PATH, COMPLETIONS_PATH
from gateway.errors import ConfigInvalid
from gateway.exchange import Exchange
from gateway.requests.chat import SYSTEM_ROLES
from gateway.requests.protocol import ClientRequest
from gateway.services import Services
from policies.cost import cost_usd
from policies.types import FLASH, STANDARD, Caller, Decision, Tenant
from policies.volatile import Volatile, find_volatile
from policies.weighing import Candidate, may_be_weighed, weigh

log = logging.getLogger(__name__)

LARGE = 32 * 1024
"""Bytes of a prompt from which on it is read beside the loop."""

WORTH_WEIGHING = 2048
"""Tokens of a prompt below which its prefix is worth less than looking for it."""

EXPECTED_OUTPUT = 512
"""Tokens of an answer, where the client asks for no fewer."""

LONGEST_COUNT = 6
"""Digits of `n` that are believed."""

NOTHING = frozenset({b"null", b"[]", b"{}"})


def make_namer(model: str, tokenizer: Path | None, group_tokens: int) -> PromptNamer:
    """Return what names the prompts of a model.

    Args:
        model: The name that engines know it by.
        tokenizer: A folder with its tokenizer.json and chat template; None names by bytes.
        group_tokens: Tokens a group.

    Raises:
        ConfigInvalid: The folder does not hold them.
    """
    if tokenizer is None:
        return ByteNamer(model, group_tokens)
    try:
        template = load_template(tokenizer)
        return TokenNamer(model, PrefixTokenizer.load(tokenizer), template, group_tokens)
    except (OSError, ValueError, TemplateFailed) as error:
        raise ConfigInvalid(f"The tokenizer of {model!r} cannot be used: {error}") from error


async def prompt_of(services: Services, exchange: Exchange, model: str) -> Prompt:
    """Return what placement needs to know of a request for a model; a long one is read beside the loop."""
    known = exchange.prompts.get(model) or _unnamed(services, exchange, model)
    if known is not None:
        return known
    text = _text_of(services, exchange)
    if text is None or text.size() < LARGE:
        return prompt_of_small(services, exchange, model)
    prompt = await asyncio.to_thread(services.namers[model].name, text)
    exchange.prompts[model] = prompt
    return prompt


def prompt_of_small(services: Services, exchange: Exchange, model: str) -> Prompt:
    """Return the same; a long prompt, which would hold up the loop, stays without names."""
    known = exchange.prompts.get(model) or _unnamed(services, exchange, model)
    if known is not None:
        return known
    text = _text_of(services, exchange)
    if text is None or text.size() >= LARGE:
        request = exchange.request
        return Prompt(0 if request is None else request.input_tokens())
    prompt = exchange.prompts[model] = services.namers[model].name(text)
    return prompt


def _unnamed(services: Services, exchange: Exchange, model: str) -> Prompt | None:
    """Return a prompt of less than a group as it is, where one replica is all there is: it has no names."""
    request = exchange.request
    if request is None or services.fleet.has_choice(model):
        return None
    tokens = request.input_tokens()
    return Prompt(tokens) if tokens < services.namers[model].group_tokens else None


class Pooled(msgspec.Struct, frozen=True):
    """The pools of a model that a request is for.

    Attributes:
        choice: Which, in order, and why the first is first.
        conversation: What is to be at home in the pool that answers; None where there is no choice.
    """

    choice: PoolChoice
    conversation: int | None = None

    @property
    def stays(self) -> bool:
        """Whether its conversation is at home in the first of them."""
        return self.choice.reason == "home"


def pools_of(services: Services, exchange: Exchange, model: str, decision: Decision) -> Pooled:
    """Return the pools of a model that a request is for."""
    desk, request, caller = services.desk, exchange.request, exchange.caller
    only = desk.only(model)
    if only is not None:
        return Pooled(only)
    if request is None or caller is None:
        return Pooled(desk.choose(model, Work(is_chat=False)))
    conversation = _conversation(request, caller) if model in desk.speculations else None
    home = None if conversation is None else desk.homes.find(conversation, services.clock.monotonic())
    work = Work(
        is_chat=request.path == CHAT_PATH and choices_of(request) == 1,
        input_tokens=request.input_tokens(),
        output_tokens=decision.max_output_tokens or request.max_output_tokens,
        may_speculate=caller.tenant.routing.speculation,
        home=home,
    )
    return Pooled(desk.choose(model, work), conversation)


def choices_of(request: ClientRequest) -> int:
    """Return how many answers a request is for."""
    count = bytes(request.fields.get("n", b"1"))
    return int(count) if count.isdigit() and len(count) < LONGEST_COUNT else 1


def _conversation(request: ClientRequest, caller: Caller) -> int | None:
    """Return what stays the same over the turns of a conversation; None when no user speaks in it."""
    messages = request.messages
    asked = next((message for message in messages if message.role == "user"), None)
    if asked is None:
        return None
    return hash((caller.tenant.name, messages[0].text(), asked.text()))


async def weighed(services: Services, exchange: Exchange, decision: Decision) -> Decision:
    """Return the decision that counts what a switch of models would throw away; see `policies.weighing`."""
    request = exchange.request
    if request is None or not may_be_weighed(decision):
        return decision
    if request.input_tokens() < WORTH_WEIGHING:
        return decision
    found = [await _candidate(services, exchange, model, decision) for model in (FLASH, STANDARD)]
    return weigh(decision, [candidate for candidate in found if candidate is not None])


async def _candidate(
    services: Services, exchange: Exchange, model: str, decision: Decision
) -> Candidate | None:
    prompt = await prompt_of(services, exchange, model)
    order = pools_of(services, exchange, model, decision).choice.order
    places = (services.fleet.place(model, (), prompt, pools) for pools in order)
    placed, request = next((place for place in places if place is not None), None), exchange.request
    if placed is None or request is None:
        return None
    asked = [limit for limit in (request.max_output_tokens, decision.max_output_tokens) if limit is not None]
    cost = cost_usd(
        services.prices[model],
        prompt=prompt.tokens,
        cached=placed.choice.cached,
        completion=min([EXPECTED_OUTPUT, *asked]),
    )
    member = placed.member
    return Candidate(
        model, member.pool.name, member.replica.name, float(cost), placed.choice.ttft, placed.choice.cached
    )


def salt_of(services: Services, tenant: Tenant) -> str:
    """Return what keeps the prefixes of a tenant apart, as engines get it; empty where it shares them."""
    return "" if tenant.shared_cache else services.salts.of_name(tenant.name)


def volatile_in(request: ClientRequest) -> Volatile | None:
    """Return what seems to change from request to request near the head of the system prompt."""
    first = request.messages[0] if request.messages else None
    if first is None or first.role not in SYSTEM_ROLES:
        return None
    return find_volatile([("messages[0]", first.text())])


def _text_of(services: Services, exchange: Exchange) -> PromptText | None:
    """Return the prompt, None where there is no one text whose beginning could be reused."""
    request, caller = exchange.request, exchange.caller
    if request is None or caller is None:
        return None
    fields, salt = request.fields, salt_of(services, caller.tenant)
    if request.path == CHAT_PATH:
        tools, messages = _bytes(fields, "tools"), bytes(fields["messages"])
        turns = map(bytes, msgspec.json.decode(messages, type=list[Raw]))
        return PromptText(
            parts=[*([tools] if tools else ()), *turns],
            tokens=request.input_tokens(),
            salt=salt,
            messages=messages,
            tools=tools,
            options=_bytes(fields, "chat_template_kwargs"),
        )
    if request.path != COMPLETIONS_PATH or not request.has_one_prompt:
        return None
    raw = bytes(fields["prompt"])
    text = msgspec.json.decode(raw) if raw.lstrip().startswith(b'"') else None
    return PromptText(parts=[raw], tokens=request.input_tokens(), salt=salt, text=text)


def _bytes(fields: Mapping[str, Raw], name: str) -> bytes:
    found = bytes(fields.get(name, b""))
    return b"" if found.strip() in NOTHING else found
