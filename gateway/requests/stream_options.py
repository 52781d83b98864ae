"""`stream_options`: whether a stream tells what was used, at its end or in every chunk."""

import msgspec
from msgspec import Raw

from gateway.requests.body import as_raw, read_field


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


def wanted_usage(fields: dict[str, Raw]) -> tuple[bool, bool]:
    """Return whether a client asked for usage at the end of its stream, and in every chunk.

    Raises:
        BodyInvalid: `stream_options` is of another type.
    """
    options = read_field(fields, "stream_options", _StreamOptions)
    if options is None or not options.include_usage:
        return False, False
    return True, bool(options.continuous_usage_stats)


def ask_for_usage(fields: dict[str, Raw], *, running: bool) -> None:
    """Make a stream tell what was used, which the record needs.

    Args:
        fields: Of the request; changed.
        running: Whether to ask for it in every chunk, so that it is known of a stream that is cut as well.
            vLLM then counts each of several answers for itself, which would tell less than nothing.
    """
    options = read_field(fields, "stream_options", dict[str, Raw]) or {}
    options["include_usage"] = Raw(b"true")
    if running and all(bytes(fields.get(name, b"1")).strip() in {b"1", b"null"} for name in ("n", "best_of")):
        options["continuous_usage_stats"] = Raw(b"true")
    fields["stream_options"] = as_raw(options)
