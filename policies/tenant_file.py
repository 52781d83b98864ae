"""A tenant's YAML file: its schema, and how it becomes a `Tenant`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from policies.errors import TenantFileInvalid
from policies.types import FLASH, STANDARD, Answers, ContextRule, Key, LabelRule, Mode, Routing, Tenant
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
    max_quality_loss: float | None = Field(default=None, gt=0.0, lt=1.0)
    confidence: float = Field(default=0.95, gt=0.0, lt=1.0)
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


class PrefixSection(_Section):
    """A prompt to compute before it is needed."""

    name: Name
    messages: list[dict[str, object]] = Field(min_length=1)


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
    prefixes: list[PrefixSection] = Field(default_factory=list[PrefixSection])

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
        )

    def not_enforced(self) -> list[str]:
        """Name the keys in this file that this version reads but does not act on."""
        named = {
            "priority": "priority" in self.model_fields_set,
            "limits": self.limits is not None,
            "budget": self.budget is not None,
            "prefixes": bool(self.prefixes),
            "routing.max_quality_loss": self.routing.max_quality_loss is not None,
            "routing.confidence": "confidence" in self.routing.model_fields_set,
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
