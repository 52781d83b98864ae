"""What can go wrong in GSM.

* GsmError
  - TraceInvalid         a line of a request trace is not what it should be
  - GsmNotShown          an engine or a folder that does not say what GSM holds
  - GroupUnknown         a parent, or a group to pin, that is not held
"""


class GsmError(Exception):
    """Something that was asked of GSM cannot be done."""


class TraceInvalid(GsmError):
    """A request trace that cannot be read; the message names file and line."""


class GsmNotShown(GsmError):
    """An engine without GSM, or a folder that is no store; the message says which, and the remedy."""


class GroupUnknown(GsmError):
    """A group was named that is not held."""
