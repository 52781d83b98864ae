"""How commands speak: results on standard output, everything else on standard error."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer

from backends.errors import EngineError
from backends.gsm.errors import GsmError
from gateway.errors import GatewayError
from policies.errors import PolicyError


@contextmanager
def errors_end_the_command() -> Generator[None]:
    """Turn an expected error into its message and exit status 1; Ctrl-C into status 130."""
    try:
        yield
    except (GatewayError, PolicyError, EngineError, GsmError) as error:
        print(f"flashlane: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
