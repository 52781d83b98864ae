"""The chat template of a model, as Hugging Face's `tokenizer_config.json` holds it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

Messages = Sequence[Mapping[str, Any]]


class TemplateFailed(Exception):
    """A template does not take these messages, or they hold more than text."""


class ChatTemplate:
    """Turns messages into the text that the model reads."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        """Compile a template.

        Args:
            source: Jinja.
            tokens: `bos_token`, `eos_token` and the like, as the template may write them.

        Raises:
            TemplateFailed: It is no template.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, autoescape=False, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise TemplateFailed(str(error)) from error
        self._tokens = dict(tokens)

    def render(
        self, messages: Messages, tools: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
    ) -> str:
        """Return the text, with the beginning of an answer at its end.

        Raises:
            TemplateFailed: The template refuses the messages, or a message holds more than text.
        """
        context = {**self._tokens, **(options or {}), "raise_exception": _refuse}
        try:
            return self._template.render(
                messages=[{**message, "content": _text_of(message.get("content"))} for message in messages],
                tools=tools,
                add_generation_prompt=True,
                **context,
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:
            raise TemplateFailed(str(error)) from error


def load_template(folder: Path) -> ChatTemplate | None:
    """Read the chat template of a folder with a model's tokenizer; None when it has none.

    Raises:
        TemplateFailed: It is no template.
        OSError: A file cannot be read.
        ValueError: `tokenizer_config.json` is not JSON.
    """
    file = folder / "tokenizer_config.json"
    config: Any = json.loads(file.read_text("utf-8")) if file.exists() else {}
    beside = folder / "chat_template.jinja"
    source: Any = beside.read_text("utf-8") if beside.exists() else config.get("chat_template")
    if isinstance(source, list):  # several, by name
        named = {each["name"]: each["template"] for each in cast("list[dict[str, str]]", source)}
        source = named.get("default")
    if not isinstance(source, str):
        return None
    return ChatTemplate(source, _special_tokens(config))


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Return `bos_token` and the like; each is a text, or an object that holds it."""
    found: dict[str, str] = {}
    for name, value in config.items():
        text = cast("dict[str, object]", value).get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _text_of(content: object) -> object:
    """Return a content of text parts as engines join them."""
    if not isinstance(content, list):
        return content
    parts = cast("list[dict[str, object]]", content)
    texts = [part.get("text") for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise TemplateFailed("a message holds more than text")
    return "\n".join(cast("list[str]", texts))


def _to_json(value: object, indent: int | None = None, **_: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
