"""Is an engine there? Asked over a plain socket, without an HTTP client's pools and retries."""

import asyncio
import socket
from typing import Final

_HOST: Final = "127.0.0.1"
_REPLY: Final = 64  # bytes of an answer that are looked at


async def http_ok(port: int, path: str) -> bool:
    """Tell whether GET `path` on a loopback port is answered with status 200; without a time limit."""
    request = f"GET {path} HTTP/1.1\r\nHost: {_HOST}:{port}\r\nConnection: close\r\n\r\n"
    protocol, _, rest = (await _first_line(port, request.encode())).partition(b" ")
    return protocol in {b"HTTP/1.0", b"HTTP/1.1"} and rest.startswith(b"200")


async def redis_pong(port: int) -> bool:
    """Tell whether a Redis-protocol server on a loopback port answers PING; without a time limit."""
    return await _first_line(port, b"PING\r\n") == b"+PONG\r\n"


async def _first_line(port: int, request: bytes) -> bytes:
    """Send a request and return the first line of the answer; what came before a failure when it fails."""
    try:
        reader, writer = await asyncio.open_connection(_HOST, port, limit=_REPLY)
    except OSError:
        return b""
    try:
        writer.write(request)
        return await reader.readline()
    except (OSError, ValueError):  # reset, or a line that no engine of ours begins with
        return b""
    finally:
        writer.transport.abort()  # nothing more is wanted, and nothing is to wait for


def free_port() -> int:
    """Return a loopback TCP port that nobody listens on now; another process may still take it."""
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
    return port


def is_free(port: int) -> bool:
    """Tell whether an engine could listen on a loopback port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as engines do, after a restart
        try:
            listener.bind((_HOST, port))
        except OSError:
            return False
    return True
