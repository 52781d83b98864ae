"""One process of an engine, from its start to the moment when nothing of it is left."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final, Self

from backends.engines.probes import is_free
from backends.engines.types import ProcessSpec
from backends.errors import EngineFailed

_TETHER: Final = Path(__file__).with_name("tether.py")
_LOG_LIMIT: Final = 4 * 2**20  # bytes of a log after which a new process begins a new one
_TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 4096


class Child:
    """A running, or ended, process in a session of its own, so that a terminal's Ctrl-C passes it by.

    It gets a pipe as standard input that ends when this process dies, beside the tie of `tether`.
    """

    def __init__(
        self, spec: ProcessSpec, process: asyncio.subprocess.Process, tie: int, log_start: int
    ) -> None:
        self.pid = process.pid
        self._spec = spec
        self._process = process
        self._tie: int | None = tie
        self._log_start = log_start
        # One task for the process's whole life: every cancelled `process.wait()` would leave a future behind.
        self._ended = asyncio.get_running_loop().create_task(process.wait(), name=f"wait {spec.name}")

    @classmethod
    async def spawn(cls, spec: ProcessSpec) -> Self:
        """Start the process; it may end at once.

        Raises:
            EngineFailed: Its port is taken, or its log cannot be written.
        """
        if spec.port is not None and not is_free(spec.port):
            msg = f"{spec.name} cannot start: port {spec.port} of 127.0.0.1 is in use by another program"
            raise EngineFailed(msg)
        try:
            log, log_start = await asyncio.to_thread(_open_log, spec.log_file)
        except OSError as error:
            raise EngineFailed(f"{spec.name} cannot start: its log cannot be written: {error}") from error
        standard_input, tie = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *_tethered(spec),
                stdin=standard_input,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **spec.env},  # noqa: TID251 - handed on whole to a child, not read
            )
        except BaseException:
            os.close(tie)
            raise
        finally:
            os.close(standard_input)
            log.close()
        return cls(spec, process, tie, log_start)

    @property
    def ending(self) -> str:
        """How it ended, for people."""
        code = self._process.returncode
        if code is None:
            return "is running"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the process, so long at the most; tell whether it came."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.done()

    async def terminate(self, grace: float) -> None:
        """Ask the process to end, and kill what is left of it after `grace` seconds."""
        try:
            if not self._ended.done():
                self._signal(signal.SIGTERM)
                await self.ends_within(grace)
        finally:
            await self.kill()

    async def kill(self) -> None:
        """Kill the process and all it started, and wait until it is gone."""
        if self._tie is None:
            return
        self._signal(signal.SIGKILL)
        os.close(self._tie)
        self._tie = None
        await asyncio.wait({self._ended})

    async def describe(self, trouble: str) -> str:
        """Return a message with the engine's name, the trouble, and the end of what it printed."""
        tail = await asyncio.to_thread(_tail, self._spec.log_file, self._log_start)
        return f"{self._spec.name} {trouble}; {self._spec.log_file} ends with:\n{tail}"

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process's whole session: helpers that it forked must not survive it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return


def _tethered(spec: ProcessSpec) -> list[str]:
    lock = "" if spec.lock_file is None else str(spec.lock_file)
    # Isolated and without site-packages, this costs some 15 ms.
    return [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), lock, *spec.argv]


def _open_log(path: Path) -> tuple[BinaryIO, int]:
    """Return the log, open for appending, and its size in bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _LOG_LIMIT:
        path.replace(path.with_name(f"{path.name}.old"))
    log = path.open("ab")
    return log, log.seek(0, os.SEEK_END)


def _tail(path: Path, start: int) -> str:
    """Return the last lines of a log, none of them before byte `start`."""
    with path.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(start, size - _TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or "(nothing)"
