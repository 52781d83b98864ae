"""A scripted fake of the `Backend` protocol: no socket, no engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from backends.errors import BackendError
from backends.types import InferenceRequest

JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(slots=True)
class FakeAnswer:
    """An answer that was written beforehand.

    Attributes:
        pieces: What `read` returns, one after the other; an error among them is raised.
        content_type: Of the pieces.
        rate_limits: Headers for the client.
        closed: How often it was closed.
        ended: Whether it was read to its end.
    """

    pieces: Sequence[bytes | BackendError]
    content_type: str = JSON
    rate_limits: Mapping[str, str] = field(default_factory=dict[str, str])
    closed: int = 0
    ended: bool = False
    _at: int = 0

    async def read(self, patience: float | None = None) -> bytes:
        """Return the next piece, whatever the patience; see `Answer.read`."""
        if self._at == len(self.pieces):
            self.ended = True
            return b""
        piece = self.pieces[self._at]
        self._at += 1
        if isinstance(piece, BackendError):
            raise piece
        return piece

    async def aclose(self) -> None:
        """Count it; see `Answer.aclose`."""
        self.closed += 1

    @property
    def cancelled(self) -> bool:
        """Tell whether it was closed before its end."""
        return bool(self.closed) and not self.ended


Script = Callable[[InferenceRequest], FakeAnswer | BackendError]


def says(*pieces: bytes | BackendError, content_type: str = JSON) -> Script:
    """Return a script that answers every request with the same pieces."""
    return lambda _: FakeAnswer(pieces, content_type)


def refuses(error: BackendError) -> Script:
    """Return a script that raises the same error for every request."""
    return lambda _: error


@dataclass(slots=True)
class FakeBackend:
    """Plays one script for every request.

    Attributes:
        script: What to do with a request.
        ready: What `is_ready` returns.
        metrics: What `read_metrics` returns.
        requests: All that came in, oldest first.
        answers: All that were given, oldest first.
        closed: How often the backend was closed.
    """

    script: Script = field(default=says(b"{}"))
    ready: bool | None = True
    metrics: bytes | None = None
    requests: list[InferenceRequest] = field(default_factory=list[InferenceRequest])
    answers: list[FakeAnswer] = field(default_factory=list[FakeAnswer])
    closed: int = 0

    async def open(self, request: InferenceRequest) -> FakeAnswer:
        """Play the script; see `Backend.open`."""
        self.requests.append(request)
        outcome = self.script(request)
        if isinstance(outcome, BackendError):
            raise outcome
        self.answers.append(outcome)
        return outcome

    async def is_ready(self) -> bool | None:
        """Return what the test said; see `Backend.is_ready`."""
        return self.ready

    async def read_metrics(self) -> bytes | None:
        """Return what the test said; see `Backend.read_metrics`."""
        return self.metrics

    async def aclose(self) -> None:
        """Count it; see `Backend.aclose`."""
        self.closed += 1
