"""`flashlane serve`, which says on SIGUSR1 how many asyncio tasks it has, a JSON line to standard output."""

import argparse
import asyncio
import json
import signal
from pathlib import Path

from gateway import server
from gateway.config import load_config
from gateway.settings import Settings


def main() -> None:
    """Run the gateway until a signal ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    config = load_config(parser.parse_args().config)
    server.set_up_logging(verbose=False)
    with server.listen(config.server.host, config.server.port) as listener:
        server.serve(config, Settings.from_env(), listener, lambda _: listen_to_signals())


def listen_to_signals() -> None:
    """Say what runs when asked to; called on the gateway's loop as it gets ready."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, say_tasks)
    say_tasks()


def say_tasks() -> None:
    """Print the names of all tasks."""
    names = sorted(f"{task.get_name()} {task.get_coro()!r}" for task in asyncio.all_tasks())
    print(json.dumps({"tasks": names}), flush=True)


if __name__ == "__main__":
    main()
