"""What the gateway asks of a backend, whatever runs behind it."""

from collections.abc import Mapping
from typing import Protocol

from backends.types import InferenceRequest


class Answer(Protocol):
    """An answer that has begun.

    Attributes:
        content_type: "application/json", or "text/event-stream" for a stream.
        rate_limits: The engine's headers `x-ratelimit-...`, which are for the client.
    """

    content_type: str
    rate_limits: Mapping[str, str]

    async def read(self, patience: float | None = None) -> bytes:
        """Return the next bytes as the engine sent them, b"" at the end.

        Raises:
            BackendError: The engine died half way.
            TimeoutError: Nothing came for `patience` seconds; it can be read on.
        """
        ...

    async def aclose(self) -> None:
        """Let go. An answer that has not ended is cancelled, and so is the engine's work on it."""
        ...


class Backend(Protocol):
    """One replica, able to answer."""

    async def open(self, request: InferenceRequest) -> Answer:
        """Start `request` on the engine.

        Waits for the status, at most `request.patience` seconds. An error here means that nothing was
        sent on.

        Raises:
            BackendUnavailable: Refused, unreachable or misconfigured.
            BackendTimeout: No status came in time.
            BackendOverloaded: It asks us to come again later.
            BackendUnfit: It does not have the endpoint.
            BackendRejected: It refuses the request itself.
        """
        ...

    async def is_ready(self) -> bool | None:
        """Ask the engine whether it can serve.

        Returns:
            False when it says that it cannot, or nobody listens where it should be; None when it is silent.
        """
        ...

    async def read_metrics(self) -> bytes | None:
        """Return the engine's page of metrics, in Prometheus' text format; None when there is none."""
        ...

    async def aclose(self) -> None:
        """Close what is held open."""
        ...
