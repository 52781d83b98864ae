"""The event loop of the tests: that of the gateway, which also ends when a test has left something open."""

import warnings

import uvloop


class Loop(uvloop.Loop):
    """uvloop, with a `close` that ends though warnings are errors.

    As it closes, uvloop warns of every transport that was left open, inside a callback of libuv and just
    before it closes that transport. Where the warning is raised, the transport stays open, and uvloop
    waits for ever for its end: a test that failed with a connection in hand hung, instead of failing.
    """

    def close(self) -> None:
        """Close everything, then warn of what had been left open."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().close()
        if caught:
            found = sorted({f"{warning.category.__name__}: {warning.message}" for warning in caught})
            warnings.warn("\n".join(found), ResourceWarning, stacklevel=2)
