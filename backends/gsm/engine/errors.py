"""What can go wrong with GSM in the engine.

* GsmEngineError
  - SettingsInvalid    the settings in kv_connector_extra_config do not fit together or do not fit the engine
  - VllmNotSupported   a vLLM whose interface this code was not checked against
  - StoreUnusable      the folder for pages cannot be used: unreadable, read-only, in use, of another model
  - PageUnreadable     one file of the store is not what was written
"""


class GsmEngineError(Exception):
    """Something that stands in the way of reuse; serving can go on without."""


class SettingsInvalid(GsmEngineError):
    """Settings that cannot be followed; the message names the setting and what would do."""


class VllmNotSupported(GsmEngineError):
    """A vLLM outside the range that was checked; the message names both."""


class StoreUnusable(GsmEngineError):
    """The folder of the disk tier cannot be used; the message names it and the remedy."""


class PageUnreadable(GsmEngineError):
    """A file of the disk tier that is cut short, changed, or of something else."""
