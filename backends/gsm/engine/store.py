"""Pages as files: written aside and renamed, checked when read, cleaned at start.

    FOLDER/store.json      what the pages are for
    FOLDER/lock            held while an engine uses the folder
    FOLDER/aside/          files being written; what is left there by a crash goes at the next start
    FOLDER/3f/3f...0.page  a header, then the bytes of one page

A file's name is the name of its page, so a page that is written again takes the place of what was there.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, cast

from backends.gsm.engine.errors import PageUnreadable, StoreUnusable
from backends.gsm.page_header import FORMAT, HEADER_BYTES, PageHeader, file_name


@dataclass(frozen=True, slots=True)
class StoredPage:
    """What a file says of its page.

    Attributes:
        key: The name that vLLM gave it.
        parent: The page before it in its sequence; None for the first.
        written: When it was written or last used, in seconds of the file system's clock.
    """

    key: bytes
    parent: bytes | None
    written: float = 0.0


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What stood in a store at start.

    Attributes:
        pages: Those that can be used, the oldest first.
        corrupt: Files of ours that cannot; they have been deleted.
        foreign: Files that are not ours; they are let be.
    """

    pages: list[StoredPage]
    corrupt: list[Path]
    foreign: list[Path]


class PageStore:
    """A folder of pages of one size, for one model, used by one engine.

    Reading and writing may be done from several threads; a page is written by one at a time.
    """

    def __init__(self, folder: Path, page_bytes: int, identity: Mapping[str, str]) -> None:
        """Open or make the store.

        Raises:
            StoreUnusable: The folder cannot be made, written to or locked, or it is of something else.
        """
        self.page_bytes = page_bytes
        self.file_bytes = HEADER_BYTES + page_bytes
        self._folder = folder
        self._aside = folder / "aside"
        self._numbers = count()
        try:
            self._aside.mkdir(parents=True, exist_ok=True)
            self._lock = self._take_lock()
        except OSError as error:
            raise StoreUnusable(
                f"cannot keep pages in {folder}: {error.strerror}; give a folder that this process may write "
                f"to as gsm_disk_path"
            ) from error
        try:
            self._check_identity(dict(identity))
            for left in self._aside.iterdir():
                left.unlink()
        except OSError as error:
            self._lock.close()
            raise StoreUnusable(f"cannot keep pages in {folder}: {error.strerror}") from error
        except StoreUnusable:
            self._lock.close()
            raise

    def close(self) -> None:
        """Let another engine use the folder."""
        self._lock.close()

    def scan(self) -> FoundFiles:
        """Look at every file, reading headers alone."""
        pages: list[StoredPage] = []
        corrupt: list[Path] = []
        foreign: list[Path] = []
        for path in self._files():
            try:
                pages.append(self._look_at(path))
            except PageUnreadable:
                ours = path.suffix == ".page"
                (corrupt if ours else foreign).append(path)
                if ours:
                    path.unlink(missing_ok=True)
            except OSError:
                foreign.append(path)
        pages.sort(key=lambda page: page.written)
        return FoundFiles(pages, corrupt, foreign)

    def write(self, page: StoredPage, content: memoryview) -> None:
        """Keep one page.

        Args:
            page: What it is.
            content: Its `page_bytes` bytes, one-dimensional.

        Raises:
            OSError: Nothing was kept.
        """
        header = PageHeader(page.key, page.parent, len(content), zlib.crc32(content)).pack()
        aside = self._aside / str(next(self._numbers))
        try:
            with aside.open("xb", buffering=0) as file:
                for part in (header, content):
                    _write_whole(file, part)
            path = self._path(page.key)
            path.parent.mkdir(exist_ok=True)
            aside.rename(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise

    def read(self, key: bytes, content: memoryview) -> None:
        """Read one page into `content`, `page_bytes` bytes, one-dimensional; note its use for the next start.

        Raises:
            PageUnreadable: It is not what was written; what is in `content` then is of no use.
            OSError: It cannot be read.
        """
        path = self._path(key)
        with path.open("rb", buffering=0) as file:
            header = _read_header(path, file.read(HEADER_BYTES), self.page_bytes)
            if header.key != key:
                raise PageUnreadable(f"{path} has another page than its name says")
            done = 0
            while done < len(content) and (size := file.readinto(content[done:])):
                done += size
        if done != len(content) or zlib.crc32(content) != header.checksum:
            raise PageUnreadable(f"{path} is not as it was written")
        os.utime(path)

    def delete(self, key: bytes) -> None:
        """Delete a page; not there is as well."""
        self._path(key).unlink(missing_ok=True)

    def _take_lock(self) -> IO[bytes]:
        lock = (self._folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise StoreUnusable(
                f"another engine uses {self._folder}; give each replica a gsm_disk_path of its own"
            ) from error
        return lock

    def _check_identity(self, identity: dict[str, str]) -> None:
        path = self._folder / "store.json"
        wanted = {"format": str(FORMAT), **identity}
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            aside = self._aside / "store.json"
            aside.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
            aside.rename(path)
            return
        except ValueError as error:
            raise StoreUnusable(
                f"{path} is no description of a store; delete {self._folder} to begin anew"
            ) from error
        if found != wanted:
            raise StoreUnusable(
                f"{self._folder} has pages of something else ({_differences(found, wanted)}); "
                f"give another gsm_disk_path, or delete this folder"
            )

    def _files(self) -> Iterator[Path]:
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder != self._aside:
                yield from folder.iterdir()

    def _path(self, key: bytes) -> Path:
        return self._folder / file_name(key)

    def _look_at(self, path: Path) -> StoredPage:
        with path.open("rb", buffering=0) as file:
            page = _read_header(path, file.read(HEADER_BYTES), self.page_bytes)
            status = os.fstat(file.fileno())
        if path != self._path(page.key) or status.st_size != self.file_bytes:
            raise PageUnreadable(f"{path} is not as it was written")
        return StoredPage(page.key, page.parent, status.st_mtime)


def _read_header(path: Path, raw: bytes, page_bytes: int) -> PageHeader:
    header = PageHeader.parse(raw)
    if header is None:
        raise PageUnreadable(f"{path} has no header of a page")
    if header.size != page_bytes:
        raise PageUnreadable(f"{path} is a page of another store")
    return header


def _write_whole(file: IO[bytes], content: bytes | memoryview) -> None:
    done = 0
    while done < len(content):
        done += file.write(content[done:])


def _differences(found: object, wanted: Mapping[str, str]) -> str:
    if not isinstance(found, dict):
        return "it does not say of what"
    fields = cast("dict[str, object]", found)
    return "; ".join(
        f"{key}: {fields.get(key)} there, {value} here"
        for key, value in wanted.items()
        if fields.get(key) != value
    )
