"""DeepSeek's models as their engines serve them: they think unless told not to, within limits."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.upstream import Talk, answer

THOUGHT = "I look it up."
TOKENS_OF_A_THOUGHT = 700


async def deepseek_api(talk: Talk) -> None:
    """Answer as DeepSeek's own API does: `thinking` switches, `reasoning_effort` measures."""
    body: dict[str, Any] = talk.request.json()
    switch: dict[str, Any] = body.get("thinking") or {}
    thinks = switch.get("type", "enabled") == "enabled"
    refusal = None
    if body.get("reasoning_effort", "high") not in {"low", "high", "max"}:
        refusal = "unknown variant of reasoning_effort"
    elif thinks and body.get("tool_choice", "auto") not in {"auto", "none"}:
        refusal = "Thinking mode does not support this tool_choice"
    elif thinks and _reasoning_is_missing(body["messages"]):
        refusal = "The `reasoning_content` in the thinking mode must be passed back to the API."
    await _say(talk, body, "reasoning_content", thinks=thinks, refusal=refusal)


async def vllm(talk: Talk) -> None:
    """Answer as vLLM does with the parsers of DeepSeek-V4.1: variables of the template switch and measure."""
    body: dict[str, Any] = talk.request.json()
    template: dict[str, Any] = body.get("chat_template_kwargs") or {}
    switches = [template[name] for name in ("thinking", "enable_thinking") if name in template]
    effort = template.get("reasoning_effort") or body.get("reasoning_effort") or "high"
    named = effort in {"none", "low", "high", "xhigh", "max"}
    refusal = None
    if not (named or (type(effort) is int and 1 <= effort <= 100)):
        refusal = "DeepSeek V4.1 reasoning_effort must be low, high, xhigh, max, or an integer"
    thinks = (any(switches) if switches else True) and effort != "none"
    await _say(talk, body, "reasoning", thinks=thinks, refusal=refusal)


async def strict(talk: Talk) -> None:
    """Answer as a model that does not think, on a server that refuses fields of messages it does not know."""
    body = talk.request.json()
    known = {"role", "content", "name", "tool_calls", "tool_call_id"}
    unknown = sorted({name for message in body["messages"] for name in message} - known)
    refusal = f"Unrecognized request argument supplied: {unknown[0]}" if unknown else None
    await _say(talk, body, "", thinks=False, refusal=refusal)


def _reasoning_is_missing(messages: list[dict[str, Any]]) -> bool:
    turn: list[dict[str, Any]] = []
    for message in [*messages, {"role": "user"}]:
        if message["role"] == "user":
            said = [spoken for spoken in turn if spoken["role"] == "assistant"]
            called = any(spoken.get("tool_calls") for spoken in said)
            if called and not all(spoken.get("reasoning_content") for spoken in said):
                return True
            turn = []
        turn.append(message)
    return False


async def _say(talk: Talk, body: Mapping[str, Any], name: str, *, thinks: bool, refusal: str | None) -> None:
    if refusal is not None:
        await talk.json({"error": {"message": refusal, "type": "invalid_request_error"}}, 400)
        return
    said = answer()
    choice = said["choices"][0]
    if thinks:
        choice["message"][name] = THOUGHT
        if (body.get("max_tokens") or TOKENS_OF_A_THOUGHT) < TOKENS_OF_A_THOUGHT:
            choice["message"]["content"], choice["finish_reason"] = "", "length"
    await talk.json(said)
