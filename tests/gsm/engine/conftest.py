"""One vLLM server for all tests of GSM in the engine: each start takes a minute."""

import os
import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from bench.gsm_server import ROOT, VllmServer, what_is_missing

collect_ignore: Final = ["inside"]  # they run in vLLM's environment: see test_inside_vllm.py

ENGINE_BLOCKS: Final = 26  # of which vLLM keeps one for itself
HOST_PAGES: Final = 40
DISK_PAGES: Final = 60
PAGE_BYTES: Final = 5_898_240  # 128 tokens of SmolLM2 in float32
STEP: Final = 512  # tokens of a prompt computed at once: what is reused ends where a step would


class Engine:
    """A server that can be started again over the same folder of pages."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.store = folder / "pages"
        self._folder = folder
        self._settings = settings | {"gsm_disk_path": str(self.store)}
        self._running = ExitStack()
        self._material: list[int] = []
        self.starts = 0
        self.server = self._start({})

    def stop(self) -> None:
        """End the server; what it has on disk stays."""
        self._running.close()

    def start(self, **changed: Any) -> VllmServer:
        """Start a server in place of the one that was stopped."""
        self.server = self._start(changed)
        return self.server

    def material(self) -> list[int]:
        """Return some ten thousand tokens of English prose and code."""
        if not self._material:
            texts = sorted((ROOT / "docs").glob("*.md"))
            self._material = self.server.tokens(
                "".join(path.read_text(encoding="utf-8") for path in texts)[:60_000]
            )
        return self._material

    def _start(self, changed: dict[str, Any]) -> VllmServer:
        self.starts += 1
        options = [
            *("--max-num-seqs", "4", "--max-num-batched-tokens", str(STEP)),
            *("--max-model-len", "2560", "--num-gpu-blocks-override", str(ENGINE_BLOCKS)),
        ]
        log = self._folder / f"vllm-{self.starts}.log"
        return self._running.enter_context(VllmServer(log, gsm=self._settings | changed, options=options))


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    missing = what_is_missing()
    if missing is not None:
        # Where the environment is made for the tests, a skip would hide that none of them ran.
        if os.environ.get("FLASHLANE_REQUIRE_VLLM"):  # noqa: TID251 tells CI from a user's machine
            pytest.fail(missing)
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("vllm")
    started = Engine(
        folder,
        {
            "gsm_host_bytes": HOST_PAGES * PAGE_BYTES,
            "gsm_disk_bytes": DISK_PAGES * (PAGE_BYTES + 4096),
            "gsm_min_ttl": 0,
        },
    )
    try:
        yield started
    finally:
        started.stop()
        shutil.rmtree(started.store, ignore_errors=True)
