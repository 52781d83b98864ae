"""What a client says of thinking, in whichever words."""

import json
from typing import Any

import pytest
from msgspec import Raw

from gateway.errors import BodyInvalid
from gateway.thinking.wishes import CONTROLS, KWARGS, forces_a_tool, read_wish
from policies.types import Effort, ModelFacts

MODELS = {"flash": ModelFacts("flash", thinks=True), "standard": ModelFacts("standard")}


def raw(**fields: Any) -> dict[str, Raw]:
    """Return fields as they come over the wire, with room around them."""
    return {name: Raw(f" {json.dumps(value)} ".encode()) for name, value in fields.items()}


def wish(model: str = "auto", **fields: Any) -> Effort | None:
    """Return what is read from fields."""
    return read_wish(raw(**fields), model, MODELS)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, Effort.ON),
        ({"thinking": {"type": "disabled"}}, Effort.OFF),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"reasoning_effort": "none"}, Effort.OFF),
        ({"reasoning_effort": "minimal"}, Effort.MINIMAL),
        ({"reasoning_effort": "xhigh"}, Effort.XHIGH),
        ({"reasoning": {"effort": "max", "summary": "auto"}}, Effort.MAX),
        ({"reasoning": {"enabled": False}}, Effort.OFF),
        ({"reasoning": {"summary": "auto"}}, None),
        ({KWARGS: {"thinking": True}}, Effort.ON),
        ({KWARGS: {"enable_thinking": False, "x": 1}}, Effort.OFF),
        ({KWARGS: {"reasoning_effort": 30}}, Effort.ON),
        ({KWARGS: {"reasoning_effort": "high"}}, Effort.HIGH),
        ({KWARGS: {"x": 1}}, None),
        ({"thinking": {"type": "disabled"}, "reasoning_effort": "low"}, Effort.OFF),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "low"}, Effort.LOW),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "none"}, Effort.ON),
        ({"thinking": {"type": "enabled"}, KWARGS: {"thinking": False}}, Effort.ON),
        (dict.fromkeys((*CONTROLS, KWARGS)), None),
    ],
    ids=repr,
)
def test_a_wish_is_read_in_whichever_words(fields: dict[str, Any], expected: Effort | None):
    assert wish(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "turbo"}, "reasoning_effort"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"reasoning": {"effort": "很高"}}, "reasoning.effort"),
        ({"thinking": {"type": "on"}}, "thinking.type"),
        ({"thinking": True}, "thinking"),
        ({KWARGS: {"thinking": "yes"}}, f"{KWARGS}.thinking"),
        ({KWARGS: {"reasoning_effort": "turbo"}}, f"{KWARGS}.reasoning_effort"),
    ],
    ids=repr,
)
def test_a_wish_that_nobody_understands_is_refused_with_its_path(fields: dict[str, Any], param: str):
    for model in ("auto", "flash"):
        with pytest.raises(BodyInvalid) as caught:
            wish(model, **fields)
        assert caught.value.param == param


def test_an_unknown_effort_is_refused_with_those_that_are_known():
    with pytest.raises(BodyInvalid, match="none, minimal, low, medium, high, xhigh, max"):
        wish(reasoning_effort="turbo")


def test_words_for_a_model_that_is_not_told_how_to_think_are_its_engines_to_judge():
    assert wish("standard", reasoning_effort="turbo") is Effort.ON
    assert wish("unheard-of", reasoning_effort="turbo") is Effort.ON
    assert read_wish(raw(reasoning_effort="turbo"), "auto", {"flash": ModelFacts("flash")}) is None


@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ("auto", False),
        ("none", False),
        (None, False),
        ({"type": "auto"}, False),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, False),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}, True),
        ("required", True),
        ({"type": "function", "function": {"name": "w"}}, True),
        (7, False),
    ],
    ids=repr,
)
def test_a_tool_is_forced_by_name_or_by_required(choice: Any, forced: bool):
    assert forces_a_tool(raw(tool_choice=choice)) is forced
    assert not forces_a_tool({})
