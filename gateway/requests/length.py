"""Shorter answers: stop sequences, and labels alone where a prompt only sorts things.

What a client states itself wins. Labels are held by the engine's grammar, in the words of each engine; one
that has no such field gets a cap in their place, as token ids (`logit_bias`) would need its tokenizer.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from backends.types import CHAT_PATH, EngineFlavour
from gateway.requests.body import as_raw
from gateway.requests.protocol import ClientRequest
from policies.types import Answers

HELD_BY_CLIENT: Final = frozenset(
    {"response_format", "structured_outputs", "grammar", "json_schema", "regex", "ebnf", "tools", "functions"}
)
"""Fields by which a client itself says what an answer looks like."""

LIMITS: Final = frozenset({"max_tokens", "max_completion_tokens"})
SYSTEM: Final = frozenset({"system", "developer"})


def labels_for(request: ClientRequest, answers: Answers) -> Sequence[str]:
    """Return the labels that a request is answered by alone; none where it is not a prompt that sorts."""
    if not answers.labels or request.path != CHAT_PATH or HELD_BY_CLIENT & request.fields.keys():
        return ()
    system = next((message.text() for message in request.messages if message.role in SYSTEM), "")
    return next((rule.choose for rule in answers.labels if system.startswith(rule.system)), ())


def shorten(
    fields: Mapping[str, Raw],
    request: ClientRequest,
    answers: Answers,
    flavour: EngineFlavour,
    *,
    thinks: bool,
) -> Mapping[str, Raw]:
    """Return the fields for an engine with the tenant's stop sequences and labels put in.

    Args:
        fields: In the engine's words so far.
        request: The client's.
        answers: What the tenant's file says of answers.
        flavour: What the engine is.
        thinks: Whether the model may think before it answers, so that a cap would cut its thoughts.
    """
    more: dict[str, Raw] = {}
    if answers.stop and "stop" not in fields:
        more["stop"] = as_raw(list(answers.stop))
    labels = labels_for(request, answers)
    if labels:
        more |= _labels_alone(fields, labels, flavour, thinks=thinks)
    return {**fields, **more} if more else fields


def _labels_alone(
    fields: Mapping[str, Raw], labels: Sequence[str], flavour: EngineFlavour, *, thinks: bool
) -> dict[str, Raw]:
    match flavour:
        case EngineFlavour.VLLM:
            return {"structured_outputs": as_raw({"choice": list(labels)})}
        case EngineFlavour.LLAMA_CPP:
            quoted = " | ".join(msgspec.json.encode(label).decode() for label in labels)
            return {"grammar": as_raw(f"root ::= {quoted}")}
        case EngineFlavour.SGLANG:
            return {"regex": as_raw(f"({'|'.join(re.escape(label) for label in labels)})")}
        case EngineFlavour.GENERIC:
            longest = max(len(label.encode()) for label in labels)  # a token has a byte at least
            return {} if thinks or LIMITS & fields.keys() else {"max_tokens": as_raw(longest + 1)}
