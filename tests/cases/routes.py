"""Asking a gateway where a conversation goes."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.exchange import HEADER
from tests.cases.playing import ask
from tests.support.gateway import GatewayUnderTest

LONG_ANSWER = (
    "Here is the whole of it. " + "As shown above, the next line follows from the one before. " * 120
)
Messages = Sequence[Mapping[str, Any]]


def turns(*texts: str) -> list[dict[str, Any]]:
    """Return a conversation in which user and assistant take turns, the user first."""
    roles = ("user", "assistant") * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


async def route(gateway: GatewayUnderTest, *texts: str) -> str:
    """Return the model that answers the last of the texts."""
    return await route_of(gateway, turns(*texts))


async def route_of(gateway: GatewayUnderTest, messages: Messages) -> str:
    """Return the model that answers the messages."""
    return (await reply_to(gateway, messages))[0]


async def reply_to(gateway: GatewayUnderTest, messages: Messages) -> tuple[str, float]:
    """Return the model that answers the messages, and the score."""
    reply = await ask(gateway, model="auto", messages=messages)
    assert reply.status_code == 200, reply.text
    return reply.headers[f"{HEADER}model"], float(reply.headers[f"{HEADER}complexity"])
