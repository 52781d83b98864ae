"""A parent of an engine, to be killed: starts the command it is given, prints its process id, waits.

Run by its path, as `python fake_gateway.py PORT LOG COMMAND...`.
"""

import asyncio
import functools
import sys
from pathlib import Path

from backends.engines.probes import http_ok
from backends.engines.process import SupervisedProcess
from backends.engines.types import ProcessSpec


async def main() -> None:
    port, log, *command = sys.argv[1:]
    spec = ProcessSpec(
        name="orphan",
        argv=command,
        probe=functools.partial(http_ok, int(port), "/health"),
        log_file=Path(log),
        ready_timeout=60.0,
    )
    async with SupervisedProcess(spec) as engine:
        sys.stdout.write(f"{engine.status.pid}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
