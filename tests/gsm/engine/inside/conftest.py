"""A folder and an engine of its own for each test."""

import uuid
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from bare_engine import PAGE_BYTES, BareEngine

Start = Callable[..., BareEngine]


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    """Start an engine over the folder of the test, in place of the one before it."""
    running: list[BareEngine] = []

    def stop() -> None:
        while running:
            running.pop().close()

    def begin(host_pages: int = 16, disk_pages: int = 0, **settings: Any) -> BareEngine:
        stop()
        given: dict[str, Any] = {"gsm_host_bytes": host_pages * PAGE_BYTES, "gsm_min_ttl": 0}
        if disk_pages:
            given["gsm_disk_path"] = str(tmp_path / "pages")
            given["gsm_disk_bytes"] = disk_pages * (PAGE_BYTES + 256)
        engine = BareEngine(str(uuid.uuid4()), **given | settings)
        running.append(engine)
        return engine

    yield begin
    stop()
