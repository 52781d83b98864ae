"""One pull of a model at a time, over all processes of this machine."""

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None]) -> Generator[None]:
    """Hold the lock file at `path`, which stays behind: removing it would let two in.

    Args:
        path: Made when it is not there.
        on_wait: Called once when another process holds it, before waiting without a limit.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file lets go
