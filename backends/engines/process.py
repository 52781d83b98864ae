"""An engine's process, kept running: started, watched, started again when it dies, stopped for good."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import Final, NoReturn, Self

from backends.engines.child import Child
from backends.engines.types import EngineState, EngineStatus, ProcessSpec, RestartPolicy, backoff_delay
from backends.errors import EngineFailed

_READY_POLL: Final = 0.05  # seconds between two probes of a starting engine
_DEFAULT_POLICY: Final = RestartPolicy()
_log = logging.getLogger(__name__)


class SupervisedProcess:
    """One engine that we own.

    Start and stop it on one event loop, whose thread must live as long as the engine (see `tether`).
    As a context manager it is started on entry and stopped on exit.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        *,
        policy: RestartPolicy = _DEFAULT_POLICY,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Prepare an engine; nothing is started.

        Args:
            spec: How to run it.
            policy: When it counts as dead and how it is started again.
            monotonic: Seconds, for how long it has been ready.
            pause: Waits the seconds before a restart.
            chance: Uniform in [0, 1), for the jitter of that pause.
        """
        self.spec = spec
        self._policy = policy
        self._monotonic = monotonic
        self._pause = pause
        self._chance = chance
        self._status = EngineStatus()
        self._changed = asyncio.Event()
        self._child: Child | None = None
        self._keeper: asyncio.Task[NoReturn] | None = None

    @property
    def status(self) -> EngineStatus:
        """What is to be known of it now."""
        return self._status

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the engine and wait until it answers. From then on it is kept running.

        Raises:
            EngineFailed: It ended, or did not answer in time; the message has its name, how it ended and
                the end of its log. No process is left.
            RuntimeError: It runs already.
        """
        if self._keeper is not None and not self._keeper.done():
            raise RuntimeError(f"{self.spec.name} runs already")
        self._set(EngineStatus())
        try:
            child = await self._launch()
        except EngineFailed as error:
            self._set(replace(self._status, state=EngineState.FAILED, pid=None, last_error=str(error)))
            raise
        except BaseException:
            self._set(EngineStatus())
            raise
        self._keeper = asyncio.get_running_loop().create_task(
            self._keep(child), name=f"keep {self.spec.name}"
        )
        self._keeper.add_done_callback(self._give_up)

    async def stop(self) -> None:
        """Stop the engine and wait until its process is gone; no matter in which state, or how often."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        if self._child is not None:  # a keeper that was cancelled before its first step has stopped nothing
            await self._child.terminate(self._policy.stop_grace)
        if self._status.state is not EngineState.FAILED:
            self._set(replace(self._status, state=EngineState.STOPPED, pid=None))

    async def wait_for(self, condition: Callable[[EngineStatus], bool]) -> EngineStatus:
        """Wait, without a limit, until the status meets a condition; return that status."""
        while not condition(self._status):
            await self._changed.wait()
        return self._status

    async def _launch(self) -> Child:
        """Return a child that answers; leave none otherwise.

        Raises:
            EngineFailed: It could not be started, ended, or did not answer in time.
        """
        child = await Child.spawn(self.spec)
        self._set(replace(self._status, state=EngineState.STARTING, pid=child.pid))
        try:
            await self._until_ready(child)
        except BaseException:
            await child.kill()
            raise
        self._child = child
        self._set(replace(self._status, state=EngineState.READY))
        return child

    async def _until_ready(self, child: Child) -> None:
        try:
            async with asyncio.timeout(self.spec.ready_timeout):
                while not (answered := await self.spec.probe()) and not await child.ends_within(_READY_POLL):
                    continue
        except TimeoutError:
            trouble = f"did not answer within {self.spec.ready_timeout:g} s"
            raise EngineFailed(await child.describe(trouble)) from None
        if not answered or await child.ends_within(0):  # a stranger on its port may have answered for it
            raise EngineFailed(await child.describe(child.ending))

    async def _keep(self, child: Child) -> NoReturn:
        """Replace the child whenever it ends or hangs; whoever cancels this stops the engine.

        Raises:
            EngineFailed: It kept dying.
        """
        failures = 0
        while True:
            ready_since = self._monotonic()
            trouble = await self._watch(child)
            if self._monotonic() - ready_since >= self._policy.stable_after:
                failures = 0
            child, failures = await self._replace(trouble, failures)

    async def _watch(self, child: Child) -> str:
        """Return why the child is no good any more; however this is left, it is gone."""
        missed = 0
        try:
            while not await child.ends_within(self._policy.probe_interval):
                missed = 0 if await self._answers() else missed + 1
                if missed >= self._policy.probe_failures:
                    return await child.describe(f"did not answer {missed} probes in a row")
            return await child.describe(child.ending)
        finally:
            await child.terminate(self._policy.stop_grace)

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(self._policy.probe_timeout):
                return await self.spec.probe()
        except TimeoutError:
            return False

    async def _replace(self, trouble: str, failures: int) -> tuple[Child, int]:
        """Return a new child that answers, and how many failures in a row there were.

        Raises:
            EngineFailed: There were as many as the policy allows.
        """
        while failures < self._policy.max_failures:
            failures += 1
            delay = backoff_delay(self._policy, failures, self._chance())
            self._set(replace(self._status, state=EngineState.BACKING_OFF, pid=None, last_error=trouble))
            _log.warning("%s\nstarting it again in %.1f s", trouble, delay)
            await self._pause(delay)
            self._set(replace(self._status, restarts=self._status.restarts + 1))
            try:
                return await self._launch(), failures
            except EngineFailed as error:
                trouble = str(error)
        raise EngineFailed(f"{self.spec.name} is given up after {failures} failures in a row: {trouble}")

    def _give_up(self, keeper: "asyncio.Task[NoReturn]") -> None:
        """Say that nobody keeps the engine running any more, unless that was wanted."""
        if keeper.cancelled():
            return
        error = keeper.exception()
        self._set(replace(self._status, state=EngineState.FAILED, pid=None, last_error=str(error)))
        _log.error("engine %s is down for good", self.spec.name, exc_info=error)

    def _set(self, status: EngineStatus) -> None:
        self._status = status
        self._changed.set()
        self._changed = asyncio.Event()
