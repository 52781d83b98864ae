"""An engine that tells what it caches, as vLLM does (`distributed/kv_events.py`)."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import zmq
import zmq.asyncio

BLOCK = 4
"""Tokens a block."""

Event = dict[str, Any]


def stored(blocks: Sequence[bytes], tokens: Sequence[int], parent: bytes | None = None, **more: Any) -> Event:
    return {
        "type": "BlockStored",
        "block_hashes": list(blocks),
        "parent_block_hash": parent,
        "token_ids": list(tokens),
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **more,
    }


def removed(*blocks: bytes, medium: str = "GPU") -> Event:
    return {"type": "BlockRemoved", "block_hashes": list(blocks), "medium": medium}


CLEARED: Event = {"type": "AllBlocksCleared"}


def batch(*events: Event) -> bytes:
    return msgspec.msgpack.encode([0.0, list(events), 0])


@asynccontextmanager
async def at_work(context: zmq.asyncio.Context, *work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run what publishes and what follows; both end, and their sockets with them, at the end."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        context.destroy(linger=0)


class KvPublisher:
    """Publishes as vLLM's `ZmqEventPublisher` does, and sends again what is asked for."""

    def __init__(self, context: zmq.asyncio.Context) -> None:
        # pyzmq leaves what its sockets take and give half untyped
        self._socket: Any = context.socket(zmq.XPUB)
        self._replay: Any = context.socket(zmq.ROUTER)
        self.address = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.replay = f"tcp://127.0.0.1:{self._replay.bind_to_random_port('tcp://127.0.0.1')}"
        self.sent: list[bytes] = []

    async def subscribed(self) -> None:
        await self._socket.recv()

    async def heard_of(self) -> str:
        """Wait for a reader to come or to go, and tell which it was."""
        return "subscribed" if (await self._socket.recv())[0] else "left"

    async def publish(self, *events: Event, lost: bool = False) -> None:
        self.sent.append(batch(*events))
        if not lost:
            number = len(self.sent) - 1
            await self._socket.send_multipart([b"", number.to_bytes(8, "big"), self.sent[number]])

    async def serve_replay(self) -> None:
        while True:
            client, _, start = await self._replay.recv_multipart()
            for number in range(int.from_bytes(start, "big"), len(self.sent)):
                await self._replay.send_multipart(
                    [client, b"", b"", number.to_bytes(8, "big"), self.sent[number]]
                )
            await self._replay.send_multipart([client, b"", b"", (-1).to_bytes(8, "big", signed=True), b""])
