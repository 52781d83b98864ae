"""A text, or several, or token ids in their place: how OpenAI's older endpoints take their input."""

from msgspec import Raw

from gateway.errors import BodyInvalid
from gateway.requests.body import read_field
from policies.tokens import estimate_tokens

Prompt = str | list[str | int | list[int]]
"""One text, several, the token ids of one, or those of several."""


def read_prompt(fields: dict[str, Raw], name: str) -> Prompt:
    """Return the field that holds the input.

    Raises:
        BodyInvalid: It is missing, of another type, or an empty list.
    """
    text = bytes(fields.get(name, b"null")).lstrip()
    found: Prompt | None = (
        read_field(fields, name, list[str | int | list[int]])
        if text.startswith(b"[")
        else read_field(fields, name, str)
    )
    if found is None or found == []:
        raise BodyInvalid(f"'{name}' must hold a text, a list of texts, or token ids.", param=name)
    return found


def tokens_in(prompt: Prompt) -> int:
    """Return how many tokens all texts have together: ids counted, texts estimated."""
    if isinstance(prompt, str):
        return estimate_tokens(prompt)
    return sum(1 if isinstance(part, int) else _tokens_of(part) for part in prompt)


def _tokens_of(part: str | list[int]) -> int:
    return estimate_tokens(part) if isinstance(part, str) else len(part)


def has_ids(prompt: Prompt) -> bool:
    """Tell whether token ids are among the input; what they mean depends on the tokenizer of a model."""
    return not isinstance(prompt, str) and any(not isinstance(part, str) for part in prompt)


def text_in(prompt: Prompt) -> str:
    """Return the texts, joined by newlines; ids cannot be read."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(part for part in prompt if isinstance(part, str))
