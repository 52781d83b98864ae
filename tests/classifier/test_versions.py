"""Versions are numbered, never changed, and the way back is one file."""

from pathlib import Path

import pytest

from classifier.errors import ModelFileInvalid
from classifier.versions import add_version, current_folder, is_versions_folder, roll_back, versions


def add(folder: Path, text: str) -> int:
    return add_version(folder, lambda place: (place / "model").write_text(text))


def test_the_newest_version_is_served_until_it_is_rolled_back(tmp_path: Path):
    assert [add(tmp_path, text) for text in ("one", "two", "three")] == [1, 2, 3]
    assert versions(tmp_path).current == 3
    assert roll_back(tmp_path) == 2
    assert (current_folder(tmp_path) / "model").read_text() == "two"
    assert roll_back(tmp_path, 3) == 3
    assert versions(tmp_path).numbers == (1, 2, 3)


def test_a_version_after_a_rollback_gets_a_new_number(tmp_path: Path):
    add(tmp_path, "one")
    add(tmp_path, "two")
    roll_back(tmp_path)
    assert add(tmp_path, "three") == 3


def test_a_version_that_could_not_be_written_leaves_no_trace(tmp_path: Path):
    add(tmp_path, "one")

    def fail(_: Path) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        add_version(tmp_path, fail)
    assert versions(tmp_path).numbers == (1,)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0001", "current"]


def test_what_is_not_there_is_named(tmp_path: Path):
    assert not is_versions_folder(tmp_path)
    with pytest.raises(ModelFileInvalid, match="classifier adapt"):
        versions(tmp_path)
    add(tmp_path, "one")
    with pytest.raises(ModelFileInvalid, match="no version before 1"):
        roll_back(tmp_path)
    with pytest.raises(ModelFileInvalid, match="no version 7; it has 1"):
        roll_back(tmp_path, 7)
    (tmp_path / "current").write_text("9")
    with pytest.raises(ModelFileInvalid, match="'9'"):
        versions(tmp_path)
