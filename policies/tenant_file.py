"""A tenant's YAML file: its schema, and how it becomes a `Tenant`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from policies.errors import TenantFileInvalid
from policies.types import (
    FLASH,
    STANDARD,
    TASK_PARTS,
    Answers,
    ContextRule,
    Key,
    LabelRule,
    Mode,
    Prefix,
    Routing,
    TaskPart,
    Tenant,
)
from policies.validation import describe, unknown_name
from policies.yaml_file import YamlInvalid, read_yaml

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$"), AfterValidator(str.lower)]
"""In either case: not every tool writes hex in small letters."""

Words = list[Annotated[str, Field(min_length=1)]]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeySection(_Section):
    """One key of the tenant."""

    name: Name
    sha256: Sha256


class RoutingSection(_Section):
    """How `auto` is decided."""

    mode: Mode = Mode.AUTO
    standard_share: float = Field(default=0.35, ge=0.0, le=1.0)
    max_quality_loss: float | None = Field(
        default=None,
        gt=0.0,
        lt=1.0,
        description="Most that answers may be worse than those of standard alone, on average. "
        "Until the tenant's pairs prove it, standard_share holds.",
    )
    confidence: float = Field(default=0.95, gt=0.0, lt=1.0, description="Of max_quality_loss.")
    task_by: list[TaskPart] = Field(
        default_factory=lambda: list(TASK_PARTS),
        min_length=1,
        description="What a task is known by: the system prompt and tools, the key, the endpoint.",
    )
    standard_domains: Words = Field(default_factory=list[str])
    standard_keywords: Words = Field(default_factory=list[str])
    sticky: Literal["conversation", "none"] = "none"
    fallback: Words = Field(default_factory=lambda: [STANDARD, FLASH])
    tokenizer: str | None = Field(
        default=None, min_length=1, description="The one that token ids in `logit_bias` and the like are of."
    )
    speculation: Literal["auto", "off"] = Field(
        default="auto", description="`off` keeps away from pools with speculative decoding."
    )


class LimitsSection(_Section):
    """Rates and concurrency."""

    rpm: int | None = Field(default=None, gt=0)
    tpm: int | None = Field(default=None, gt=0)
    concurrency: int | None = Field(default=None, gt=0)


class BudgetSection(_Section):
    """Money to spend."""

    usd: str = Field(pattern=r"^\d+(\.\d+)?$", coerce_numbers_to_str=True)
    period: Literal["day", "week", "month"] = "month"
    on_exhausted: Literal["reject", "flash_only"] = "reject"


class ContextSection(_Section):
    """The rule for long inputs."""

    max_input_tokens: int | None = Field(default=None, gt=0)
    on_overflow: Literal["standard", "truncate", "reject"] = "standard"


class LabelSection(_Section):
    """A prompt that only sorts: the answer is one of some labels, and nothing else."""

    system: str = Field(min_length=8, description="How its system prompt begins.")
    choose: Words = Field(min_length=2, description="The labels.")


class OutputSection(_Section):
    """Caps on the answer."""

    max_tokens: int | None = Field(default=None, gt=0)
    stop: Words = Field(
        default_factory=list[str], max_length=4, description="Ends an answer, where a request has no `stop`."
    )
    labels: list[LabelSection] = Field(
        default_factory=list[LabelSection], description="Prompts that are answered by a label alone."
    )


class CacheSection(_Section):
    """Who shares cached prefixes."""

    isolation: Literal["tenant", "shared"] = "tenant"


MAX_PREFIXES = 32
"""Prefixes of a tenant: each of them takes room in every engine's KV cache."""


def _with_roles(messages: list[dict[str, object]]) -> list[dict[str, object]]:
    for index, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise ValueError(f"message {index} has no role")  # noqa: TRY004 - Pydantic takes no other
        if not isinstance(message.get("content"), str | list | None):
            raise ValueError(f"message {index}: its content is no text and no list")  # noqa: TRY004
    return messages


class PrefixSection(_Section):
    """A prompt to compute before it is needed: what requests begin with, as they send it."""

    name: Name
    messages: Annotated[list[dict[str, object]], AfterValidator(_with_roles)] = Field(
        min_length=1, description="System prompt and examples, without the user's own turn."
    )
    tools: list[dict[str, object]] | None = Field(
        default=None, min_length=1, description="Those of the requests: they stand in the prompt, too."
    )
    models: Words | None = Field(
        default=None, min_length=1, description="Left out: every model that the tenant may use."
    )
    reasoning_effort: str | None = Field(
        default=None,
        min_length=1,
        description="As the requests have it; some templates write it at the head.",
    )
    chat_template_kwargs: dict[str, object] | None = Field(
        default=None, min_length=1, description="As the requests have them."
    )

    def to_prefix(self) -> Prefix:
        """Return the value that the rest of the program works with."""
        fields = self.model_dump(exclude={"name", "models"}, exclude_none=True)
        fields["messages"] = self.messages  # a content of null is part of a message
        models = None if self.models is None else frozenset(self.models)
        return Prefix(self.name, msgspec.json.encode(fields), models)


class TenantFile(_Section):
    """The whole file."""

    tenant: Name
    priority: Literal["high", "low"] = "low"
    keys: list[KeySection] = Field(default_factory=list[KeySection])
    models: Words | None = None
    routing: RoutingSection = Field(default_factory=RoutingSection)
    limits: LimitsSection | None = None
    budget: BudgetSection | None = None
    context: ContextSection = Field(default_factory=ContextSection)
    output: OutputSection = Field(default_factory=OutputSection)
    cache: CacheSection = Field(default_factory=CacheSection)
    prefixes: list[PrefixSection] = Field(default_factory=list[PrefixSection], max_length=MAX_PREFIXES)

    @model_validator(mode="after")
    def _prefixes_differ(self) -> Self:
        names = [prefix.name for prefix in self.prefixes]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ValueError(f"two prefixes are called {double[0]!r}; give each its own name")
        return self

    def to_tenant(self) -> Tenant:
        """Return the value that the rest of the program works with."""
        routing = self.routing
        return Tenant(
            name=self.tenant,
            priority=self.priority,
            keys=tuple(Key(key.name, key.sha256) for key in self.keys),
            models=None if self.models is None else frozenset(self.models),
            routing=Routing(
                mode=routing.mode,
                standard_share=routing.standard_share,
                max_quality_loss=routing.max_quality_loss,
                confidence=routing.confidence,
                task_by=frozenset(routing.task_by),
                standard_domains=frozenset(routing.standard_domains),
                standard_keywords=tuple(word.lower() for word in routing.standard_keywords),
                fallback=tuple(routing.fallback),
                tokenizer=routing.tokenizer,
                speculation=routing.speculation != "off",
            ),
            context=ContextRule(self.context.max_input_tokens, self.context.on_overflow),
            max_output_tokens=self.output.max_tokens,
            answers=Answers(
                tuple(self.output.stop),
                tuple(LabelRule(rule.system, tuple(rule.choose)) for rule in self.output.labels),
            ),
            shared_cache=self.cache.isolation == "shared",
            prefixes=tuple(prefix.to_prefix() for prefix in self.prefixes),
        )

    def not_enforced(self) -> list[str]:
        """Name the keys in this file that this version reads but does not act on."""
        named = {
            "priority": "priority" in self.model_fields_set,
            "limits": self.limits is not None,
            "budget": self.budget is not None,
            "routing.sticky": self.routing.sticky != "none",
        }
        return [key for key, present in named.items() if present]


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What a tenant's file may refer to.

    Attributes:
        models: The configured models.
        domains: The domains that the classifier tells apart.
        tokenizers: Those that the models state.
    """

    models: frozenset[str]
    domains: frozenset[str]
    tokenizers: frozenset[str] = frozenset()

    def check(self, file: TenantFile, path: Path) -> None:
        """Look at every name in a tenant's file.

        Raises:
            TenantFileInvalid: One of them is not known.
        """
        for where, names, known in (
            ("models", file.models or (), self.models),
            ("routing.fallback", file.routing.fallback, self.models),
            ("routing.standard_domains", file.routing.standard_domains, self.domains),
            ("routing.tokenizer", filter(None, [file.routing.tokenizer]), self.tokenizers),
            *((f"prefixes.{p.name}.models", p.models or (), self.models) for p in file.prefixes),
        ):
            for name in names:
                if name not in known:
                    raise TenantFileInvalid(f"{path}: {where}: {unknown_name(name, known)}")


def parse_tenant_file(path: Path) -> TenantFile:
    """Read and check one tenant file.

    Raises:
        TenantFileInvalid: With every fault, each with its path in the file.
    """
    try:
        data = read_yaml(path)
    except YamlInvalid as error:
        raise TenantFileInvalid(str(error)) from error
    return check_tenant(data, path)


def check_tenant(data: object, path: Path) -> TenantFile:
    """Check what a tenant file holds, or shall hold.

    Raises:
        TenantFileInvalid: With every fault, each with its path in the file.
    """
    if not isinstance(data, dict):
        raise TenantFileInvalid(
            f"{path}: expected a mapping with the key 'tenant', found {type(data).__name__}."
        )
    try:
        return TenantFile.model_validate(data)
    except ValidationError as error:
        faults = describe(error, TenantFile)
        raise TenantFileInvalid("\n".join(f"{path}: {fault}" for fault in faults)) from error
