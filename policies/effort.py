"""How hard a model that thinks shall think, and why. Pure; a part of the decision."""

from policies.errors import ThinkingConflict
from policies.types import Ask, Effort, ModelFacts

ROOM_TO_THINK = 2048
"""Output tokens; fewer leave no room to think.

Thoughts count as output. They are hundreds to thousands of tokens; an answer that they used up is empty,
with the finish reason `length`.
"""


def choose_effort(ask: Ask, model: ModelFacts, *, easy: bool, limit: int | None) -> tuple[Effort | None, str]:
    """Choose the effort of a request: what the client asked for, else none where thinking would not pay.

    Args:
        ask: The request.
        model: The model that was chosen.
        easy: Whether the request went to flash for being easy.
        limit: Most output tokens, by the client or the tenant's cap; None for none.

    Returns:
        The effort, None for the model's own; and the reason, for the trace.

    Raises:
        ThinkingConflict: Thinking is asked for, and a tool is forced.
    """
    if ask.effort is Effort.OFF:
        return Effort.OFF, "effort:off, as asked"
    if ask.effort is not None:
        if ask.tool_forced and model.thinks:
            raise ThinkingConflict(
                f"The model {model.name!r} cannot think and be forced to call a tool. Set 'tool_choice' to "
                "'auto' or 'none', or 'thinking.type' to 'disabled'."
            )
        return ask.effort, f"effort:{ask.effort}, as asked"
    if ask.tool_forced:
        return Effort.OFF, "effort:off, as tool_choice forces a tool"
    if limit is not None and limit < ROOM_TO_THINK:
        return Effort.OFF, f"effort:off, as {limit} output tokens leave no room to think"
    if easy:
        return Effort.OFF, "effort:off, as the prompt is easy"
    return None, "effort:the model's own"
