"""Waiting for a condition."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str, *, patience: float = 20.0
) -> None:
    """Wait until a condition holds; fail, naming it, when it does not within `patience` seconds."""
    try:
        async with asyncio.timeout(patience):
            while True:
                held = condition()
                if await held if inspect.isawaitable(held) else held:
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {patience:g} s in vain for {what}") from None
