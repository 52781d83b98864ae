"""Whether a file is the pinned one, without reading a gigabyte at every start.

A file that was hashed is remembered in a small JSON file beside it, by size and modification time.
Whoever changes or cuts the file changes one of the two, and it is hashed again.
"""

import hashlib
import json
from pathlib import Path

from backends.errors import ModelCorrupt
from backends.models.types import CatalogueModel


def verify(path: Path, model: CatalogueModel) -> None:
    """Check that `path` is the pinned file of `model`; takes seconds when it is not remembered.

    Raises:
        ModelCorrupt: It is not; the message has what was expected and found, and the remedy.
        FileNotFoundError: It is not there.
    """
    size = path.stat().st_size
    if size != model.size:
        raise ModelCorrupt(_complaint(path, model, f"{model.size} bytes", f"{size}"))
    if _recall(path) == _fingerprint(path, model.sha256):
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != model.sha256:
        raise ModelCorrupt(_complaint(path, model, f"sha256 {model.sha256}", found))
    remember(path, model.sha256)


def remember(path: Path, sha256: str) -> None:
    """Note that `path` as it is now has this digest. A folder that cannot be written is no error."""
    note = _note_path(path)
    draft = note.with_suffix(".draft")
    try:
        draft.write_text(json.dumps(_fingerprint(path, sha256)))
        draft.replace(note)
    except OSError:
        return  # a shared read-only cache: it is hashed at every start


def forget(path: Path) -> None:
    """Drop what is remembered of `path`."""
    _note_path(path).unlink(missing_ok=True)


def _note_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified.json")


def _fingerprint(path: Path, sha256: str) -> dict[str, int | str]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}


def _recall(path: Path) -> object:
    try:
        return json.loads(_note_path(path).read_text())
    except (OSError, ValueError):
        return None


def _complaint(path: Path, model: CatalogueModel, expected: str, found: str) -> str:
    return (
        f"{path} is not {model.title} as pinned: expected {expected}, found {found};"
        f" run `flashlane models pull {model.name}` to fetch it again"
    )
