"""What a client says of thinking, in whichever of the usual words."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Raw

from gateway.errors import BodyInvalid
from gateway.requests.body import read_field, read_json
from policies.types import AUTO, Effort, ModelTable

KWARGS = "chat_template_kwargs"
CONTROLS = ("thinking", "reasoning_effort", "reasoning")
"""Top-level fields that are about thinking alone: DeepSeek's and Anthropic's, OpenAI's, OpenRouter's."""

WORDS = frozenset({*CONTROLS, KWARGS})

NAMES: Mapping[str, Effort] = {
    "none": Effort.OFF,
    **{e.value: e for e in Effort if e.value not in {"on", "off"}},
}
"""Efforts as clients name them: OpenAI's words, and `max`."""


class _Mode(msgspec.Struct):
    mode: str | None = None


class _ToolChoice(msgspec.Struct):
    """`tool_choice` as an object: a tool by its name, or which tools are allowed."""

    type: str | None = None
    allowed_tools: _Mode | None = None


class Switch(msgspec.Struct):
    """`thinking`, as DeepSeek and Anthropic have it; `adaptive` leaves it to the model."""

    type: Literal["enabled", "disabled", "adaptive"]


class _Reasoning(msgspec.Struct):
    """`reasoning`, as OpenRouter and OpenAI's Responses have it."""

    effort: str | None = None
    enabled: bool | None = None


class TemplateSwitches(msgspec.Struct):
    """The fields of `chat_template_kwargs` that are about thinking; a number is an effort from 1 to 100."""

    thinking: bool | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | int | None = None


def read_wish(fields: Mapping[str, Raw], model: str, models: ModelTable) -> Effort | None:
    """Return what a client says of thinking; None when it says nothing, or no model can be told.

    A switch says whether, an effort says how much; so `disabled` with an effort means off.

    Args:
        fields: Of a chat request.
        model: As the client named it.
        models: Every configured model.

    Raises:
        BodyInvalid: A field is of another type, or names an effort that nobody knows. Not so for a model
            that Flashlane does not tell how to think: such fields are for its engine to judge.
    """
    if fields.keys().isdisjoint(WORDS) or not any(facts.thinks for facts in models.values()):
        return None
    try:
        return _wish(fields)
    except BodyInvalid:
        if model == AUTO or (model in models and models[model].thinks):
            raise
        return (
            Effort.ON
        )  # it asks to think, in words of that model; another stands in for it at its own measure


def forces_a_tool(fields: Mapping[str, Raw]) -> bool:
    """Tell whether `tool_choice` leaves the model no choice but to call a tool."""
    if "tool_choice" not in fields:
        return False
    try:
        choice = read_json(fields["tool_choice"], str | _ToolChoice | None, "tool_choice")
    except BodyInvalid:
        return False  # the engine says what is wrong with it
    if isinstance(choice, _ToolChoice):
        mode = choice.allowed_tools.mode if choice.allowed_tools else None
        return mode == "required" or choice.type not in {None, "auto", "none", "allowed_tools"}
    return choice in {"required", "any"}


def _wish(fields: Mapping[str, Raw]) -> Effort | None:
    switch = read_field(fields, "thinking", Switch)
    reasoning = read_field(fields, "reasoning", _Reasoning) or _Reasoning()
    template = read_field(fields, KWARGS, TemplateSwitches) or TemplateSwitches()
    on = {"enabled": True, "disabled": False}.get(switch.type) if switch else None
    for other in (reasoning.enabled, template.thinking, template.enable_thinking):
        on = other if on is None else on
    level = _named(read_field(fields, "reasoning_effort", str), "reasoning_effort")
    level = level or _named(reasoning.effort, "reasoning.effort") or _level(template)
    if on is False:
        return Effort.OFF
    if on and level in {None, Effort.OFF}:
        return Effort.ON
    return level


def _level(template: TemplateSwitches) -> Effort | None:
    effort = template.reasoning_effort
    return Effort.ON if isinstance(effort, int) else _named(effort, f"{KWARGS}.reasoning_effort")


def _named(name: str | None, path: str) -> Effort | None:
    if name is None:
        return None
    if name not in NAMES:
        raise BodyInvalid(
            f"Unknown effort {name[:64]!r} in '{path}'. Use one of: {', '.join(NAMES)}.", param=path
        )
    return NAMES[name]
