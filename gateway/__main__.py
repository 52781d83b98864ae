"""`python -m gateway` is `flashlane`."""

from gateway.cli import app

app()
