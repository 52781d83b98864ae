"""Become another program that cannot outlive the process that started it.

Run by its path, as `python tether.py PARENT_PID LOCK_FILE COMMAND...` (an empty LOCK_FILE for none), this
takes the lock, asks the kernel for SIGKILL at the parent's death, and then is replaced by COMMAND, which
inherits both. Doing so here, and not between fork and exec of the parent, is safe with threads.

The kernel ties this to the parent's THREAD: the one that runs the event loop which starts the engine has
to live as long as the engine. Elsewhere than on Linux the tie is left out.
"""

import fcntl
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
EXIT_IN_USE = 75  # EX_TEMPFAIL of sysexits.h


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies; at once when it is dead already."""
    if sys.platform == "linux":
        import ctypes  # not there in every build of Python elsewhere

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(f"the parent, process {parent}, is gone")


def hold_lock(path: str) -> None:
    """Lock a file until this process, and the program it becomes, is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{path} is held: another process works on this data", file=sys.stderr)  # noqa: T201 - to the log
        sys.exit(EXIT_IN_USE)
    os.set_inheritable(descriptor, True)


def main() -> None:
    parent, lock_file, *command = sys.argv[1:]
    die_with_parent(int(parent))
    if lock_file:
        hold_lock(lock_file)
    try:
        os.execv(command[0], command)  # noqa: S606 - the command is the supervisor's, no shell is wanted
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error}")


if __name__ == "__main__":
    main()
