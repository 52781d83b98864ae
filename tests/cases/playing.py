"""What engines are told to say, how clients ask, and what they got."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from backends.fleet import Member
from backends.types import CHAT_PATH
from gateway.exchange import HEADER
from gateway.records import RequestRecord
from tests.fakes.upstream import Script, ScriptedUpstream, Talk
from tests.support.gateway import KEY, GatewayUnderTest

PATH = CHAT_PATH
DONE = "data: [DONE]\n\n"
NO_FALLBACK: Mapping[str, Any] = {"routing": {"fallback": []}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
EASY = "Which river flows through Vienna?"
HARD = (
    "Prove that there are infinitely many primes congruent to 3 modulo 4. Give every step of the argument, "
    "justify each one, and then explain why the same proof fails for 1 modulo 4."
)


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> str:
    """Return an event with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"choices": [choice], **more})


def event(fields: Mapping[str, Any]) -> str:
    """Return an event of a chat stream."""
    body = {"id": "cmpl-7", "object": "chat.completion.chunk", "created": 7, "model": "engine", **fields}
    return f"data: {json.dumps(body, separators=(',', ':'), ensure_ascii=False)}\n\n"


def word(text: str, **more: Any) -> str:
    """Return an event with a piece of text."""
    return chunk({"content": text}, **more)


def counted(prompt: int, completion: int) -> dict[str, int]:
    """Return usage as engines write it."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


ROLE = chunk({"role": "assistant", "content": ""})
STOP = chunk({}, "stop")


def streaming(
    *pieces: str | bytes,
    then: Literal["end", "cut", "hang"] = "end",
    content_type: str = "text/event-stream",
) -> Script:
    """Return a script that sends the pieces, and then ends well, drops the connection, or says no more."""

    async def script(talk: Talk) -> None:
        await talk.head(headers={"content-type": content_type})
        for piece in pieces:
            await talk.send(piece)
        match then:
            case "end":
                await talk.end()
            case "cut":
                talk.abort()
            case "hang":
                await talk.until_closed()

    return script


def answering(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Script:
    """Return a script that sends one JSON answer."""

    async def script(talk: Talk) -> None:
        await talk.json(body, status, headers)

    return script


def going_on(while_: Callable[[], bool], pause: float) -> Script:
    """Return a script that streams a word after each pause for as long as that holds, and then ends well."""

    async def script(talk: Talk) -> None:
        await talk.head()
        while while_():
            await talk.send(word("on "))
            await asyncio.sleep(pause)
        for piece in (STOP, DONE):
            await talk.send(piece)
        await talk.end()

    return script


async def silent(talk: Talk) -> None:
    """Take the request and say nothing until the peer leaves."""
    await talk.until_closed()


def chat(content: Any = EASY, **fields: Any) -> dict[str, Any]:
    """Return a chat body; for flash unless `model` says otherwise."""
    return {"model": "flash", "messages": [{"role": "user", "content": content}], **fields}


def tool_turns(question: str = EASY, **reasoning: str) -> list[dict[str, Any]]:
    """Return a conversation in the middle of a tool loop."""
    call = {"id": "one", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, **reasoning, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "one", "content": '{"sun":true}'},
    ]


async def ask(
    gateway: GatewayUnderTest,
    content: Any = EASY,
    *,
    key: str | None = KEY,
    headers: Mapping[str, str] | None = None,
    path: str = PATH,
    **fields: Any,
) -> httpx.Response:
    """Post a chat body and read the whole answer."""
    async with gateway.http(key) as client:
        return await client.post(path, json=chat(content, **fields), headers=headers)


def raw_json(body: Any) -> bytes:
    """Return a whole answer, as it stands on the wire."""
    data = json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
    return head + data


async def by_hand(
    gateway: GatewayUnderTest,
    *headers: bytes,
    body: bytes | None = None,
    first: bytes = b"POST %s HTTP/1.1" % PATH.encode(),
) -> tuple[int, bytes]:
    """Send over a bare socket, with any bytes as headers; return the status and the body.

    A head that says itself how long its body is gets no length of ours.
    """
    data = json.dumps(chat()).encode() if body is None else body
    host, port = urlsplit(gateway.url).hostname, urlsplit(gateway.url).port
    reader, writer = await asyncio.open_connection(host, port)
    framed = any(line.lower().startswith((b"content-length", b"transfer-encoding")) for line in headers)
    length = [] if framed else [b"content-length: %d" % len(data)]
    try:
        lines = [first, b"host: x", b"connection: close", *headers, *length, b"", data]
        writer.write(b"\r\n".join(lines))
        await writer.drain()
        async with asyncio.timeout(10):
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), rest
    finally:
        writer.close()


def payloads(answer: httpx.Response) -> list[Any]:
    """Return what every data event of a stream holds, `[DONE]` left out; all else must be JSON."""
    events = [part for part in answer.content.decode().split("\n\n") if part and not part.startswith(":")]
    assert all(part.startswith("data: ") and "\n" not in part for part in events), events
    return [json.loads(part[6:]) for part in events if part != "data: [DONE]"]


def deltas(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the deltas of a stream."""
    return [choice["delta"] for body in payloads(answer) for choice in body.get("choices") or ()]


def text_of(answer: httpx.Response) -> str:
    """Return the text of a stream."""
    return "".join(delta.get("content") or "" for delta in deltas(answer))


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of an answer that is one, in OpenAI's shape."""
    assert answer.headers["content-type"] == "application/json", answer.text
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    return error


def error_in(answer: httpx.Response) -> dict[str, Any]:
    """Return the error that ends a stream, which has no `[DONE]` and no finish."""
    assert answer.status_code == 200
    assert "[DONE]" not in answer.text
    *before, last = payloads(answer)
    assert not any(choice.get("finish_reason") for body in before for choice in body.get("choices") or ())
    return last["error"]


async def record_of(gateway: GatewayUnderTest, answer: httpx.Response) -> RequestRecord:
    """Return the record of an answered request."""
    return await gateway.record(answer.headers[f"{HEADER}request-id"])


def member(gateway: GatewayUnderTest, replica: str = "flash/main/0") -> Member:
    """Return a replica at work."""
    return next(m for _, m in gateway.services.fleet.members() if m.replica.name == replica)


def asked(*upstreams: ScriptedUpstream) -> int:
    """Count the requests that engines got."""
    return sum(len(upstream.requests) for upstream in upstreams)
