"""The client of shared state, made the same way everywhere."""

from redis.asyncio import Redis

TIMEOUT_SECONDS = 2.0


def connect(url: str) -> Redis:
    """Return a client of the Redis at `url`; nothing is connected yet, and no call waits for ever.

    Close it with `aclose`.
    """
    return Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - a keyword of it has no type
        url,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        driver_info=None,  # else each new connection reads the package's metadata from disk
    )
