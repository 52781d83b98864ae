"""Work with a bound on its time, and a ledger that is waited for so long and no longer."""

import asyncio

import pytest

from gateway import ledger
from gateway.http import within


class TooLateError(Exception):
    """What late work raises here."""


async def test_work_that_is_done_at_once_sets_no_timer():
    async def work() -> str:
        return "here"

    assert await within(-1.0, TooLateError, work()) == "here"


async def test_work_that_waits_is_finished_in_its_own_time():
    gate = asyncio.get_running_loop().create_future()

    async def work() -> str:
        await asyncio.sleep(0)
        found = await gate
        await asyncio.sleep(0)
        return found

    asyncio.get_running_loop().call_soon(gate.set_result, "那里")
    assert await within(60.0, TooLateError, work()) == "那里"


async def test_late_work_is_cancelled_and_raises_the_error():
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append("up")

    with pytest.raises(TooLateError):
        await within(0.01, TooLateError, work())
    assert cleaned == ["up"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("waits", [0, 2])
async def test_an_error_of_the_work_passes(waits: int):
    async def work() -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        raise KeyError("of its own")

    with pytest.raises(KeyError, match="of its own"):
        await within(60.0, TooLateError, work())


async def test_a_cancellation_from_outside_reaches_the_work_and_stays_one():
    seen: list[str] = []
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.get_running_loop().create_task(within(60.0, TooLateError, work()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_work_may_take_an_error_of_what_it_waits_for():
    gate = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await gate
        except ValueError:
            await asyncio.sleep(0)
            return "made good"
        return "never"

    asyncio.get_running_loop().call_soon(gate.set_exception, ValueError())
    assert await within(60.0, TooLateError, work()) == "made good"


async def test_records_that_wait_too_long_fail_each_in_its_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ledger, "PATIENCE_SECONDS", 0.02)
    patience = ledger._Patience()  # pyright: ignore[reportPrivateUsage]
    loop = asyncio.get_running_loop()
    first, done = loop.create_future(), loop.create_future()
    patience.watch(first)
    patience.watch(done)
    done.set_result(None)
    with pytest.raises(ledger.LedgerUnavailable, match="slow"):
        await first
    later = loop.create_future()
    patience.watch(later)
    with pytest.raises(ledger.LedgerUnavailable, match="slow"):
        await later
    assert done.result() is None
