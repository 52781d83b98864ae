"""How a file of the disk tier begins: what its page is, and how to tell that it is whole.

Magic, bytes of key and parent, key, parent, bytes of the page, their CRC-32; then the CRC-32 of all that.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

FORMAT: Final = 1
"""Stands in store.json as `format`; another one is another store."""

_MAGIC: Final = b"gsm-page"
_HEADER: Final = struct.Struct("<8sBB72s72sQI")
_CHECK: Final = struct.Struct("<I")

HEADER_BYTES: Final = _HEADER.size + _CHECK.size


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a file says of its page.

    Attributes:
        key: The name that the engine gave it.
        parent: The page before it in its sequence; None for the first.
        size: Bytes of the page, which follow the header.
        checksum: Their CRC-32.
    """

    key: bytes
    parent: bytes | None
    size: int
    checksum: int

    def pack(self) -> bytes:
        """Return it as it stands in the file: `HEADER_BYTES` bytes."""
        parent = self.parent or b""
        header = _HEADER.pack(_MAGIC, len(self.key), len(parent), self.key, parent, self.size, self.checksum)
        return header + _CHECK.pack(zlib.crc32(header))

    @classmethod
    def parse(cls, raw: bytes) -> "PageHeader | None":
        """Read the first `HEADER_BYTES` bytes of a file; None when they are no whole header of a page."""
        header = raw[: _HEADER.size]
        if len(raw) != HEADER_BYTES or _CHECK.unpack(raw[_HEADER.size :]) != (zlib.crc32(header),):
            return None
        magic, key_size, parent_size, key, parent, size, checksum = _HEADER.unpack(header)
        if magic != _MAGIC:
            return None
        return cls(key[:key_size], parent[:parent_size] or None, size, checksum)


def file_name(key: bytes) -> str:
    """Return where the file of a page is, in the folder of its store."""
    name = key.hex()
    return f"{name[:2]}/{name}.page"
