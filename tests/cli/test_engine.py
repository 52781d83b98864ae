"""`flashlane engine` at work: it runs an engine, and leaves nothing behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from backends.engines.probes import free_port, http_ok

ROOT = Path(__file__).parents[2]


@pytest.mark.real_model
async def test_an_engine_runs_until_it_is_told_to_stop(tmp_path: Path):
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "engine", "llama-cpp", "--port", str(port)),
        cwd=ROOT,
        env={**os.environ, "FLASHLANE_STATE": str(tmp_path)},  # noqa: TID251 - handed on to the command
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(120):
        line = await process.stdout.readline()
        assert line.decode() == f"ready at http://127.0.0.1:{port}/v1\n"
        assert await http_ok(port, "/health")
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert not await http_ok(port, "/health")


async def test_an_engine_that_cannot_start_says_why(tmp_path: Path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "engine", "vllm-cpu", "--port", str(free_port())),
        cwd=ROOT,
        env={**os.environ, "FLASHLANE_STATE": str(tmp_path)},  # noqa: TID251 - handed on to the command
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert "has no vLLM whose flags can be read" in errors.decode()
