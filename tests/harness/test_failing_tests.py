"""A test that fails is told as such and holds up nothing, whatever it had open."""

import subprocess
import sys
from pathlib import Path

LEAVES_A_CONNECTION_OPEN = """
import asyncio

kept = []


async def test_that_fails():
    server = await asyncio.start_server(lambda reader, writer: kept.append(writer), "127.0.0.1", 0)
    kept.append(await asyncio.open_connection(*server.sockets[0].getsockname()))
    raise ArithmeticError("as it should")


async def test_after_it():
    pass
"""
LEAVES_A_CLIENT_OPEN = """
from policies.redis_client import connect


async def test_that_fails(redis_url):
    await connect(redis_url).flushall()
    raise ArithmeticError("as it should")


async def test_after_it():
    pass
"""
LEAVES_NOTHING = """
async def test_that_is_well():
    pass
"""


def run(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a process of their own, with the settings and fixtures of this suite."""
    (folder / "test_inner.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "tests.conftest"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-q", str(folder)]
    return subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_test_that_fails_with_a_connection_open_fails_and_does_not_hang(tmp_path: Path):
    done = run(tmp_path, LEAVES_A_CONNECTION_OPEN)
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout
    assert "ArithmeticError: as it should" in done.stdout
    assert "unclosed resource <TCPTransport" in done.stdout


def test_a_test_that_fails_with_a_redis_client_open_fails_and_does_not_hang(tmp_path: Path):
    done = run(tmp_path, LEAVES_A_CLIENT_OPEN)
    assert "1 failed, 1 passed" in done.stdout, (
        done.stdout
    )  # and an error, where the client was not collected
    assert "ArithmeticError: as it should" in done.stdout


def test_a_test_that_leaves_nothing_open_passes(tmp_path: Path):
    assert run(tmp_path, LEAVES_NOTHING).returncode == 0
