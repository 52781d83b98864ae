"""A request as one replica shall get it: how hard to think, in its engine's words, and a history to match.

Sources: https://api-docs.deepseek.com/guides/thinking_mode; vLLM's `tokenizers/deepseek_v41.py`; SGLang's
`entrypoints/openai/reasoning_request.py`; llama.cpp's `tools/server/README.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from backends.types import EngineFlavour, Replica, ReplicaKind, Thinking
from gateway.requests.body import as_raw, read_field
from gateway.thinking.history import lacks_reasoning, made_good, renamed_to, without_reasoning
from gateway.thinking.wishes import CONTROLS, KWARGS, Switch, forces_a_tool
from policies.types import Effort

LEVELS: Mapping[Effort, str] = {
    Effort.MINIMAL: "low",
    Effort.LOW: "low",
    Effort.MEDIUM: "high",
    Effort.HIGH: "high",
    Effort.XHIGH: "high",
    Effort.MAX: "max",
}
"""DeepSeek's names, as its API maps others to them: low is 50 of 100, high 75, max 100."""

ENGINE_LEVELS: Mapping[Effort, str] = {
    Effort.MINIMAL: "low",
    Effort.LOW: "high",
    Effort.MEDIUM: "xhigh",
    Effort.HIGH: "xhigh",
    Effort.XHIGH: "xhigh",
    Effort.MAX: "max",
}
"""The names of vLLM and SGLang for the same numbers: there low is 25, high 50, xhigh 75, max 100."""

SWITCHES = ("thinking", "enable_thinking")
"""What chat templates call the switch: DeepSeek's, and most others'; one that knows neither leaves it out."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine is told.

    Attributes:
        reasoning: The name of reasoning in the messages that it reads.
        levels: The names of efforts.
        by_template: Whether the switch is a variable of the chat template, not `thinking`.
        insists: Whether it refuses to think on where reasoning of a tool's turn is missing.
    """

    reasoning: str
    levels: Mapping[Effort, str]
    by_template: bool
    insists: bool


DEEPSEEK_API = Dialect("reasoning_content", LEVELS, by_template=False, insists=True)
DIALECTS: Mapping[EngineFlavour, Dialect] = {
    EngineFlavour.GENERIC: DEEPSEEK_API,
    EngineFlavour.VLLM: Dialect("reasoning", ENGINE_LEVELS, by_template=True, insists=False),
    EngineFlavour.SGLANG: Dialect("reasoning_content", ENGINE_LEVELS, by_template=True, insists=False),
    EngineFlavour.LLAMA_CPP: Dialect("reasoning_content", LEVELS, by_template=True, insists=False),
}


class Adapted(msgspec.Struct, frozen=True):
    """The fields of a request for one replica.

    Attributes:
        fields: To be sent; those of the client, unchanged, where nothing had to change.
        effort: What the model was told; None when it was told nothing.
        note: Why that is not what was decided; "" when it is.
    """

    fields: Mapping[str, Raw]
    effort: Effort | None = None
    note: str = ""


def adapt(fields: Mapping[str, Raw], effort: Effort | None, replica: Replica, thinking: Thinking) -> Adapted:
    """Return a request in the words of a replica's engine.

    Args:
        fields: Of the client's request.
        effort: As it was decided; None leaves the model's own.
        replica: Who shall answer.
        thinking: How its model is controlled.
    """
    if "messages" not in fields:
        return Adapted(fields)
    match thinking:
        case Thinking.PASSTHROUGH:
            return Adapted(fields)
        case Thinking.NONE:
            return Adapted(_with_messages(fields, without_reasoning(fields["messages"])))
        case Thinking.DEEPSEEK:
            return _adapt(fields, effort, dialect_of(replica))


def dialect_of(replica: Replica) -> Dialect:
    """Return how a replica is told; what is not known to run an engine of its own takes DeepSeek's API."""
    return DEEPSEEK_API if replica.kind is ReplicaKind.LITELLM else DIALECTS[replica.flavour]


def _adapt(fields: Mapping[str, Raw], effort: Effort | None, dialect: Dialect) -> Adapted:
    messages, note = fields["messages"], ""
    if effort not in {None, Effort.OFF} and forces_a_tool(fields):
        effort, note = Effort.OFF, "effort:off, as tool_choice forces a tool"
    messages = renamed_to(dialect.reasoning, messages)
    if dialect.insists and effort is not Effort.OFF:
        if effort is None and lacks_reasoning(messages):
            effort, note = Effort.OFF, "effort:off, as the history lacks the reasoning of a tool call"
        else:
            messages = made_good(messages)
    return Adapted(_told(_with_messages(fields, messages), effort, dialect), effort, note)


def _with_messages(fields: Mapping[str, Raw], messages: Raw) -> Mapping[str, Raw]:
    return fields if messages is fields["messages"] else {**fields, "messages": messages}


def _told(fields: Mapping[str, Raw], effort: Effort | None, dialect: Dialect) -> Mapping[str, Raw]:
    """Put the effort in, in place of whatever the client said of it; None says nothing.

    Fields in which a client says the same in DeepSeek's own words go on as they came, whatever stands beside.
    """
    if effort is None and fields.keys().isdisjoint(CONTROLS):
        return fields
    if not dialect.by_template and _is_said(fields, effort):
        return fields
    told = {name: value for name, value in fields.items() if name not in CONTROLS}
    if effort is None:
        return told
    kwargs: dict[str, Any] = read_field(fields, KWARGS, dict[str, Raw]) or {}
    number = bytes(kwargs.pop("reasoning_effort", b""))
    kwargs = {name: value for name, value in kwargs.items() if name not in SWITCHES}
    if dialect.by_template:
        kwargs |= dict.fromkeys(SWITCHES, effort is not Effort.OFF)
        if effort is Effort.ON and number.isdigit():
            kwargs["reasoning_effort"] = Raw(number)
    else:
        told["thinking"] = as_raw({"type": "disabled" if effort is Effort.OFF else "enabled"})
    if effort in dialect.levels:
        told["reasoning_effort"] = as_raw(dialect.levels[effort])
    told.pop(KWARGS, None)
    if kwargs:
        told[KWARGS] = as_raw(kwargs)
    return told


def _is_said(fields: Mapping[str, Raw], effort: Effort | None) -> bool:
    """Tell whether `thinking` and `reasoning_effort` say an effort as DeepSeek's API reads them."""
    if effort is None or fields.keys().isdisjoint(CONTROLS):
        return False
    switch = read_field(fields, "thinking", Switch)
    named = read_field(fields, "reasoning_effort", str)
    if effort is Effort.OFF:
        return switch is not None and switch.type == "disabled"
    on = switch is None or switch.type == "enabled"
    return on and named == LEVELS.get(effort) and (named is not None or switch is not None)
