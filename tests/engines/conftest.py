"""Fake engines, and eyes for processes."""

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from backends.engines.probes import free_port, http_ok
from backends.engines.process import SupervisedProcess
from backends.engines.types import ProcessSpec, RestartPolicy

HASTE = RestartPolicy(
    probe_interval=0.02, probe_timeout=10.0, first_delay=0.01, max_delay=0.05, max_failures=4, stop_grace=5.0
)


@dataclass
class Bench:
    """A fake engine's surroundings, and an end for what a test starts on it."""

    folder: Path
    port: int = field(default_factory=free_port)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def hang(self) -> Path:
        """While this file is there, the engine answers nothing."""
        return self.folder / "hang"

    @property
    def broken(self) -> Path:
        """While this file is there, the engine exits with code 3 at its start."""
        return self.folder / "broken"

    def command(self, *more: str) -> list[str]:
        program = Path(__file__).with_name("fake_engine.py")
        strings = ["--hang", str(self.hang), "--broken", str(self.broken)]
        return [sys.executable, str(program), "--port", str(self.port), *strings, *more]

    def spec(
        self,
        *more: str,
        probe: Callable[[], Awaitable[bool]] | None = None,
        lock_file: Path | None = None,
        ready_timeout: float = 60.0,
    ) -> ProcessSpec:
        return ProcessSpec(
            name="fake engine",
            argv=self.command(*more),
            probe=probe or functools.partial(http_ok, self.port, "/health"),
            log_file=self.folder / "logs" / "engine.log",
            ready_timeout=ready_timeout,
            port=self.port,
            lock_file=lock_file,
        )

    def engine(
        self,
        spec: ProcessSpec | None = None,
        *,
        policy: RestartPolicy = HASTE,
        monotonic: Callable[[], float] = lambda: 0.0,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> SupervisedProcess:
        """Return an engine that is not started; it is stopped at the end of the test."""
        engine = SupervisedProcess(
            spec or self.spec(), policy=policy, monotonic=monotonic, pause=pause, chance=lambda: 0.0
        )
        self.exits.push_async_callback(engine.stop)
        return engine


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    made = Bench(tmp_path)
    async with made.exits:
        yield made
