"""Requests for `/v1/embeddings`: texts to turn into vectors, by a model that the client names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Raw

from backends.types import EMBEDDINGS_PATH
from classifier.types import Conversation, Turn
from gateway.errors import BodyInvalid
from gateway.requests.body import read_request
from gateway.requests.message import Message
from gateway.requests.prompt import Prompt, read_prompt, text_in, tokens_in
from gateway.requests.protocol import AnswerField
from policies.errors import InputTooLong
from policies.types import AUTO


@dataclass(slots=True)
class EmbeddingRequest:
    """A request for embeddings; see `ClientRequest`. Nothing is written, so nothing is streamed.

    Attributes:
        prompt: What is to be embedded: a text, or several, or token ids.
        fields: Every top-level field as it came, isolation fields left out.
    """

    path: ClassVar[str] = EMBEDDINGS_PATH
    answers_in: ClassVar[AnswerField] = "data"
    model: str
    prompt: Prompt
    fields: dict[str, Raw]
    stream: bool = False
    wants_usage: bool = False
    wants_running_usage: bool = False
    max_output_tokens: int | None = 0

    @property
    def messages(self) -> Sequence[Message]:
        """Return nothing: this is no chat."""
        return ()

    @property
    def portable(self) -> bool:
        """Tell that no other model will do: its vectors cannot be compared with those of this one."""
        return False

    def input_tokens(self) -> int:
        """Estimate the length of all texts together, in tokens."""
        return tokens_in(self.prompt)

    def conversation(self) -> Conversation:
        """Return the texts as one turn; nobody asks, as `auto` is refused."""
        return Conversation(turns=[Turn("user", text_in(self.prompt))])

    def pending_text(self) -> str:
        """Return the texts."""
        return text_in(self.prompt)

    def keep_last(self, max_tokens: int) -> None:
        """Refuse: the vector of half a text is that of another text.

        Raises:
            InputTooLong: Always.
        """
        raise InputTooLong(
            f"The input has about {self.input_tokens()} tokens, over the {max_tokens} that the tenant may "
            "send, and a text to embed is not cut. Send less at once."
        )

    @property
    def has_one_prompt(self) -> bool:
        """Tell that it does not matter: nothing is streamed."""
        return False

    def cap_output(self, fields: dict[str, Raw], max_tokens: int) -> None:
        """Leave the fields alone: nothing is written that a cap could hold for."""


def parse_embedding(body: bytes) -> EmbeddingRequest:
    """Read a request for embeddings.

    Raises:
        BodyInvalid: It is not JSON, leaves the model open, or its input is missing or of another type.
    """
    model, fields = read_request(body)
    if model == AUTO:
        raise BodyInvalid(
            "'auto' chooses between models that write, and vectors of two models cannot be compared. Name "
            "the model that shall embed, for example one of those that GET /v1/models lists.",
            param="model",
        )
    return EmbeddingRequest(model=model, prompt=read_prompt(fields, "input"), fields=fields)
