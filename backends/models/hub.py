"""A model file over HTTP, going on where an earlier try ended."""

import http.client
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Final

from backends.errors import ModelCorrupt, ModelUnavailable
from backends.models.partial import PartialFile
from backends.models.types import ByteCallback

_BLOCK: Final = 2**18  # bytes read at once: small enough for a bar that moves
_TIMEOUT: Final = 30.0  # seconds without a byte before a connection counts as dead


def fetch_rest(url: str, partial: PartialFile, total: int, on_bytes: ByteCallback) -> None:
    """Append what `partial` lacks of the file at `url`.

    A broken connection is taken up again at once, as long as every try brings something. A server
    that knows no ranges makes it begin at 0.

    Args:
        url: http or https.
        partial: Grows to `total` bytes.
        total: Bytes of the file.
        on_bytes: Told the size of `partial` after every block.

    Raises:
        ModelUnavailable: The server cannot be reached, refuses, or a try brought nothing.
        ModelCorrupt: It sends more than `total` bytes.
    """
    while (before := partial.size) < total:
        trouble = _try_once(url, partial, total, on_bytes)
        if partial.size <= before:
            raise ModelUnavailable(f"cannot fetch {url}: {trouble}; what has come is kept for the next try")


def _try_once(url: str, partial: PartialFile, total: int, on_bytes: ByteCallback) -> str:
    """Read until the connection ends; return why it ended, for people."""
    headers = {"Range": f"bytes={partial.size}-", "User-Agent": "flashlane"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the catalogue pins the URL
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        with error:
            raise ModelUnavailable(f"{url} answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    with response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            partial.clear()
        return _drain(response, partial, total, on_bytes)


def _drain(
    response: http.client.HTTPResponse, partial: PartialFile, total: int, on_bytes: ByteCallback
) -> str:
    while True:
        try:
            block = response.read(_BLOCK)
        except (OSError, http.client.HTTPException) as error:
            return str(error)
        if not block:
            return f"the connection ended at {partial.size} of {total} bytes"
        if partial.size + len(block) > total:
            raise ModelCorrupt(f"the server sends more than the pinned {total} bytes")
        partial.append(block)
        on_bytes(partial.size)
