"""Clients for the soak: some stay, some leave at every point of an answer, some have no key or no JSON."""

import asyncio
import contextlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MODELS = ("auto", "flash", "standard")
QUESTIONS = (
    "What is the capital of France?",
    "Prove that there are infinitely many primes congruent to 3 modulo 4, and justify every step.",
    "\u6cd5\u56fd\u7684\u9996\u90fd\u662f\u54ea\u91cc\uff1f",
    "Is a clause that caps liability enforceable when the supplier was grossly negligent?",
)
SHARES = {"leaves": 0.10, "dies": 0.05, "hangs": 0.05, "stranger": 0.01, "no json": 0.01}
"""Of all requests; the rest are asked well, and of engines that are well."""

DEATHS = ("die_before_head", "die_begun", "die_half_way", "end_half_way")
HANGS = ("hang_before_head", "hang_begun", "hang_half_way")
MOST_SECONDS = 0.6
"""Longest time after which a client leaves."""

PATIENCE_SECONDS = 60.0
"""After which a client that stayed says that it got no answer."""


class Leaves(StrEnum):
    """When a client closes its connection."""

    BODY = "in its own body"
    AT_ONCE = "right after its request"
    SILENCE = "before the first byte"
    BEGUN = "after the head"
    STREAM = "in the middle of the stream"


class End(StrEnum):
    """How a request ended, as its client saw it."""

    WHOLE = "answered whole"
    BUSY = "503: no replica now"
    STATUS = "another error status"
    EVENT = "an error event in the stream"
    LEFT = "the client left"
    NOTHING = "no answer, or one that was cut"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request to make.

    Attributes:
        kind: A key of `SHARES`, or "well".
        play: What the engine shall do; see `bench.soak_upstream.PLAYS`.
        times: To how many attempts it shall do so.
        leaves: When the client leaves; None when it stays.
        stays: It leaves after so many seconds even when that moment has not come.
    """

    number: int
    kind: str
    model: str
    stream: bool
    question: str
    play: str = "well"
    times: int = 1
    leaves: Leaves | None = None
    stays: float = 0.0

    @property
    def has_tenant(self) -> bool:
        """Tell whether the gateway knows who asks, and so keeps a record."""
        return self.kind != "stranger"

    def request(self, key: str) -> bytes:
        """Return the request as it goes over the wire."""
        asked = {"id": self.number, "play": self.play, "times": self.times}
        messages = [{"role": "user", "content": f"{self.question} ({self.number})"}]
        fields: Mapping[str, Any] = {"model": self.model, "messages": messages, "stream": self.stream}
        body = b"{no json" if self.kind == "no json" else json.dumps({**fields, "x_soak": asked}).encode()
        key = "sk-fl-of-nobody" if self.kind == "stranger" else key
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\n"
            b"authorization: Bearer %s\r\ncontent-length: %d\r\n\r\n%s" % (key.encode(), len(body), body)
        )


def visits(count: int, chance: random.Random) -> Iterator[Visit]:
    """Yield so many requests, in `SHARES`."""
    for number in range(count):
        kinds, weights = [*SHARES, "well"], [*SHARES.values(), 1 - sum(SHARES.values())]
        kind = chance.choices(kinds, weights)[0]
        stream = chance.random() < 0.5
        plan: dict[str, Any] = {}
        if kind == "leaves":
            leaves = chance.choice([when for when in Leaves if stream or when is not Leaves.STREAM])
            plays = {Leaves.SILENCE: "hang_before_head", Leaves.BEGUN: "hang_begun", Leaves.STREAM: "go_on"}
            plan = {"leaves": leaves, "play": plays.get(leaves, "well")}
            plan["stays"] = chance.uniform(0.0, MOST_SECONDS)
        elif kind == "dies":
            plan = {"play": chance.choice(DEATHS), "times": chance.choice((1, 2))}
        elif kind == "hangs":
            plan = {"play": chance.choice(HANGS)}
        yield Visit(number, kind, chance.choice(MODELS), stream, chance.choice(QUESTIONS), **plan)


class Client:
    """Makes one request after the other; keeps its connection as long as the gateway does."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def make(self, visit: Visit) -> End:
        """Make a request, and leave when it says so."""
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        reader, writer = self._connection
        request = visit.request(self._key)
        try:
            writer.write(request[: -len(request) // 8] if visit.leaves is Leaves.BODY else request)
            async with asyncio.timeout(PATIENCE_SECONDS):
                if visit.leaves is not None:
                    await self._leave(visit, reader, writer)
                    return End.LEFT
                return await self._read(visit, reader)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            self.close()
            return End.LEFT if visit.leaves is not None else End.NOTHING

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    async def _leave(self, visit: Visit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wait for the moment and close; a plain answer shows nothing of itself before its end."""
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(visit.stays):
                match visit.leaves:
                    case Leaves.BODY | Leaves.SILENCE | Leaves.BEGUN:
                        await reader.read(1)
                    case Leaves.STREAM:
                        for _ in range(4):
                            await reader.readuntil(b"data: ")
                    case _:
                        pass
        self.close()

    async def _read(self, visit: Visit, reader: asyncio.StreamReader) -> End:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None
        )
        body = await (_chunked(reader) if length is None else reader.readexactly(length))
        if b"connection: close" in head:
            self.close()
        if status != 200:
            return End.BUSY if status == 503 else End.STATUS
        if not visit.stream:
            return End.WHOLE if json.loads(body)["choices"] else End.NOTHING
        if body.endswith(b"data: [DONE]\n\n"):
            return End.WHOLE
        return End.EVENT if b'data: {"error":' in body else End.NOTHING


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return b"".join(parts)
