"""The embedded Valkey."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from redis.asyncio import Redis

from backends.engines.probes import free_port
from backends.engines.types import EngineState
from backends.engines.valkey import valkey_spec
from backends.errors import EngineFailed
from tests.engines.conftest import Bench


async def test_what_was_written_is_there_after_a_stop_and_after_a_kill(bench: Bench, tmp_path: Path):
    engine = bench.engine(valkey_spec(tmp_path / "valkey", free_port()))
    await engine.start()
    async with Redis(port=engine.spec.port or 0) as client:
        await client.set("kept", "over a stop")
        await engine.stop()
        await engine.start()
        assert await client.get("kept") == b"over a stop"
        await client.set("kept", "over a kill")
        assert engine.status.pid is not None
        os.kill(engine.status.pid, signal.SIGKILL)
        await engine.wait_for(lambda status: status.restarts == 1 and status.state is EngineState.READY)
        assert await client.get("kept") == b"over a kill"


async def test_it_listens_on_loopback_only_and_its_folder_is_the_users(bench: Bench, tmp_path: Path):
    folder = tmp_path / "deep" / "valkey"
    engine = bench.engine(valkey_spec(folder, free_port()))
    await engine.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", engine.spec.port)
    writer.write(b"CONFIG GET bind\r\n")
    expected = b"*2\r\n$4\r\nbind\r\n$9\r\n127.0.0.1\r\n"
    assert await reader.readexactly(len(expected)) == expected
    writer.close()
    await writer.wait_closed()
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_second_server_on_the_same_folder_is_refused(bench: Bench, tmp_path: Path):
    await bench.engine(valkey_spec(tmp_path / "valkey", free_port())).start()
    with pytest.raises(EngineFailed, match=r"valkey\.lock is held: another process works on this data"):
        await bench.engine(valkey_spec(tmp_path / "valkey", free_port())).start()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(EngineFailed, match=r"valkey cannot keep its data: .*file/valkey"):
        valkey_spec(tmp_path / "file" / "valkey", 1)
