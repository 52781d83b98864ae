"""What stands in a folder of GSM's disk tier, seen from outside: nothing is changed, no lock is taken."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from backends.gsm.errors import GsmNotShown
from backends.gsm.page_header import HEADER_BYTES, PageHeader, file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreShown:
    """A folder of pages.

    Attributes:
        folder: Which one.
        identity: What its pages are for, as store.json says: weights, kv_dtype, layout, ...
        pages: Files whose header is whole.
        bytes: Of these files.
        oldest: When the page that was not used the longest was written or used, seconds since the epoch.
        newest: When the one used last was.
        corrupt: Files of GSM's that are not as they were written, as far as header and size tell; the engine
            deletes them when it starts.
        foreign: Files that are not GSM's.
        unfinished: Files that were being written when the folder was looked at, or when an engine died.
    """

    folder: str
    identity: Mapping[str, str]
    pages: int
    bytes: int
    oldest: float | None
    newest: float | None
    corrupt: list[str]
    foreign: list[str]
    unfinished: int


def look_at_stores(folder: Path) -> list[StoreShown]:
    """Look at a store; where engines of data parallel ranks have one each in a folder, at all of them.

    Raises:
        GsmNotShown: There is none, or it cannot be read.
    """
    try:
        if (folder / "store.json").exists():
            return [_look_at(folder)]
        ranks = sorted(path.parent for path in folder.glob("dp*/store.json"))
        if not folder.is_dir():
            raise GsmNotShown(f"{folder}: there is no such folder")
        if not ranks:
            raise GsmNotShown(
                f"{folder}: is no store of GSM, for it has no store.json; give the gsm_disk_path of an engine"
            )
        return [_look_at(rank) for rank in ranks]
    except OSError as error:
        raise GsmNotShown(f"{error.filename or folder}: cannot be read ({error.strerror})") from error


def _look_at(folder: Path) -> StoreShown:
    identity = _identity(folder / "store.json")
    used: list[float] = []
    size = 0
    corrupt: list[str] = []
    foreign: list[str] = []
    for path in _files(folder):
        if path.suffix != ".page":
            foreign.append(str(path))
            continue
        try:
            found = _page_of(folder, path)
        except FileNotFoundError:  # evicted meanwhile
            continue
        if found is None:
            corrupt.append(str(path))
        else:
            size += found.st_size
            used.append(found.st_mtime)
    return StoreShown(
        folder=str(folder),
        identity=identity,
        pages=len(used),
        bytes=size,
        oldest=min(used, default=None),
        newest=max(used, default=None),
        corrupt=corrupt,
        foreign=foreign,
        unfinished=sum(1 for _ in (folder / "aside").iterdir()) if (folder / "aside").is_dir() else 0,
    )


def _identity(path: Path) -> dict[str, str]:
    try:
        found: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise GsmNotShown(
            f"{path} is no description of a store; an engine refuses this folder, delete it to begin anew"
        ) from error
    if not isinstance(found, dict):
        raise GsmNotShown(f"{path} does not say what its pages are for; delete the folder to begin anew")
    return {key: str(value) for key, value in cast("dict[str, Any]", found).items()}


def _files(folder: Path) -> Iterator[Path]:
    for below in sorted(folder.iterdir()):
        if below.is_dir() and below.name != "aside":
            yield from sorted(below.iterdir())


def _page_of(folder: Path, path: Path) -> os.stat_result | None:
    """Return the status of the file of a page; None when it is not as it was written."""
    with path.open("rb", buffering=0) as file:
        header = PageHeader.parse(file.read(HEADER_BYTES))
        status = os.fstat(file.fileno())
    if header is None or path != folder / file_name(header.key):
        return None
    return status if status.st_size == HEADER_BYTES + header.size else None
