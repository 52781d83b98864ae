"""The soak of `make soak`, short enough for every run of the tests."""

from pathlib import Path

import pytest

from bench.soak import bars, growth, soak

CONCURRENCY = 32

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at memory in /proc")


def test_nothing_is_left_of_clients_that_leave_and_engines_that_fail(tmp_path: Path):
    found = soak(tmp_path, requests=1000, concurrency=CONCURRENCY, seed=7)
    assert found.ends.total() == 1000
    missed = [bar for bar in bars(found, CONCURRENCY) if not bar.held]
    assert not missed, (missed, found)


def test_growth_is_told_from_what_comes_and_goes():
    first, last, grown = growth([100, 100, *[200, 202, 200, 260] * 5, *[210] * 3])
    assert (first, last) == (201, 210)
    assert grown == pytest.approx(210 / 201 - 1)
