"""The values that go into and come out of the classifier.

Structs, as every request makes them: a frozen dataclass takes ten times as long.
"""

from collections.abc import Mapping, Sequence

import msgspec


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation, as text.

    Attributes:
        role: "user", "assistant", "tool", ... as on the wire.
        text: All text parts, joined by newlines; "" when there are none.
    """

    role: str
    text: str


class Conversation(msgspec.Struct, frozen=True):
    """What the classifier may look at.

    Attributes:
        turns: The last turns, oldest first, without system messages. Only user turns are read, at
            most `reading.LOOK_BACK` before the last one, so a caller may leave the rest out.
        system: The system (and developer) prompt; names the task, never moves the score.
        tools: The `tools` array as the JSON bytes that came in, b"" when there is none.
        tool_count: How many tools are offered.
        attachments: Images, audio or files in the pending turn.
        depth: How many turns the whole conversation has.
        key: Name of the API key, "" when unknown; part of the task's name.
        endpoint: Path that was called, "" when unknown; part of the task's name.
        task: The task's name, for a caller that knows it; "" to derive it.
    """

    turns: Sequence[Turn]
    system: str = ""
    tools: bytes = b""
    tool_count: int = 0
    attachments: int = 0
    depth: int = 1
    key: str = ""
    endpoint: str = ""
    task: str = ""


class ComplexityEstimate(msgspec.Struct, frozen=True):
    """How much a request would gain from the standard model.

    Attributes:
        score: In [0, 1]; ranks requests by what the standard model is expected to gain. Not a probability.
        p_flash_ok: Calibrated probability that Flash's answer is good enough; None until there
            are enough labelled pairs to calibrate it.
        domain: One of `classifier.domains.DOMAINS`; "" when nobody asked.
        task: Name of the recurring task this request belongs to (a hash of system prompt and tools),
            or "" when it has neither.
        model_version: Version of the shipped weights, and of what was adapted on top of them.
        names: Of the features that `score` was computed from.
        values: Of the same.
    """

    score: float
    p_flash_ok: float | None
    domain: str
    task: str
    model_version: str
    names: Sequence[str] = ()
    values: Sequence[float] = ()

    @property
    def features(self) -> Mapping[str, float]:
        """Return feature name -> value; made when asked for, which no request does."""
        return dict(zip(self.names, self.values, strict=True))
