"""The body that goes on to an engine: the client's fields, with what policy and engine change put in."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from gateway.requests.body import as_raw
from gateway.requests.protocol import ClientRequest
from gateway.requests.stream_options import ask_for_usage


def upstream_body(
    request: ClientRequest,
    model: str,
    *,
    max_output_tokens: int | None,
    cache_salt: str | None,
    running_usage: bool = False,
    adapted: Mapping[str, Raw] | None = None,
) -> bytes:
    """Return the body for an engine.

    Args:
        request: The client's.
        model: The engine's name of it.
        max_output_tokens: Cap to send in place of the client's; None leaves the client's.
        cache_salt: Keeps this tenant's cached prefixes apart; None where the engine has no such field.
        running_usage: Whether the engine can tell usage in every chunk of a stream.
        adapted: The fields in the engine's own words; None takes them as they came.
    """
    fields = dict(request.fields if adapted is None else adapted)
    fields["model"] = as_raw(model)
    told = request.wants_running_usage if running_usage else request.wants_usage
    if request.stream and not told:
        ask_for_usage(fields, running=running_usage and request.has_one_prompt)
    if max_output_tokens is not None:
        request.cap_output(fields, max_output_tokens)
    if cache_salt is not None:
        fields["cache_salt"] = as_raw(cache_salt)
    return msgspec.json.encode(fields)
