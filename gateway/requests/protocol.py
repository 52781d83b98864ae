"""What the pipeline needs to know of a request, to whichever endpoint it came."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Protocol

import msgspec
from msgspec import Raw

from classifier.types import Conversation
from gateway.errors import BodyInvalid
from gateway.requests.body import as_raw, read_field, read_fields
from gateway.requests.message import Message

ISOLATION_FIELDS = ("cache_salt", "priority", "kv_transfer_params", "prompt_embeds", "request_id")
"""Fields that touch other tenants; they come from policy, whatever a client sends."""

AnswerField = Literal["choices", "data"]


class ClientRequest(Protocol):
    """A client's request, checked as far as Flashlane needs it; one class an endpoint of the engines.

    Attributes:
        path: The engines' endpoint.
        answers_in: The field of a plain answer that is never empty.
        model: As the client named it.
        stream: Whether an event stream is asked for.
        wants_usage: Whether the client asked for usage at the end of the stream.
        wants_running_usage: Whether it asked for usage in every chunk, too, which vLLM can do.
        max_output_tokens: As the client asked; None when it did not.
        fields: Every top-level field as it came, isolation fields left out.
    """

    path: ClassVar[str]
    answers_in: ClassVar[AnswerField]
    model: str
    stream: bool
    wants_usage: bool
    wants_running_usage: bool
    max_output_tokens: int | None
    fields: dict[str, Raw]

    @property
    def messages(self) -> Sequence[Message]:
        """Return the messages of a chat; none elsewhere."""
        ...

    @property
    def portable(self) -> bool:
        """Tell whether the answer of another model would do, when the one that was chosen fails."""
        ...

    def input_tokens(self) -> int:
        """Estimate the length of the input, in tokens."""
        ...

    def conversation(self) -> Conversation:
        """Return what the classifier looks at; asked for when the model is `auto`."""
        ...

    def pending_text(self) -> str:
        """Return the text that keywords are looked for in."""
        ...

    def keep_last(self, max_tokens: int) -> None:
        """Cut the input down to its end.

        Raises:
            InputTooLong: It cannot be.
        """
        ...

    def upstream_body(
        self,
        model: str,
        *,
        max_output_tokens: int | None,
        cache_salt: str | None,
        running_usage: bool = False,
        adapted: Mapping[str, Raw] | None = None,
    ) -> bytes:
        """Return the body for an engine.

        Args:
            model: The engine's name of it.
            max_output_tokens: Cap to send in place of the client's; None leaves the client's.
            cache_salt: Keeps this tenant's cached prefixes apart; None where the engine has no such field.
            running_usage: Whether the engine can tell usage in every chunk of a stream.
            adapted: The fields in the engine's own words; None takes them as they came.
        """
        ...


def read_request(body: bytes) -> tuple[str, dict[str, Raw]]:
    """Return the model that a body names, and all of its fields but those that isolate tenants.

    Raises:
        BodyInvalid: It is not JSON, or names no model.
    """
    fields = read_fields(body)
    for name in ISOLATION_FIELDS:
        fields.pop(name, None)
    model = read_field(fields, "model", str)
    if not model:
        raise BodyInvalid("You must name a model, for example 'auto'.", param="model")
    return model, fields


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
