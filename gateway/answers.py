"""Answers of engines as JSON: what they say and count, and the errors inside them."""

from typing import Any, cast

import msgspec
from msgspec import Raw

from backends.errors import BackendError, BackendOverloaded, BackendRejected, BackendUnavailable
from backends.refusals import says_too_long, without_keys
from backends.types import Usage
from gateway.requests.protocol import AnswerField
from gateway.sse import DONE, event_of
from gateway.usage import read_usage, usage_of
from policies.tokens import estimate_tokens

NULL = Raw(b"null")
REFUSALS = frozenset({"400", "413", "422"})
"""Codes of an error inside an answer that mean that the request is wrong."""

OVERLOADS = frozenset({"429", "503"})


class Said(msgspec.Struct):
    """What a message, or the new part of one, says; of any type, so that an odd field hides no other."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None

    def has_token(self) -> bool:
        """Tell whether there is something that a reader sees."""
        return bool(
            self.content
            or self.reasoning_content
            or self.reasoning
            or self.refusal
            or self.tool_calls
            or self.function_call
        )

    def text(self) -> str:
        """Return what a reader sees of it."""
        called = [call.get("function") for call in objects_in(self.tool_calls)]
        said = [function.get("arguments") for function in objects_in([*called, self.function_call])]
        said += [self.content, self.reasoning_content or self.reasoning, self.refusal]
        said += [part.get("text") for part in objects_in(self.content)]
        return "".join(piece for piece in said if isinstance(piece, str))


class _PlainAnswer(msgspec.Struct):
    usage: Raw = NULL  # read for itself: an odd one spoils no answer
    error: Any = None
    kind: Any = msgspec.field(name="object", default=None)


class _Choices(_PlainAnswer):
    choices: list[Raw] | None = None


class _WholeChoice(msgspec.Struct):
    message: Said | None = None
    text: str | None = None


class _Texts(msgspec.Struct):
    choices: list[_WholeChoice] = msgspec.field(default_factory=list[_WholeChoice])


class _Data(_PlainAnswer):
    data: list[Raw] | None = None  # not read: a vector is a thousand numbers


_choices = msgspec.json.Decoder(_Choices)
_data = msgspec.json.Decoder(_Data)


def read_plain(body: bytes, replica: str, answers_in: AnswerField = "choices") -> Usage | None:
    """Return the usage in a plain answer; None when it has none.

    Args:
        body: The answer, JSON.
        replica: Whose it is.
        answers_in: The field that an answer has.

    Raises:
        BackendRejected: It is an error that says that the request is wrong.
        BackendUnavailable: It is another error, or no answer at all.
    """
    try:
        if answers_in == "choices":
            answer = _choices.decode(body)
            found = answer.choices
        else:
            answer = _data.decode(body)
            found = answer.data
    except msgspec.ValidationError as error:
        what = f"Replica {replica} failed: what it sent is no answer."
        raise BackendUnavailable(what, replica=replica) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise BackendUnavailable(
            f"Replica {replica} failed: the answer is not JSON.", replica=replica
        ) from error
    if answer.error is not None and not found:
        raise error_inside(answer.error, body, replica)
    if answer.kind == "error":
        raise error_inside(msgspec.json.decode(body), body, replica)
    if not found:
        raise BackendUnavailable(f"Replica {replica} failed: the answer is empty.", replica=replica)
    counts = read_usage(answer.usage)
    return None if counts is None else usage_of(counts, replica)


def tokens_in_answer(body: bytes) -> int:
    """Estimate the tokens of a plain answer whose engine did not count; 0 where there is no text."""
    try:
        choices = msgspec.json.decode(body, type=_Texts).choices
    except (msgspec.DecodeError, RecursionError):
        return 0
    texts = (choice.text or (choice.message.text() if choice.message else "") for choice in choices)
    return sum(map(estimate_tokens, texts))


def error_inside(error: object, body: bytes, replica: str) -> BackendError:
    """Return what an error object means that came with status 200."""
    code = str(error.get("code")) if isinstance(error, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if code in REFUSALS or says_too_long(body):
        status = int(code) if code in REFUSALS else 400
        return BackendRejected(
            f"Replica {replica} refused the request.", replica=replica, status=status, body=without_keys(body)
        )
    if code in OVERLOADS:
        return BackendOverloaded(
            f"Replica {replica} is overloaded ({code}).", replica=replica, status=int(code)
        )
    return BackendUnavailable(f"Replica {replica} answered with an error.", replica=replica)


def is_json(payload: bytes) -> bool:
    """Tell whether bytes are JSON."""
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in an array of JSON; none of what is no array."""
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]


def with_reasoning_content(payload: bytes, part: str) -> bytes:
    """Put the reasoning text of an answer under the name that clients read, too.

    vLLM calls it `reasoning`; clients read DeepSeek's `reasoning_content`. All other bytes stay.

    Args:
        payload: JSON of an answer or of a chunk.
        part: "message" or "delta".
    """
    if b'"reasoning"' not in payload:
        return payload
    try:
        answer = msgspec.json.decode(payload, type=dict[str, Raw])
        choices = msgspec.json.decode(answer["choices"], type=list[dict[str, Raw]])
        changed = [_renamed(choice, part) for choice in choices]
    except (msgspec.DecodeError, KeyError, RecursionError):
        return payload
    if not any(changed):
        return payload
    answer["choices"] = Raw(msgspec.json.encode(choices))
    return msgspec.json.encode(answer)


def as_events(body: bytes) -> bytes:
    """Tell a plain answer as a stream, for a client that asked for one of an engine that does not stream."""
    answer = msgspec.json.decode(body, type=dict[str, Any])
    usage = answer.pop("usage", None)
    choices = objects_in(answer.pop("choices"))
    nothing: dict[str, object] = {"text": ""}
    if not any("text" in choice for choice in choices):
        answer["object"] = "chat.completion.chunk"
        nothing = {"delta": dict[str, object]()}
    for choice in choices:
        if "message" in choice:
            choice["delta"] = choice.pop("message")
        for delta in objects_in([choice.get("delta")]):
            for index, call in enumerate(objects_in(delta.get("tool_calls"))):
                call.setdefault("index", index)
    begun = [choice | {"finish_reason": None} for choice in choices]
    ended = [choice | nothing for choice in choices]
    chunks: list[dict[str, Any]] = [{"choices": begun}, {"choices": ended}]
    if usage is not None:
        chunks.append({"choices": [], "usage": usage})
    return b"".join(event_of(msgspec.json.encode(answer | chunk)) for chunk in chunks) + DONE


def _renamed(choice: dict[str, Raw], part: str) -> bool:
    message = msgspec.json.decode(choice.get(part, Raw(b"{}")), type=dict[str, Raw])
    text = bytes(message.get("reasoning", b"null"))
    if not text.startswith(b'"') or "reasoning_content" in message:
        return False
    message["reasoning_content"] = Raw(text)
    choice[part] = Raw(msgspec.json.encode(message))
    return True
