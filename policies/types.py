"""Values of the policies: tenants, what they may do, and what was decided.

What every request makes is a Struct: a frozen dataclass takes ten times as long.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Literal

import msgspec

AUTO = "auto"
FLASH = "flash"
STANDARD = "standard"

TOOLS = "tools"
JSON_SCHEMA = "json_schema"
DEFAULT_CAPABILITIES = frozenset({TOOLS, JSON_SCHEMA})
"""What a model has beside text when the configuration says nothing: engines have it but for few."""

Overflow = Literal["standard", "truncate", "reject"]

TaskPart = Literal["prompt", "key", "endpoint"]
"""What tells one task of a tenant from another; the prompt is the system prompt and the tools."""

TASK_PARTS: tuple[TaskPart, ...] = ("prompt", "key", "endpoint")


class Mode(StrEnum):
    """Who chooses the model when a request says `auto`."""

    AUTO = AUTO
    FLASH = FLASH
    STANDARD = STANDARD


class Effort(StrEnum):
    """How hard a model shall think: OpenAI's names, and `on` for a model's own measure."""

    OFF = "off"
    ON = "on"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Routing:
    """How a tenant's `auto` requests are divided.

    Attributes:
        mode: `auto` decides by request; the others always take that model.
        standard_share: Share of the tenant's hardest traffic that goes to standard, in [0, 1].
        max_quality_loss: Most that answers may be worse than those of standard alone, on average, in (0, 1);
            None when only the share counts. Until it can be proven the share holds.
        confidence: With which it is to be proven, in (0, 1).
        task_by: What a task is known by.
        standard_domains: Domains that always go to standard.
        standard_keywords: Words that send a request to standard, lower case.
        fallback: Models to try, in order, when the chosen one cannot start an answer.
        tokenizer: The one that the tenant's token ids (`logit_bias`, ...) are of; None when not declared.
        speculation: Whether its answers may come from pools with speculative decoding.
    """

    mode: Mode = Mode.AUTO
    standard_share: float = 0.35
    max_quality_loss: float | None = None
    confidence: float = 0.95
    task_by: frozenset[TaskPart] = frozenset(TASK_PARTS)
    standard_domains: frozenset[str] = frozenset()
    standard_keywords: tuple[str, ...] = ()
    fallback: tuple[str, ...] = (STANDARD, FLASH)
    tokenizer: str | None = None
    speculation: bool = True


@dataclass(frozen=True, slots=True)
class ContextRule:
    """What happens to an input that is too long.

    Attributes:
        max_input_tokens: The tenant's bound; None for none.
        on_overflow: `standard` sends it to standard, `truncate` drops the oldest turns, `reject` refuses it.
    """

    max_input_tokens: int | None = None
    on_overflow: Overflow = "standard"


@dataclass(frozen=True, slots=True)
class LabelRule:
    """A prompt that only sorts: its answers are labels.

    Attributes:
        system: How its system prompt begins.
        choose: The labels, one of which is the whole answer.
    """

    system: str
    choose: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """How a tenant's answers are kept short, where a request does not say otherwise.

    Attributes:
        stop: Texts at which an answer ends.
        labels: Prompts that are answered by a label; the first that fits counts.
    """

    stop: tuple[str, ...] = ()
    labels: tuple[LabelRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, known by its hash only."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a tenant's requests begin with, to be computed before the first of them comes.

    Attributes:
        name: Unique within its tenant.
        fields: JSON of the fields of a chat request that begins so: `messages`, and whatever else its chat
            template reads (`tools`, `reasoning_effort`, `chat_template_kwargs`).
        models: Where it is computed; None means all that the tenant may use.
    """

    name: str
    fields: bytes
    models: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer of the gateway.

    Attributes:
        name: Stands in records and metrics.
        priority: Level in the queue and in the engine.
        keys: Who may speak for the tenant.
        models: Models it may use; None means all that are configured.
        routing: How `auto` is decided.
        context: The rule for long inputs.
        max_output_tokens: Cap on `max_tokens`; None for none.
        answers: How they are kept short.
        shared_cache: True when it shares cached prefixes with other tenants that agree to.
        prefixes: Prompts to compute before they are needed.
    """

    name: str
    priority: Literal["high", "low"] = "low"
    keys: tuple[Key, ...] = ()
    models: frozenset[str] | None = None
    routing: Routing = field(default_factory=Routing)
    context: ContextRule = field(default_factory=ContextRule)
    max_output_tokens: int | None = None
    answers: Answers = field(default_factory=Answers)
    shared_cache: bool = False
    prefixes: tuple[Prefix, ...] = ()

    def may_use(self, model: str) -> bool:
        """Tell whether the tenant may be served by `model`."""
        return self.models is None or model in self.models


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    tenant: Tenant
    key_name: str


@dataclass(frozen=True, slots=True)
class Prices:
    """USD per million tokens."""

    hit: Decimal = Decimal(0)
    miss: Decimal = Decimal(0)
    output: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a decision needs to know of a model.

    Attributes:
        context: Longest input plus output, tokens; None when not stated.
        capabilities: What it takes and does beside text, by the names of `policies.capabilities`.
        tokenizer: Models that state the same name share their token ids; None when not stated.
        thinks: Whether it thinks unless told not to, and can be told.
    """

    name: str
    context: int | None = None
    capabilities: frozenset[str] = DEFAULT_CAPABILITIES
    tokenizer: str | None = None
    thinks: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """A capability that a request cannot do without, and where the request says so.

    Attributes:
        capability: By the names of `policies.capabilities`.
        param: Path of the first place that needs it, "messages[1].content[0]" or "tools".
        what: The same for a reader, "content parts of type 'image_url'".
        in_messages: Whether that is in the messages, not a parameter beside them.
    """

    capability: str
    param: str
    what: str
    in_messages: bool = False


class Ask(msgspec.Struct, frozen=True):
    """What a decision needs to know of a request.

    Attributes:
        model: As the client named it: `auto`, or a configured model.
        input_tokens: Estimated length of the input.
        max_output_tokens: As the client asked; None when it did not.
        text: The pending user text, searched for keywords.
        needs: What the model must be able to do, one of each capability.
        token_ids: Name of the first field that holds token ids; "" when none does.
        may_think: Whether the endpoint leaves a model room to think.
        effort: As the client asked; None when it said nothing.
        tool_forced: Whether `tool_choice` leaves the model no choice but to call a tool.
    """

    model: str
    input_tokens: int
    max_output_tokens: int | None = None
    text: str = ""
    needs: tuple[Need, ...] = ()
    token_ids: str = ""
    may_think: bool = True
    effort: Effort | None = None
    tool_forced: bool = False


class Hardness(msgspec.Struct, frozen=True):
    """The classifier's word on a request, as plain values."""

    score: float
    domain: str = ""


class LossBound(msgspec.Struct, frozen=True):
    """What is proven of the loss that a tenant allows (`Routing.max_quality_loss`).

    Attributes:
        cut: Scores above it go to standard, all when it is negative; None while the pairs are too few
            to prove anything, so that the share holds.
        note: In a few words how it stands, "1,200 pairs" or "120 of 167 pairs".
    """

    cut: float | None
    note: str


class Decision(msgspec.Struct, frozen=True):
    """Where a request goes, and why.

    Attributes:
        model: The model that shall answer.
        fallbacks: Models to try next, in order, while nothing was sent to the client.
        reason: What decided, `rule:detail`, e.g. "complexity:0.81>0.65" or "domain:legal".
        trace: Every rule that was looked at, in order, for the record.
        max_output_tokens: Cap to send; None leaves the client's value alone.
        keep_input_tokens: Cut the input down to this many tokens first; None leaves it whole.
        effort: For whichever model that thinks is asked; None leaves the model's own.
    """

    model: str
    fallbacks: tuple[str, ...]
    reason: str
    trace: tuple[str, ...]
    max_output_tokens: int | None = None
    keep_input_tokens: int | None = None
    effort: Effort | None = None

    @property
    def rule(self) -> str:
        """Which rule decided: the first word of the reason."""
        return self.reason.partition(":")[0]


ModelTable = Mapping[str, ModelFacts]
