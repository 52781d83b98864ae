"""Values of supervised engines."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType


class EngineState(StrEnum):
    """Where an engine's process stands."""

    STARTING = "starting"  # a process is there and does not answer yet
    READY = "ready"
    BACKING_OFF = "backing-off"  # it died or hung; another one is started after a pause
    STOPPED = "stopped"  # not started yet, or stopped on purpose
    FAILED = "failed"  # it did not start, or kept dying; nothing is tried any more


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What is to be known of an engine now.

    Attributes:
        state: Where it stands.
        pid: Of its process; None when there is none.
        restarts: Processes started in place of one that died or hung, since `start`.
        last_error: Why the last process or try ended; None when nothing went wrong yet.
    """

    state: EngineState = EngineState.STOPPED
    pid: int | None = None
    restarts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """How to run one engine.

    Attributes:
        name: For messages and logs.
        argv: Command and arguments; the command is a path.
        probe: True when the engine answers. May take as long as it likes (the supervisor bounds it) and
            returns False, rather than raises, when the engine cannot be reached.
        log_file: Gets what the engine prints; its folder is made.
        ready_timeout: Seconds from the start of the process to its first answer.
        env: Set in the process on top of this process's environment.
        port: Loopback port that it will listen on, which must be free before each start; None for none.
        lock_file: Held by the process as long as it lives, so that no second one works on the same data;
            None for none.
    """

    name: str
    argv: Sequence[str]
    probe: Callable[[], Awaitable[bool]]
    log_file: Path
    ready_timeout: float
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    port: int | None = None
    lock_file: Path | None = None


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When an engine counts as dead and how patiently it is started again.

    Attributes:
        probe_interval: Seconds between two probes of a ready engine.
        probe_timeout: Seconds for an answer; generous, for a busy engine is not a dead one.
        probe_failures: Probes in a row that must fail before a living process is replaced.
        first_delay: Seconds before the first restart; doubled for each further one.
        max_delay: Most seconds before a restart.
        max_failures: Ends in a row, each before `stable_after`, after which it is given up.
        stable_after: Seconds an engine must have been ready for its failures to be forgiven.
        stop_grace: Seconds between SIGTERM and SIGKILL.
    """

    probe_interval: float = 2.0
    probe_timeout: float = 20.0
    probe_failures: int = 3
    first_delay: float = 0.5
    max_delay: float = 30.0
    max_failures: int = 10
    stable_after: float = 60.0
    stop_grace: float = 5.0


def backoff_delay(policy: RestartPolicy, failures: int, chance: float) -> float:
    """Return the seconds to wait before the restart that follows `failures` ends in a row.

    Exponential with equal jitter, so that engines that died together do not start together.

    Args:
        policy: Gives the first and the longest delay.
        failures: 1 or more.
        chance: Uniform in [0, 1).

    Returns:
        Between a half and the whole of min(max_delay, first_delay x 2^(failures-1)).
    """
    longest = min(policy.max_delay, policy.first_delay * 2.0 ** (failures - 1))
    return longest * (0.5 + 0.5 * chance)
