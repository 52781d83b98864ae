"""What can go wrong below the gateway.

* BackendError             the engine failed in the middle of an answer
  - BackendUnavailable     refused, unreachable, or failed before it brought anything; another may be tried
  - BackendTimeout         nothing came in time; not tried elsewhere, for the work may have been done
  - BackendOverloaded      429 or 503 from the engine
  - BackendUnfit           it does not have the endpoint; another kind of replica may
  - BackendRejected        the engine refused the request (4xx); another replica would refuse it too
* EngineError              an engine that we own
  - EngineFailed           it did not start, or kept dying
  - ProfileInvalid         there is no such profile, or a knob of it is wrong
  - ModelUnavailable       its model file is missing, unknown, or cannot be fetched
  - ModelCorrupt           its model file is not the one that was pinned
"""

from collections.abc import Mapping


class BackendError(Exception):
    """The engine failed. `replica` names it."""

    def __init__(self, message: str, *, replica: str) -> None:
        super().__init__(message)
        self.replica = replica


class BackendUnavailable(BackendError):
    """Refused, unreachable, or failed before it brought anything.

    Attributes:
        reached: Whether the request got there, so that trying again makes the work twice.
        retry_after: Seconds after which it may be better; None when nobody knows.
        well: Whether it answered as a server that is well does, with a 4xx: then our address, name or key
            is wrong, which says nothing of its health.
    """

    def __init__(
        self,
        message: str,
        *,
        replica: str,
        reached: bool = True,
        retry_after: float | None = None,
        well: bool = False,
    ) -> None:
        super().__init__(message, replica=replica)
        self.reached = reached
        self.retry_after = retry_after
        self.well = well


class BackendTimeout(BackendError):
    """Nothing came in time; the work was cancelled."""


class BackendOverloaded(BackendError):
    """429 or 503 from the engine.

    Attributes:
        status: 429 or 503.
        retry_after: Seconds the engine asked to wait; None when it did not say.
        rate_limits: Its headers `x-ratelimit-...`.
    """

    def __init__(
        self,
        message: str,
        *,
        replica: str,
        status: int,
        retry_after: float | None = None,
        rate_limits: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, replica=replica)
        self.status = status
        self.retry_after = retry_after
        self.rate_limits = rate_limits or {}


class BackendUnfit(BackendError):
    """It does not have the endpoint; another kind of replica may. Nothing was sent."""


class BackendRejected(BackendError):
    """The engine refused the request; its own answer is kept for the client.

    Attributes:
        status: 4xx.
        body: The engine's JSON body.
    """

    def __init__(self, message: str, *, replica: str, status: int, body: bytes) -> None:
        super().__init__(message, replica=replica)
        self.status = status
        self.body = body


class EngineError(Exception):
    """Something is wrong with an engine that we own."""


class EngineFailed(EngineError):
    """It did not start, or kept dying."""


class ProfileInvalid(EngineError):
    """There is no such profile, or a knob of it is wrong; or the engine does not take it."""


class ModelUnavailable(EngineError):
    """Its model file is missing, unknown, or cannot be fetched."""


class ModelCorrupt(EngineError):
    """Its model file is not the one that was pinned."""
