"""An engine with a prefix cache of blocks, which tells how many tokens of a prompt were in it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer

from tests.fakes.tokenizer import tokens_of, trained
from tests.fakes.upstream import Talk

BLOCK = 16
"""Tokens a block."""


@dataclass(slots=True)
class CachingEngine:
    """Answers chats as vLLM does; `script` is for a `ScriptedUpstream`.

    Attributes:
        seconds: How long it takes to its first token.
        caches: Whether it keeps what it read.
        cached: Tokens that were in the cache, of each answer, oldest first.
        prompts: Tokens of the prompts, oldest first.
        bodies: Of the requests, oldest first.
        running: Requests at work now.
        most_running: The most at once.
    """

    seconds: float = 0.0
    caches: bool = True
    cached: list[int] = field(default_factory=list[int])
    prompts: list[int] = field(default_factory=list[int])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    running: int = 0
    most_running: int = 0
    _blocks: set[tuple[str, tuple[int, ...]]] = field(default_factory=set[tuple[str, tuple[int, ...]]])
    _tokenizer: Tokenizer = field(default_factory=trained)

    def clear(self) -> None:
        """Forget all, and tell nobody."""
        self._blocks.clear()

    async def script(self, talk: Talk) -> None:
        """Answer one chat."""
        body = talk.request.json()
        tokens = tokens_of(self._tokenizer, body)
        hit = self._read(body.get("cache_salt", ""), tokens)
        self.bodies.append(body)
        self.cached.append(hit)
        self.prompts.append(len(tokens))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1  # before the answer: who has it may send the next request at once
        usage = {
            "prompt_tokens": len(tokens),
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": hit},
        }
        if body.get("stream"):
            await self._stream(talk, usage)
            return
        message = {"role": "assistant", "content": "Yes."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await talk.json({"choices": [choice], "usage": usage})

    def _read(self, salt: str, tokens: Sequence[int]) -> int:
        """Keep the blocks of a prompt; return how many tokens of it were there, not all of them ever."""
        hit, all_there = 0, True
        for end in range(BLOCK, len(tokens), BLOCK):
            block = (salt, tuple(tokens[:end]))
            all_there = all_there and block in self._blocks
            hit = end if all_there else hit
            if self.caches:
                self._blocks.add(block)
        return hit

    async def _stream(self, talk: Talk, usage: dict[str, Any]) -> None:
        await talk.head()
        for delta, finish in (({"role": "assistant", "content": "Yes."}, None), ({}, "stop")):
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            await talk.send(f"data: {json.dumps(chunk)}\n\n")
        await talk.send(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n")
        await talk.send("data: [DONE]\n\n")
        await talk.end()
