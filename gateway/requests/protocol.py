"""What the pipeline asks of a client's request, to whichever endpoint it came."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from msgspec import Raw

from classifier.types import Conversation
from gateway.requests.message import Message

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

    @property
    def has_one_prompt(self) -> bool:
        """Tell whether one prompt is sent, so that the engine's counts are those of one answer."""
        ...

    def cap_output(self, fields: dict[str, Raw], max_tokens: int) -> None:
        """Put the tenant's cap on the answer's tokens into the fields for an engine."""
        ...
