"""What a policy can refuse.

* PolicyError
  - TenantFileInvalid   a tenant's YAML is wrong; the old policies stay
  - UnknownKey          no tenant has this API key
  - UnknownModel        the model is not configured, or the tenant may not use it
  - InputTooLong        the input is over the tenant's bound, which says `reject`
  - Unsupported         no model that may be used can take the request
    - UnsupportedContent     for what is in its messages
    - UnsupportedParameter   for a parameter
  - ThinkingConflict    the model cannot think and be forced to call a tool, and both are asked for
"""


class PolicyError(Exception):
    """Base of all errors of this package."""


class TenantFileInvalid(PolicyError):
    """A tenant's YAML is wrong; the message names the file and the path in it."""


class UnknownKey(PolicyError):
    """No tenant has this API key."""


class UnknownModel(PolicyError):
    """The model is not configured, or the tenant may not use it."""


class InputTooLong(PolicyError):
    """The input is over the tenant's bound, which says `reject`."""


class Unsupported(PolicyError):
    """No model that may be used can take the request.

    Attributes:
        param: The path of what it cannot take.
    """

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class UnsupportedContent(Unsupported):
    """The messages hold what no model that may be used takes."""


class UnsupportedParameter(Unsupported):
    """A parameter asks for what no model that may be used does."""


class ThinkingConflict(PolicyError):
    """The model cannot think and be forced to call a tool, and both are asked for."""

    param = "tool_choice"
