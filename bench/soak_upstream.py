"""Engines for the soak: quick ones, that die, hang or go on for ever when a request asks them to.

A request says in its field `x_soak` what shall happen to it, and how often: one that is tried again
elsewhere meets a healthy engine in the end. All ports are in one process, so that they know of each other.
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import uvloop

WORDS = ("The ", "capital ", "of ", "France ", "is ", "Paris", ".")
USAGE = {"prompt_tokens": 24, "completion_tokens": len(WORDS), "total_tokens": 24 + len(WORDS)}
PIECE_SECONDS = 0.02
"""Between two pieces of a stream without an end."""


def event(**fields: object) -> bytes:
    """Return an event of a chat stream."""
    body = {"id": "chatcmpl-soak", "object": "chat.completion.chunk", "created": 1, "model": "soak"}
    return b"data: %s\n\n" % json.dumps(body | fields).encode()


def delta(fields: Mapping[str, str], finish: str | None = None) -> bytes:
    """Return an event with one choice."""
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


ROLE = delta({"role": "assistant", "content": ""})
WORD_EVENTS = [delta({"content": word}) for word in WORDS]
END = [delta({}, "stop"), event(choices=[], usage=USAGE), b"data: [DONE]\n\n"]
ANSWER = json.dumps(
    {
        "id": "chatcmpl-soak",
        "object": "chat.completion",
        "created": 1,
        "model": "soak",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "".join(WORDS)},
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }
).encode()


def head(content_type: str, length: int | None = None) -> bytes:
    """Return the head of an answer; one without a length is chunked."""
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()


@dataclass(frozen=True, slots=True)
class Talk:
    """One exchange."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    stream: bool

    async def say(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self) -> None:
        """Send a head, and what a reader does not see yet: a role, half of a JSON body."""
        if self.stream:
            await self.say(head("text/event-stream"))
            await self.piece(ROLE)
        else:
            await self.say(head("application/json", len(ANSWER)) + ANSWER[:20])

    async def piece(self, data: bytes) -> None:
        """Send a piece of a stream."""
        await self.say(b"%x\r\n%s\r\n" % (len(data), data))

    async def until_gone(self) -> None:
        """Wait until the peer closes the connection."""
        while await self.reader.read(65536):
            pass

    def die(self) -> None:
        """Drop the connection."""
        self.writer.transport.abort()
        raise ConnectionResetError


Play = Callable[[Talk], Awaitable[None]]


async def well(talk: Talk) -> None:
    """Answer as a healthy engine does."""
    if not talk.stream:
        await talk.say(head("application/json", len(ANSWER)) + ANSWER)
        return
    await talk.say(head("text/event-stream"))
    for data in (ROLE, *WORD_EVENTS, *END):
        await talk.piece(data)
    await talk.say(b"0\r\n\r\n")


async def die_before_head(talk: Talk) -> None:
    talk.die()


async def die_begun(talk: Talk) -> None:
    await talk.begin()
    talk.die()


async def die_half_way(talk: Talk) -> None:
    await talk.begin()
    if talk.stream:
        await talk.piece(WORD_EVENTS[0])
    talk.die()


async def end_half_way(talk: Talk) -> None:
    """Close the connection well, with the answer cut."""
    await talk.begin()
    if talk.stream:
        await talk.piece(WORD_EVENTS[0])
    raise ConnectionResetError


async def hang_before_head(talk: Talk) -> None:
    await talk.until_gone()


async def hang_begun(talk: Talk) -> None:
    await talk.begin()
    await talk.until_gone()


async def hang_half_way(talk: Talk) -> None:
    await talk.begin()
    if talk.stream:
        await talk.piece(WORD_EVENTS[0])
    await talk.until_gone()


async def go_on(talk: Talk) -> None:
    """Stream without an end."""
    await talk.begin()
    while not talk.writer.is_closing():
        await talk.piece(WORD_EVENTS[0])
        await asyncio.sleep(PIECE_SECONDS)


PLAYS: Mapping[str, Play] = {
    play.__name__: play
    for play in (
        well,
        die_before_head,
        die_begun,
        die_half_way,
        end_half_way,
        hang_before_head,
        hang_begun,
        hang_half_way,
        go_on,
    )
}


@dataclass(slots=True)
class Engines:
    """All engines of the soak.

    Attributes:
        at_work: Requests on them now.
        played: How often each request has met its fault.
        served: Requests ever.
    """

    at_work: int = 0
    served: int = 0
    played: Counter[int] = field(default_factory=Counter[int])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer on one connection until it is closed."""
        try:
            while True:
                first, body = await _read(reader)
                if first.startswith(b"POST"):
                    await self._answer(reader, writer, json.loads(body))
                else:
                    page = json.dumps({"at_work": self.at_work, "served": self.served}).encode()
                    writer.write(head("application/json", len(page)) + page)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, Any]
    ) -> None:
        asked = body["x_soak"]
        play = well if self.played[asked["id"]] >= asked["times"] else PLAYS[asked["play"]]
        self.played[asked["id"]] += 1
        self.at_work += 1
        self.served += 1
        try:
            await play(Talk(reader, writer, bool(body.get("stream"))))
        finally:
            self.at_work -= 1


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    return lines[0], await reader.readexactly(length)


async def run(ports: list[int]) -> None:
    """Serve on all ports until the process is ended."""
    engines = Engines()
    servers = [await asyncio.start_server(engines.serve, "127.0.0.1", port, backlog=1024) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("ports", type=int, nargs="+")
    uvloop.run(run(parser.parse_args().ports))
