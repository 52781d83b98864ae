"""Numbered versions of an adapted model in one folder, and the way back.

    models/
      current        the number that is served, as text; replaced in one step
      0001/          adapted.safetensors and adapted.json
      0002/

A version is never changed. Going back writes `current` only.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from classifier.errors import ModelFileInvalid

CURRENT = "current"
ADAPTED_CARD = "adapted.json"
_REMEDY = "make a version with `flashlane classifier adapt`"


@dataclass(frozen=True, slots=True)
class Versions:
    """What a folder of versions holds.

    Attributes:
        numbers: All of them, in order.
        current: The one that is served.
    """

    numbers: tuple[int, ...]
    current: int


def is_adapted(folder: Path) -> bool:
    """Whether `folder` is one version of an adapted model."""
    return (folder / ADAPTED_CARD).is_file()


def is_versions_folder(folder: Path) -> bool:
    """Whether `folder` holds versions."""
    return (folder / CURRENT).is_file()


def versions(folder: Path) -> Versions:
    """The versions in `folder`.

    Raises:
        ModelFileInvalid: There is none, or `current` names one that is not there; says so.
    """
    numbers = _numbers(folder)
    try:
        text = (folder / CURRENT).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileInvalid(f"{folder} holds no versions of an adapted model; {_REMEDY}") from error
    if not text.isdecimal() or int(text) not in numbers:
        raise ModelFileInvalid(
            f"{folder / CURRENT} names {text!r}, which is not there; "
            "choose one with `flashlane classifier rollback`"
        )
    return Versions(tuple(numbers), int(text))


def version_folder(folder: Path, number: int) -> Path:
    """Where version `number` lies."""
    return folder / f"{number:04d}"


def current_folder(folder: Path) -> Path:
    """The folder of the version that is served."""
    return version_folder(folder, versions(folder).current)


def add_version(folder: Path, write: Callable[[Path], object]) -> int:
    """Let `write` fill the folder of a new version, then serve it.

    Nothing is served that was not written completely: `current` changes last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = max(_numbers(folder), default=0) + 1
    draft = folder / f"draft-{number:04d}"
    draft.mkdir()  # fails when another process makes the same number
    try:
        write(draft)
        draft.rename(version_folder(folder, number))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _point(folder, number)
    return number


def roll_back(folder: Path, number: int | None = None) -> int:
    """Serve version `number`, or the one before the current one.

    Raises:
        ModelFileInvalid: There is no such version.
    """
    found = versions(folder)
    earlier = [each for each in found.numbers if each < found.current]
    if number is None:
        if not earlier:
            raise ModelFileInvalid(f"{folder} has no version before {found.current}; nothing to go back to")
        number = earlier[-1]
    if number not in found.numbers:
        raise ModelFileInvalid(
            f"{folder} has no version {number}; it has {', '.join(map(str, found.numbers))}"
        )
    _point(folder, number)
    return number


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal() and each.is_dir())


def _point(folder: Path, number: int) -> None:
    new = folder / f"{CURRENT}.new"
    new.write_text(f"{number}\n", encoding="ascii")
    os.replace(new, folder / CURRENT)  # noqa: PTH105 - replaces an existing file in one step on every system
