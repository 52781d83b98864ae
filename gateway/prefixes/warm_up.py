"""A prefix as a replica is asked for it: the request of a client, but for its last turn.

It goes the way of a client's request, so that the engine renders the same tokens: the tenant's salt, the
engine's name of the model, the words of its dialect, the chat template with the same tools and switches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw

from backends.types import CHAT_PATH, EngineFlavour, InferenceRequest, Pool, Replica
from gateway.requests.body import as_raw, read_field
from gateway.requests.chat import ChatRequest, parse_chat
from gateway.requests.message import Message
from gateway.requests.upstream import upstream_body
from gateway.thinking.adapting import adapt
from gateway.thinking.wishes import read_wish
from policies.types import ModelTable, Prefix

TURN: Mapping[str, str] = {"role": "user", "content": "."}
"""Stands in for what a user will say: many templates refuse a chat without any, or end it otherwise."""

LAST = 1000
"""`priority` in vLLM: a higher one is served later; clients' requests have 0 or thereabouts."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a replica is asked for.

    Attributes:
        identity: Of the rendered prompt: another one for another text, tools, model, switches or salt.
        fields: Of the body.
        flavour: What runs there.
    """

    identity: str
    fields: Mapping[str, Raw]
    flavour: EngineFlavour

    def request(self, *, pin: bool | None, last: bool, patience: float) -> InferenceRequest:
        """Return the request for one token.

        Args:
            pin: Whether GSM shall keep it from eviction, or no longer; None says nothing.
            last: Whether all others go first; only for an engine that is known to take a priority.
            patience: Seconds.
        """
        fields = dict(self.fields)
        if self.flavour is EngineFlavour.VLLM and last:
            fields["priority"] = as_raw(LAST)
        if self.flavour is EngineFlavour.VLLM and pin is not None:
            fields["kv_transfer_params"] = as_raw({"gsm_pin": pin})
        return InferenceRequest(
            CHAT_PATH, msgspec.json.encode(fields), stream=False, headers={}, patience=patience
        )


def as_request(prefix: Prefix, model: str) -> ChatRequest:
    """Return a prefix as a client's request for one token.

    Raises:
        BodyInvalid: No client's request could begin so.
    """
    fields = msgspec.json.decode(prefix.fields, type=dict[str, Any])
    if fields["messages"][-1]["role"] != "user":
        fields["messages"].append(TURN)
    return parse_chat(msgspec.json.encode({"model": model, **fields, "max_tokens": 1}))


def warm_up_for(
    prefix: Prefix, model: str, replica: Replica, pool: Pool, *, salt: str | None, models: ModelTable
) -> WarmUp:
    """Return what a replica is asked for.

    Args:
        prefix: Of a tenant.
        model: The replica's.
        replica: Who is asked.
        pool: Its pool.
        salt: Of the tenant.
        models: Every configured model.

    Raises:
        BodyInvalid: No client's request could begin so.
    """
    request = as_request(prefix, model)
    adapted = adapt(request.fields, read_wish(request.fields, model, models), replica, pool.thinking)
    body = upstream_body(
        request, replica.upstream_model, max_output_tokens=1, cache_salt=salt, adapted=adapted.fields
    )
    identity = blake2b(body, digest_size=8).hexdigest()
    return WarmUp(identity, msgspec.json.decode(body, type=dict[str, Raw]), replica.flavour)


class Beginning(msgspec.Struct, frozen=True):
    """A prefix as clients' requests are compared with it.

    Attributes:
        name: The prefix's.
        turns: Role and text of its messages.
        tools: Its tools, None without.
    """

    name: str
    turns: Sequence[tuple[str, str]]
    tools: Any

    def fits(self, messages: Sequence[Message], tools: Raw | None) -> bool:
        """Tell whether a request begins so."""
        if len(messages) < len(self.turns):
            return False
        same = all(
            m.role == role and m.text() == text for m, (role, text) in zip(messages, self.turns, strict=False)
        )
        return same and (_decoded(tools) or None) == self.tools


def beginning_of(prefix: Prefix) -> Beginning:
    """Return what clients' requests are compared with.

    Raises:
        BodyInvalid: No client's request could begin so.
    """
    request = as_request(prefix, "any")
    count = len(msgspec.json.decode(prefix.fields)["messages"])
    turns = [(message.role, message.text()) for message in request.messages[:count]]
    return Beginning(prefix.name, turns, read_field(request.fields, "tools", list[Any]) or None)


def _decoded(tools: Raw | None) -> Any:  # noqa: ANN401 - JSON
    return None if tools is None else msgspec.json.decode(tools)
