"""Requests for `/v1/completions`: a text to go on with, outside of any chat template."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Raw

from backends.types import COMPLETIONS_PATH
from classifier.types import Conversation, Turn
from gateway.errors import BodyInvalid
from gateway.requests.body import as_raw, read_field, read_request
from gateway.requests.message import Message
from gateway.requests.prompt import Prompt, has_ids, read_prompt, text_in, tokens_in
from gateway.requests.protocol import AnswerField
from gateway.requests.stream_options import wanted_usage
from policies.errors import InputTooLong
from policies.tokens import estimate_tokens
from policies.types import AUTO

DEFAULT_MAX_TOKENS = 16
"""What OpenAI's reference gives a request without `max_tokens`, and vLLM as well."""


@dataclass(slots=True)
class CompletionRequest:
    """A request for a completion; see `ClientRequest`.

    Attributes:
        prompt: A text, or several, or token ids.
        suffix: What stands after the gap that is to be filled, "" when there is none.
        fields: Every top-level field as it came, isolation fields left out.
    """

    path: ClassVar[str] = COMPLETIONS_PATH
    answers_in: ClassVar[AnswerField] = "choices"
    model: str
    stream: bool
    wants_usage: bool
    wants_running_usage: bool
    max_output_tokens: int | None
    prompt: Prompt
    suffix: str
    fields: dict[str, Raw]

    @property
    def messages(self) -> Sequence[Message]:
        """Return nothing: this is no chat."""
        return ()

    @property
    def portable(self) -> bool:
        """Tell whether another model would do: not for token ids, which would mean other words there."""
        return not has_ids(self.prompt)

    def input_tokens(self) -> int:
        """Estimate the length of all prompts together, in tokens."""
        return tokens_in(self.prompt) + estimate_tokens(self.suffix)

    @property
    def has_one_prompt(self) -> bool:
        """Tell whether it is one text, or one array of token ids."""
        return isinstance(self.prompt, str) or len(self.prompt) == 1 or isinstance(self.prompt[0], int)

    def conversation(self) -> Conversation:
        """Return the prompt as the one turn of a conversation."""
        return Conversation(turns=[Turn("user", text_in(self.prompt))])

    def pending_text(self) -> str:
        """Return the prompt."""
        return text_in(self.prompt)

    def keep_last(self, max_tokens: int) -> None:
        """Refuse: a prompt has no turns that could be left out.

        Raises:
            InputTooLong: Always.
        """
        raise InputTooLong(
            f"The prompt has about {self.input_tokens()} tokens, over the {max_tokens} that the tenant may "
            "send, and a prompt is not cut. Shorten it."
        )

    def cap_output(self, fields: dict[str, Raw], max_tokens: int) -> None:
        """Put the cap in; it makes no answer longer: some engines go on without end when nothing is said."""
        asked = DEFAULT_MAX_TOKENS if self.max_output_tokens is None else self.max_output_tokens
        fields["max_tokens"] = as_raw(min(asked, max_tokens))


def parse_completion(body: bytes) -> CompletionRequest:
    """Read a request for a completion.

    Raises:
        BodyInvalid: It is not JSON, or a field that Flashlane reads is missing or of another type.
    """
    model, fields = read_request(body)
    prompt = read_prompt(fields, "prompt")
    if model == AUTO and has_ids(prompt):
        raise BodyInvalid(
            "'auto' cannot judge token ids, and they mean other words to each model. Send the prompt as "
            "text, or name the model whose tokenizer made the ids.",
            param="prompt",
        )
    at_end, running = wanted_usage(fields)
    return CompletionRequest(
        model=model,
        stream=bool(read_field(fields, "stream", bool)),
        wants_usage=at_end,
        wants_running_usage=running,
        max_output_tokens=read_field(fields, "max_tokens", int),
        prompt=prompt,
        suffix=read_field(fields, "suffix", str) or "",
        fields=fields,
    )
