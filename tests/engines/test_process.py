"""A supervised process, tried on real ones."""

import asyncio
import os
import signal
import socket
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.types import EngineState, EngineStatus, RestartPolicy, backoff_delay
from backends.errors import EngineFailed
from tests.engines.conftest import HASTE, Bench
from tests.support.processes import is_alive
from tests.support.waiting import until


def _pid(status: EngineStatus) -> int:
    assert status.pid is not None
    return status.pid


async def test_an_engine_answers_when_start_returns_and_is_gone_when_stop_returns(bench: Bench):
    engine = bench.engine()
    assert engine.status == EngineStatus(EngineState.STOPPED)
    await engine.start()
    pid = _pid(engine.status)
    assert engine.status == EngineStatus(EngineState.READY, pid)
    assert await engine.spec.probe()
    await engine.wait_for(lambda status: status.state is EngineState.READY)
    await engine.stop()
    assert engine.status == EngineStatus(EngineState.STOPPED)
    assert not is_alive(pid)
    await engine.stop()


async def test_a_stopped_engine_can_be_started_again(bench: Bench):
    engine = bench.engine()
    await engine.start()
    await engine.stop()
    await engine.start()
    assert engine.status.state is EngineState.READY


async def test_an_engine_that_is_stopped_at_once_is_gone(bench: Bench):
    engine = bench.engine()
    await engine.start()
    pid = _pid(engine.status)
    await engine.stop()  # before its keeper had its first turn on the loop
    assert not is_alive(pid)


async def test_a_running_engine_is_not_started_twice(bench: Bench):
    async with bench.engine() as engine:
        with pytest.raises(RuntimeError, match="fake engine runs already"):
            await engine.start()


async def test_an_engine_that_exits_at_its_start_is_named_with_its_code_and_its_last_words(bench: Bench):
    bench.broken.touch()
    engine = bench.engine()
    with pytest.raises(EngineFailed) as caught:
        await engine.start()
    message = str(caught.value)
    assert message.startswith("fake engine exited with code 3; ")
    assert message.endswith("engine.log ends with:\nthe fake engine is broken")
    assert engine.status == EngineStatus(EngineState.FAILED, last_error=message)


async def test_a_failed_engine_can_be_started_when_its_cause_is_gone(bench: Bench):
    bench.broken.touch()
    engine = bench.engine()
    with pytest.raises(EngineFailed):
        await engine.start()
    bench.broken.unlink()
    await engine.start()
    assert engine.status.state is EngineState.READY
    assert engine.status.last_error is None


async def test_a_command_that_is_not_there_is_named(bench: Bench):
    with pytest.raises(EngineFailed, match="cannot run /no/such/engine"):
        await bench.engine(replace(bench.spec(), argv=("/no/such/engine",))).start()


async def test_an_engine_that_does_not_answer_in_time_is_not_left_behind(bench: Bench):
    bench.hang.touch()
    engine = bench.engine(bench.spec(ready_timeout=0.5))
    starting = asyncio.get_running_loop().create_task(engine.start())
    pid = _pid(await engine.wait_for(lambda status: status.pid is not None))
    with pytest.raises(EngineFailed, match=r"fake engine did not answer within 0\.5 s; "):
        await starting
    assert not is_alive(pid)


async def test_a_start_that_is_cancelled_leaves_no_process(bench: Bench):
    bench.hang.touch()
    engine = bench.engine()
    starting = asyncio.get_running_loop().create_task(engine.start())
    pid = _pid(await engine.wait_for(lambda status: status.pid is not None))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not is_alive(pid)
    assert engine.status.state is EngineState.STOPPED


async def test_a_port_in_use_is_said_before_anything_is_started(bench: Bench):
    taken = pytest.raises(EngineFailed, match=rf"port {bench.port} of 127\.0\.0\.1 is in use")
    with socket.create_server(("127.0.0.1", bench.port)), taken:
        await bench.engine().start()
    assert not (bench.folder / "logs").exists()


async def test_a_log_that_cannot_be_written_is_said(bench: Bench):
    spec = replace(bench.spec(), log_file=Path("/proc/engine.log"))
    with pytest.raises(EngineFailed, match="its log cannot be written"):
        await bench.engine(spec).start()


async def test_the_log_of_an_engine_that_talks_much_begins_anew(bench: Bench):
    log = bench.spec().log_file
    log.parent.mkdir()
    log.write_bytes(b"x" * (4 * 2**20 + 1))
    await bench.engine().start()
    assert log.stat().st_size < 1000
    assert log.with_name("engine.log.old").exists()


async def test_an_engine_gets_the_environment_of_its_spec(bench: Bench):
    argv = (sys.executable, "-c", "import os, sys; sys.exit(os.environ['FLASHLANE_TEST'])")
    spec = replace(bench.spec(), argv=argv, env={"FLASHLANE_TEST": "handed on"})
    with pytest.raises(EngineFailed, match="handed on"):
        await bench.engine(spec).start()


async def test_a_killed_engine_is_started_again_where_it_was(bench: Bench):
    engine = bench.engine()
    await engine.start()
    first = _pid(engine.status)
    os.kill(first, signal.SIGKILL)
    status = await engine.wait_for(lambda status: status.restarts == 1 and status.state is EngineState.READY)
    assert status.pid != first
    assert status.last_error is not None
    assert status.last_error.startswith("fake engine was killed by SIGKILL; ")
    assert await engine.spec.probe()


async def test_an_engine_that_hangs_is_replaced(bench: Bench):
    engine = bench.engine(policy=replace(HASTE, probe_timeout=0.2))
    await engine.start()
    first = _pid(engine.status)
    bench.hang.touch()
    status = await engine.wait_for(lambda status: status.state is EngineState.BACKING_OFF)
    assert status.last_error is not None
    assert status.last_error.startswith("fake engine did not answer 3 probes in a row; ")
    assert not is_alive(first)
    bench.hang.unlink()
    await engine.wait_for(lambda status: status.state is EngineState.READY)


async def test_a_busy_engine_that_answers_slowly_or_now_and_then_is_left_alone(bench: Bench):
    answers = count(1)
    enough = asyncio.Event()

    async def slow() -> bool:
        number = next(answers)
        if number > 12:
            enough.set()
        await asyncio.sleep(HASTE.probe_interval * 2)  # longer than the interval, within the limit
        return number == 1 or number % 3 == 0  # two misses, then an answer

    engine = bench.engine(bench.spec(probe=slow))
    await engine.start()
    await enough.wait()
    assert engine.status.restarts == 0
    assert engine.status.state is EngineState.READY


async def test_an_engine_that_keeps_dying_is_given_up_after_ever_longer_pauses(bench: Bench):
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    engine = bench.engine(pause=note)
    await engine.start()
    bench.broken.touch()
    os.kill(_pid(engine.status), signal.SIGKILL)
    status = await engine.wait_for(lambda status: status.state is EngineState.FAILED)
    assert pauses == [0.005, 0.01, 0.02, 0.025]
    assert status.restarts == HASTE.max_failures
    assert status.pid is None
    assert status.last_error is not None
    assert status.last_error.startswith(
        "fake engine is given up after 4 failures in a row: fake engine exited"
    )
    await engine.stop()
    assert engine.status.state is EngineState.FAILED


async def test_failures_are_forgiven_when_an_engine_was_ready_long_enough(bench: Bench):
    clock = count(0, 100)
    engine = bench.engine(monotonic=lambda: float(next(clock)))
    await engine.start()
    for restarts in range(HASTE.max_failures + 2):
        os.kill(_pid(engine.status), signal.SIGKILL)
        await engine.wait_for(
            lambda status, wanted=restarts + 1: (
                status.restarts == wanted and status.state is EngineState.READY
            )
        )


async def test_an_engine_can_be_stopped_while_it_waits_for_its_restart(bench: Bench):
    async def for_ever(_: float) -> None:
        await asyncio.Event().wait()

    engine = bench.engine(pause=for_ever)
    await engine.start()
    os.kill(_pid(engine.status), signal.SIGKILL)
    await engine.wait_for(lambda status: status.state is EngineState.BACKING_OFF)
    await engine.stop()
    assert engine.status.state is EngineState.STOPPED


async def test_an_engine_can_be_stopped_while_it_is_started_again(bench: Bench):
    engine = bench.engine()
    await engine.start()
    first = _pid(engine.status)
    bench.hang.touch()
    os.kill(first, signal.SIGKILL)
    status = await engine.wait_for(
        lambda status: status.state is EngineState.STARTING and status.pid not in {None, first}
    )
    await engine.stop()
    assert not is_alive(_pid(status))


async def test_a_probe_with_a_fault_fails_the_engine_and_leaves_no_process(bench: Bench):
    answers = iter([True])

    async def faulty() -> bool:
        return next(answers, None) or bool(1 // 0)

    engine = bench.engine(bench.spec(probe=faulty))
    await engine.start()
    pid = _pid(engine.status)
    status = await engine.wait_for(lambda status: status.state is EngineState.FAILED)
    assert "zero" in str(status.last_error)
    assert not is_alive(pid)


async def test_an_engine_that_takes_no_notice_of_sigterm_is_killed(bench: Bench):
    engine = bench.engine(bench.spec("--stubborn"), policy=replace(HASTE, stop_grace=0.05))
    await engine.start()
    pid = _pid(engine.status)
    await engine.stop()
    assert not is_alive(pid)


async def test_an_engine_has_a_session_of_its_own_so_that_ctrl_c_passes_it_by(bench: Bench):
    async with bench.engine() as engine:
        pid = _pid(engine.status)
        assert os.getsid(pid) == os.getpgid(pid) == pid != os.getsid(0)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's tie is Linux's")
async def test_an_engine_dies_with_its_parent_even_when_that_is_killed(bench: Bench):
    program = Path(__file__).with_name("fake_gateway.py")
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        str(bench.port),
        str(bench.folder / "orphan.log"),
        *bench.command("--stubborn"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(pid), "the engine to die with its parent")


async def test_a_second_engine_on_the_same_data_is_refused_as_long_as_the_first_lives(
    bench: Bench, tmp_path: Path
):
    lock = tmp_path / "lock"
    other = Bench(tmp_path / "other")
    engine = bench.engine(bench.spec(lock_file=lock))
    await engine.start()
    second = bench.engine(other.spec(lock_file=lock))
    with pytest.raises(EngineFailed, match="another process works on this data"):
        await second.start()
    await engine.stop()
    await second.start()


@given(failures=st.integers(1, 1000), chance=st.floats(0, 1, exclude_max=True))
def test_a_pause_is_between_half_and_all_of_its_longest_and_never_over_the_limit(
    failures: int, chance: float
):
    policy = RestartPolicy(first_delay=0.5, max_delay=30.0)
    delay = backoff_delay(policy, failures, chance)
    longest = min(30.0, 0.5 * 2 ** min(failures - 1, 60))
    assert longest / 2 <= delay <= longest
