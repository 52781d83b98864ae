"""What a policy can refuse.

* PolicyError
  - TenantFileInvalid   a tenant's YAML is wrong; the old policies stay
  - UnknownKey          no tenant has this API key
  - UnknownModel        the model is not configured, or the tenant may not use it
  - InputTooLong        the input is over the tenant's bound, which says `reject`
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


class ThinkingConflict(PolicyError):
    """The model cannot think and be forced to call a tool, and both are asked for."""

    param = "tool_choice"
