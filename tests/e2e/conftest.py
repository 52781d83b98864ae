"""`flashlane up` as a user runs it: a process of its own, two real models, a key printed at the end."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from gateway.settings import Settings
from tests.support.processes import is_alive
from tests.support.waiting import until

CAPITAL = "What is the capital of France?"
WEATHER = "What is the weather in Rome?"
BEGUN = "<tool_call>\n"
"""The start of an answer, for a model that is too small to call a tool unless it is led to."""


@dataclass(slots=True)
class Program:
    """A `flashlane` command that runs."""

    process: subprocess.Popen[str]
    log: Path
    children: set[int] = field(default_factory=set[int])

    def output(self) -> str:
        """Return what it has printed."""
        return self.log.read_text()

    def found(self, pattern: str) -> str:
        """Return what it printed in a place, such as its URL."""
        match = re.search(pattern, self.output())
        assert match is not None, self.output()
        return match[1]

    @property
    def url(self) -> str:
        return self.found(r"URL +(\S+)/v1")

    @property
    def key(self) -> str:
        return self.found(r"key +(sk-fl-\S+)")

    def openai(self) -> AsyncOpenAI:
        """Return the official client."""
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.key, max_retries=0, timeout=120)

    def remember_children(self) -> None:
        """Note the processes that it has started."""
        self.children = set(descendants(self.process.pid))

    async def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Signal it, wait for its end, return its exit status."""
        self.process.send_signal(number)
        await until(lambda: self.process.poll() is not None, "the program to end")
        return self.process.returncode

    async def until_children_are_gone(self) -> None:
        """Wait until no process that it had started is there."""
        await until(lambda: not any(is_alive(pid) for pid in self.children), "its processes to be gone")


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and theirs."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid:
            child = int(stat.parent.name)
            yield child
            yield from descendants(child)


def command_line(pid: int) -> list[str]:
    """Return the command of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def start(folder: Path, *arguments: str) -> Program:
    """Start `flashlane` with its state in a folder of its own, and the user's models."""
    log = folder / "flashlane.log"
    models = Settings.from_env().models_dir
    environment = {
        **os.environ,  # noqa: TID251 - of a child
        "FLASHLANE_STATE": str(folder / "state"),
        "FLASHLANE_MODELS": str(models),
    }
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway", *arguments], stdout=out, stderr=out, text=True, env=environment
        )
    return Program(process, log)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Program]:
    """`flashlane up`, ready."""
    program = start(tmp_path_factory.mktemp("up"), "up", "--port", "0")
    try:
        await until(
            lambda: "Ctrl-C" in program.output() or program.process.poll() is not None,
            "flashlane to be ready",
            patience=120,
        )
        program.remember_children()
        yield program
    finally:
        if program.process.poll() is None:
            await program.stop()
