"""What can go wrong in the gateway, and the one table that turns any error into OpenAI's shape.

* GatewayError
  - ConfigInvalid        the configuration is wrong; nothing was started
  - StartFailed          a part could not be started; what had been started was stopped
  - SharedStateAway      Redis cannot be reached by a command that needs it
  - LedgerUnavailable    records cannot be written or read
  - RequestError         the client's request is wrong
    - KeyMissing         no API key came with it
    - BodyInvalid        the body is not what the endpoint takes
    - BodyTooLarge       the body is over the limit
    - BodyTooSlow        the body did not arrive in time
    - EncodingUnknown    the body is compressed
    - NotFound           there is no such page or request
  - ClientLeft           the client closed its connection; nobody is there to be told
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from backends.errors import (
    BackendError,
    BackendOverloaded,
    BackendRejected,
    BackendTimeout,
    BackendUnavailable,
    BackendUnfit,
)
from backends.refusals import error_message, says_too_long
from policies.errors import (
    InputTooLong,
    ThinkingConflict,
    UnknownKey,
    UnknownModel,
    UnsupportedContent,
    UnsupportedParameter,
)


class GatewayError(Exception):
    """Base of all errors of this package."""


class ConfigInvalid(GatewayError):
    """The configuration is wrong; nothing was started."""


class StartFailed(GatewayError):
    """A part could not be started; what had been started was stopped."""


class SharedStateAway(GatewayError):
    """Redis cannot be reached by a command that needs it; requests go on without."""


class LedgerUnavailable(GatewayError):
    """Records cannot be written or read."""


class ClientLeft(GatewayError):
    """The client closed its connection; nobody is there to be told."""


class RequestError(GatewayError):
    """The client's request is wrong.

    Attributes:
        param: The field that is wrong, as a path; None when it is not one field.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class KeyMissing(RequestError):
    """No API key came with the request."""


class BodyInvalid(RequestError):
    """The body is not what the endpoint takes."""


class BodyTooLarge(RequestError):
    """The body is over the limit."""


class BodyTooSlow(RequestError):
    """The body did not arrive in time."""


class EncodingUnknown(RequestError):
    """The body is compressed."""


class NotFound(RequestError):
    """There is no such page or request."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as OpenAI's clients read it."""

    status: int
    message: str
    type: str
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self) -> bytes:
        """Return the JSON body."""
        inner = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": inner})


@dataclass(frozen=True, slots=True)
class _Row:
    status: int
    type: str
    code: str | None


RETRY_SECONDS = 3.0
"""After which a client may ask again for a model that is not there; replicas are probed as often."""

TABLE: Mapping[type[Exception], _Row] = {
    KeyMissing: _Row(401, "invalid_request_error", "invalid_api_key"),
    UnknownKey: _Row(401, "invalid_request_error", "invalid_api_key"),
    BodyInvalid: _Row(400, "invalid_request_error", None),
    BodyTooLarge: _Row(413, "invalid_request_error", "request_too_large"),
    EncodingUnknown: _Row(415, "invalid_request_error", "unsupported_encoding"),
    BodyTooSlow: _Row(408, "invalid_request_error", "request_timeout"),
    NotFound: _Row(404, "invalid_request_error", "not_found"),
    UnknownModel: _Row(404, "invalid_request_error", "model_not_found"),
    InputTooLong: _Row(400, "invalid_request_error", "context_length_exceeded"),
    UnsupportedContent: _Row(400, "invalid_request_error", "unsupported_content"),
    UnsupportedParameter: _Row(400, "invalid_request_error", "unsupported_parameter"),
    ThinkingConflict: _Row(400, "invalid_request_error", None),
    BackendRejected: _Row(400, "invalid_request_error", None),
    BackendUnfit: _Row(400, "invalid_request_error", "unsupported_endpoint"),
    BackendOverloaded: _Row(503, "server_error", "server_is_overloaded"),
    BackendUnavailable: _Row(503, "server_error", "model_unavailable"),
    BackendTimeout: _Row(504, "server_error", "timeout"),
    BackendError: _Row(502, "server_error", "upstream_error"),
    LedgerUnavailable: _Row(503, "server_error", "ledger_unavailable"),
}
"""The most specific class wins; what is not here is a 500 whose message stays in the log."""


HEADERS: Mapping[type[Exception], Mapping[str, str]] = {
    BackendTimeout: {"x-should-retry": "false"},  # the work would be done again
    BodyTooLarge: {"connection": "close"},  # the rest of the body is not waited for
    BodyTooSlow: {"connection": "close"},
}


def to_answer(error: Exception) -> ErrorAnswer:
    """Return what the client is told of an error."""
    if isinstance(error, BackendRejected):
        return _rejected(error)
    row = next((TABLE[cls] for cls in type(error).__mro__ if cls in TABLE), None)
    if row is None:
        text = "Flashlane failed; the log has more under the request id."
        return ErrorAnswer(500, text, "server_error", "internal_error")
    param = "model" if isinstance(error, UnknownModel) else getattr(error, "param", None)
    answer = ErrorAnswer(row.status, str(error), row.type, row.code, param)
    match error:
        case BackendOverloaded():
            return _overloaded(error, answer)
        case BackendUnavailable():
            return _unavailable(error, answer)
        case _:
            return replace(answer, headers=HEADERS.get(type(error), {}))


def _unavailable(error: BackendUnavailable, answer: ErrorAnswer) -> ErrorAnswer:
    """Tell a replica that failed from one that is not there."""
    if error.reached:
        return replace(answer, status=502, code="upstream_error")
    return replace(answer, headers=_retry_after(error.retry_after or RETRY_SECONDS))


def _retry_after(seconds: float) -> Mapping[str, str]:
    return {"retry-after": str(max(1, math.ceil(seconds)))}


def _overloaded(error: BackendOverloaded, answer: ErrorAnswer) -> ErrorAnswer:
    """Say when to come again, and pass a rate limit on as one."""
    answer = replace(answer, headers={**error.rate_limits, **_retry_after(error.retry_after or 1.0)})
    if error.status == 429:
        return replace(answer, status=429, type="rate_limit_error", code="rate_limit_exceeded")
    return answer


def _rejected(error: BackendRejected) -> ErrorAnswer:
    """Return the engine's own words, in OpenAI's shape; OpenAI knows no 422."""
    message = error_message(error.body) or f"The engine refused the request ({error.status})."
    code = "context_length_exceeded" if says_too_long(error.body) else None
    status = 400 if error.status == 422 else error.status
    return ErrorAnswer(status, message, "invalid_request_error", code)
