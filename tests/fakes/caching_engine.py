"""A scripted engine with a prefix cache, as vLLM has one: whole blocks, apart by salt, told in `usage`."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.upstream import Talk, answer

BLOCK = 16
"""Words a block."""


def words_of(body: Mapping[str, Any]) -> list[str]:
    """Return a prompt as a chat template would write it: switches and tools at its head, then the turns."""
    head = [json.dumps(body.get(name)) for name in ("chat_template_kwargs", "reasoning_effort", "tools")]
    turns = [
        f"<{m['role']}> {m.get('content') or ''} {json.dumps(m.get('tool_calls'))}" for m in body["messages"]
    ]
    return " ".join([*head, *turns, "<assistant>"]).split()


@dataclass(slots=True)
class CachingEngine:
    """What one replica holds.

    Attributes:
        takes_priority: Whether it was started with priority scheduling; else it refuses a priority.
        tells: Whether usage says what was cached.
        gate: Closed, requests wait before they are computed.
        blocks: What is cached.
        bodies: Of all requests, oldest first.
        running: Requests that it works on now.
        most_running: Most at a time so far.
    """

    takes_priority: bool = True
    tells: bool = True
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    blocks: set[str] = field(default_factory=set[str])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    running: int = 0
    most_running: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def forget(self) -> None:
        """Lose everything, as by a restart or for want of room."""
        self.blocks.clear()

    def counts(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Return how many words a prompt has, and how many of them are cached; it is, then."""
        words, name, cached = words_of(body), str(body.get("cache_salt")), 0
        for end in range(BLOCK, len(words), BLOCK):
            name = f"{hash((name, *words[end - BLOCK : end]))}"
            if name in self.blocks and cached == end - BLOCK:
                cached = end
            self.blocks.add(name)
        return len(words), cached

    async def __call__(self, talk: Talk) -> None:
        """Play it for a request."""
        body = talk.request.json()
        self.bodies.append(body)
        if body.get("priority") and not self.takes_priority:
            await talk.json({"error": {"message": "Priority scheduling is not enabled.", "code": 400}}, 400)
            return
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
            prompt, cached = self.counts(body)
        finally:
            self.running -= 1
        said = answer(prompt=prompt, cached=cached if self.tells else 0, completion=1)
        await talk.json(said)

    def warm_ups(self, is_one: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> list[dict[str, Any]]:
        """Return the bodies that asked for one token."""
        return [body for body in self.bodies if body.get("max_tokens") == 1 and is_one(body)]
