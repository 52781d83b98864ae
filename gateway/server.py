"""Runs the application under uvicorn, from an open port to a clean end."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Generator

import uvicorn
import uvloop
from fastapi import FastAPI

from gateway.config import Config
from gateway.connection import ClientConnection
from gateway.errors import StartFailed
from gateway.runtime import running
from gateway.settings import Settings

GC_THRESHOLD = 20_000
"""New containers between two looks for cycles: some dozens of requests, which make next to none."""

IDLE_SECONDS = 75
"""How long a client's idle connection is kept: longer than load balancers keep theirs (60 s, mostly), which
would else send a request just as the connection is closed."""

SHUTDOWN_SECONDS = 10
"""How long answers may still run after the signal to stop."""


def listen(host: str, port: int) -> socket.socket:
    """Open the port, before anything else is started.

    Raises:
        StartFailed: It is in use, or not ours to take.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise StartFailed(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. "
            "Stop what uses the port, or take another one: server.port in the configuration, or --port."
        ) from error
    return listener


def serve(
    config: Config, settings: Settings, listener: socket.socket, on_ready: Callable[[str], None]
) -> None:
    """Run the gateway until a signal ends it.

    Args:
        config: What to run.
        settings: The environment.
        listener: The open port; closed at the end.
        on_ready: Called with the URL when requests are answered.

    Raises:
        StartFailed: A part did not start; nothing is left running.
        ConfigInvalid: The configuration asks for what the environment does not have.
    """
    with listener, contextlib.suppress(asyncio.CancelledError):
        uvloop.run(_serve(config, settings, listener, on_ready))


async def _serve(
    config: Config, settings: Settings, listener: socket.socket, on_ready: Callable[[str], None]
) -> None:
    stop = _StopSignal()
    stop.install()
    async with running(config, settings) as app:
        host, port = listener.getsockname()[:2]
        server = _Server(app, lambda: on_ready(f"http://{host}:{port}"))
        stop.server = server
        await server.serve(sockets=[listener])


class _StopSignal:
    """SIGINT and SIGTERM: before the server runs they cancel the start, then they end the server."""

    def __init__(self) -> None:
        self.server: uvicorn.Server | None = None

    def install(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: signal.Signals) -> None:
            if self.server is not None:
                self.server.handle_exit(number, None)
            elif task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handling, which ends the process before we have cleaned up."""

    def __init__(self, app: FastAPI, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http=ClientConnection,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # nothing here asks for the client's address
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._on_ready = on_ready

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            gc.collect()
            gc.freeze()  # what is there now stays; the collector need not look at it again
            gc.set_threshold(GC_THRESHOLD)
            self._on_ready()


def set_up_logging(*, verbose: bool) -> None:
    """Log to standard error, a line an event."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
