"""What placement is told of a request: the names of its prompt's groups, in the eyes of each model."""

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
from backends.placement.volatile import Volatile, find_volatile
from backends.types import CHAT_PATH, COMPLETIONS_PATH
from gateway.errors import ConfigInvalid
from gateway.requests.chat import SYSTEM_ROLES
from gateway.requests.protocol import ClientRequest
from policies.types import Tenant

log = logging.getLogger(__name__)

LARGE = 32 * 1024
"""Bytes of a prompt from which on it is read beside the loop."""

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


async def prompt_of(
    namers: Mapping[str, PromptNamer], model: str, request: ClientRequest, tenant: Tenant
) -> Prompt:
    """Return what placement needs to know of a request; a long one is read beside the loop.

    Args:
        namers: By model.
        model: That the request is for.
        request: The client's.
        tenant: Whose it is.
    """
    text = _text_of(request, salt_of(tenant))
    if text is None or text.size() < LARGE:
        return _name(namers[model], text, request)
    return await asyncio.to_thread(namers[model].name, text)


def prompt_of_small(
    namers: Mapping[str, PromptNamer], model: str, request: ClientRequest, tenant: Tenant
) -> Prompt:
    """Return the same; a long prompt, which would hold up the loop, stays without names."""
    text = _text_of(request, salt_of(tenant))
    return _name(namers[model], text if text is None or text.size() < LARGE else None, request)


def _name(namer: PromptNamer, text: PromptText | None, request: ClientRequest) -> Prompt:
    return Prompt(request.input_tokens()) if text is None else namer.name(text)


def salt_of(tenant: Tenant) -> str:
    """Return what keeps the prefixes of a tenant apart; empty where it shares them."""
    return "" if tenant.shared_cache else tenant.name


def volatile_in(request: ClientRequest) -> Volatile | None:
    """Return what seems to change from request to request near the head of the system prompt."""
    first = request.messages[0] if request.messages else None
    return None if first is None or first.role not in SYSTEM_ROLES else find_volatile(first.text())


def _text_of(request: ClientRequest, salt: str) -> PromptText | None:
    """Return the prompt, None where there is no one text whose beginning could be reused."""
    fields = request.fields
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
