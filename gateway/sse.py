"""Server-sent events as they come over a wire: any chunking, any line end, comments, a byte order mark.

The grammar is that of the HTML standard, section 9.2.6, "Interpreting an event stream".
"""

import re

MAX_EVENT = 16 * 1024 * 1024
"""Most bytes of one event."""

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
BOM = b"\xef\xbb\xbf"
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_LONGEST_BLANK_LINE = 4
_CALLED_ERROR = re.compile(rb"(?:\A|[\r\n])event: ?error[\r\n]")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventSplitter:
    """Cuts a byte stream into events, however it was cut into pieces.

    An event is returned as its own bytes, with the blank line that ends it. Every byte is looked at
    a bounded number of times, so that a long event in small pieces costs no more than in one.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._at_start = True

    @property
    def has_rest(self) -> bool:
        """Tell whether bytes of an event that has not ended are held."""
        return bool(self._rest)

    def take_rest(self) -> bytes:
        """Return what is held of an event whose end has not come, and hold it no more."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that end in `data`.

        Raises:
            ValueError: An event is longer than `MAX_EVENT`.
        """
        if self._at_start:
            data = self._without_mark(data)
        if not self._rest and data.endswith(b"\n\n") and b"\r" not in data:
            return [event + b"\n\n" for event in data[:-2].split(b"\n\n")]
        seen = max(0, len(self._rest) - _LONGEST_BLANK_LINE + 1)
        self._rest += data
        events: list[bytes] = []
        start = 0
        for blank in _BLANK_LINE.finditer(self._rest, seen):
            events.append(bytes(self._rest[start : blank.end()]))
            start = blank.end()
        del self._rest[:start]
        if len(self._rest) > MAX_EVENT:
            raise ValueError(f"an event is longer than {MAX_EVENT} bytes")
        return events

    def _without_mark(self, data: bytes) -> bytes:
        """Leave out a byte order mark at the very start, which may come in pieces."""
        start = bytes(self._rest) + data
        if len(start) < len(BOM) and BOM.startswith(start):
            self._rest[:] = start
            return b""
        self._at_start = False
        self._rest.clear()
        return start.removeprefix(BOM)


def payload_of(event: bytes) -> bytes | None:
    """Return the data of an event: its `data` lines, joined by newlines; None when it has none."""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[6:-2]
    lines = [line for line in _LINE_END.split(event) if line == b"data" or line.startswith(b"data:")]
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines) if lines else None


def is_comment(event: bytes) -> bool:
    """Tell whether an event without data has a comment, which keeps a connection alive."""
    return any(line.startswith(b":") for line in _LINE_END.split(event))


def has_other_fields(event: bytes) -> bool:
    """Tell whether an event has lines beside data and comments: `id`, `event`, `retry`, or unknown ones."""
    if event.startswith(b"data:") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return False
    return any(line and not line.startswith((b"data", b":")) for line in _LINE_END.split(event))


def is_called_error(event: bytes) -> bool:
    """Tell whether an event has the name `error`."""
    return _CALLED_ERROR.search(event) is not None


def event_of(payload: bytes) -> bytes:
    """Return an event with this data and nothing else."""
    return b"".join(b"data: " + line + b"\n" for line in payload.split(b"\n")) + b"\n"


def is_stream(body: bytes) -> bool:
    """Tell whether a whole body is an event stream, whatever it is called: JSON begins with none of these."""
    return body.lstrip(b"\r\n" + BOM).startswith((b"data:", b"event:", b"id:", b"retry:", b":"))
