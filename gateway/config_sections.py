"""The sections of `flashlane.yaml`: what each key may be, and what it is when it is left out."""

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from backends.types import DEFAULT_TIMEOUTS, EngineFlavour, Thinking, Timeouts
from gateway.capabilities import CapabilitiesSection
from gateway.errors import ConfigInvalid

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


def _with_a_port(url: str) -> str:
    try:
        urlsplit(url).port  # noqa: B018 - it is read when it is asked for
    except ValueError as error:
        raise ValueError("its port is no number up to 65535") from error
    return url


HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$"), AfterValidator(_with_a_port)]
ServerUrl = Annotated[
    str, Field(pattern=r"^https?://([^\s/?#@]+@)?[^\s/?#@]+(/[^\s?#]*)?$"), AfterValidator(_with_a_port)
]
"""May hold a user and a password, which are cut off as it is read and shown nowhere."""

ZmqAddress = Annotated[str, Field(pattern=r"^(tcp|ipc)://[^\s*]+$")]

Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable. What does not look like one may be a key, and is not repeated."""

Usd = Annotated[Decimal, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, le=86400)]
MIB = 1024 * 1024
_DEEPSEEK = re.compile(r"deepseek\S*(?:v3\.[1-9]|v[4-9]|[-_]flash)", re.IGNORECASE)
"""Names of DeepSeek's models that think unless they are told not to: those since V3.1."""


class Section(BaseModel):
    """A part of the file, in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSection(Section):
    """Where the gateway listens."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535, description="0 takes any free port.")
    workers: Literal[1] = Field(default=1, description="Run more processes to use more cores.")
    admin_key_env: Variable = "FLASHLANE_ADMIN_KEY"
    cache_salt_env: Variable | None = Field(
        default=None,
        description="Names the variable with the secret that tenants' cache salts are made of, the same for "
        "all gateways over the same engines. Left out: one that is made and kept in the state folder.",
    )
    max_body_bytes: int = Field(default=32 * MIB, gt=0)

    def salt_secret(self, secrets: Mapping[str, str]) -> str:
        """Return the secret of the variable `cache_salt_env`; "" where none is named.

        Raises:
            ConfigInvalid: The variable is not set.
        """
        return secret_of("server.cache_salt_env", self.cache_salt_env, secrets) or ""


class _Address(Section):
    """A URL, or the variable that holds it: one with a password does not belong in a file."""

    url: str | None = None
    url_env: Variable | None = Field(default=None, description="Names the variable with the URL.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            raise ValueError("give exactly one of url, url_env")
        return self

    def resolve(self, key: str, secrets: Mapping[str, str]) -> str:
        """Return the URL.

        Raises:
            ConfigInvalid: The variable is not set.
        """
        return self.url or secret_of(key, self.url_env, secrets) or ""


class RedisSection(_Address):
    """Shared state."""

    url: Annotated[str, Field(pattern=r"^(rediss?|unix)://.+")] | None = None


class LedgerSection(_Address):
    """Where a request's record is kept."""

    url: Annotated[str, Field(pattern=r"^(sqlite|postgresql)(\+\w+)?://.*")] | None = None


class TokenPrices(Section):
    """USD per million tokens."""

    hit: Usd
    miss: Usd
    output: Usd


class GpuPrices(Section):
    """An own machine: what it costs, and what it does."""

    gpu_hour: Annotated[Decimal, Field(ge=0, description="USD an hour, the whole machine.")]
    throughput: Annotated[Decimal, Field(gt=0, description="Input and output tokens a second when busy.")]


class GsmSection(Section):
    """Grouped Sequential Memory; see docs/glossary.md."""

    group_size: int = Field(default=512, gt=0)
    max_groups: int = Field(default=64, gt=0)
    rebuild_threshold: float = Field(default=0.3, ge=0.0, le=1.0)


class ReplicaSection(Section):
    """One server. Exactly one of `url`, `litellm` and `embedded`."""

    url: ServerUrl | None = Field(
        default=None, description="An OpenAI-compatible server, with or without /v1.", repr=False
    )
    litellm: str | None = Field(default=None, min_length=1, description="A model in litellm's spelling.")
    embedded: str | None = Field(
        default=None,
        min_length=1,
        description="A model of `flashlane models list`, or the path of a GGUF file.",
    )
    api_key_env: Variable | None = Field(default=None, description="Names the variable with the key.")
    api_base: HttpUrl | None = Field(
        default=None, description="With `litellm`: another address of the provider."
    )
    engine: EngineFlavour | None = Field(default=None, description="With `url`: what runs there.")
    kv_events: ZmqAddress | None = Field(
        default=None,
        description="With `url`: where vLLM publishes its KV events (--kv-events-config). With `discover`: "
        "on the host of `url`, whose place the addresses take.",
    )
    kv_replay: ZmqAddress | None = Field(default=None, description="With `kv_events`: its replay endpoint.")
    discover: Literal["dns", "kubernetes"] | None = Field(
        default=None,
        description="With `url`: every address of its host is a replica (dns), or every ready pod of the "
        "service that it names, http://SERVICE.NAMESPACE:PORT-OF-THE-PODS (kubernetes).",
    )
    threads: int | None = Field(default=None, gt=0, description="With `embedded`: CPU threads.")
    slots: int = Field(
        default=2, gt=0, description="With `embedded`: requests at once, each with `context` tokens."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [key for key in ("url", "litellm", "embedded") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of url, litellm, embedded; found {', '.join(given) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _can_be_found(self) -> Self:
        if self.discover is None:
            return self
        parts = urlsplit(self.url or "")
        if parts.scheme != "http":
            raise ValueError(
                "discover needs an http url: what is found are bare addresses, which have no certificate"
            )
        if self.discover == "kubernetes" and "." not in (parts.hostname or ""):
            raise ValueError("discover: kubernetes needs a url of the form http://SERVICE.NAMESPACE:PORT")
        for key, address in (("kv_events", self.kv_events), ("kv_replay", self.kv_replay)):
            found = urlsplit(address or "")
            if address and (found.scheme != "tcp" or found.hostname != parts.hostname or not found.port):
                raise ValueError(
                    f"with discover {key} is tcp://{parts.hostname}:PORT: it needs the host of the url, as "
                    "each address that is found takes its place"
                )
        return self


class PoolSection(Section):
    """Replicas alike."""

    name: Name
    role: Literal["latency", "throughput", "any"] = Field(
        default="any", description="`latency` gets the chats, as long as it has room; see docs/engines.md."
    )
    speculation: bool = Field(default=False, description="Its engines speculate.")
    max_concurrency: int | None = Field(
        default=None, gt=0, description="Most requests at once over the pool, of all gateway processes."
    )
    context: int | None = Field(
        default=None,
        gt=0,
        description="Longest input plus output of this pool, where it is less than the model's.",
    )
    replicas: list[ReplicaSection] = Field(min_length=1)


class TimeoutsSection(Section):
    """How long a model's engines are waited for, in seconds."""

    connect: Seconds = DEFAULT_TIMEOUTS.connect
    peek: Seconds = DEFAULT_TIMEOUTS.peek
    first_token: Seconds = DEFAULT_TIMEOUTS.first_token
    idle: Seconds = DEFAULT_TIMEOUTS.idle
    total: Seconds | None = DEFAULT_TIMEOUTS.total

    def value(self) -> Timeouts:
        """Return the value that the rest of the program works with."""
        return Timeouts(**self.model_dump())


class ModelSection(Section):
    """One model and where it runs."""

    served_name: str = Field(min_length=1, description="The `model` that the engines are asked for.")
    context: int | None = Field(default=None, gt=0, description="Longest input plus output, tokens.")
    capabilities: CapabilitiesSection = Field(default_factory=CapabilitiesSection)
    tokenizer: str | None = Field(
        default=None, min_length=1, description="Any name; models with the same one share their token ids."
    )
    tokenizer_files: Path | None = Field(
        default=None,
        description="Folder with the model's tokenizer.json and tokenizer_config.json (or "
        "chat_template.jinja): prompts are then known token for token. Left out: by their bytes.",
    )
    prices: TokenPrices | GpuPrices | None = None
    gsm: GsmSection | None = None
    timeouts: TimeoutsSection = Field(default_factory=TimeoutsSection)
    thinking: Thinking | None = Field(
        default=None,
        description="How its thinking is controlled; see docs/thinking.md. Left out: `deepseek` where its "
        "name says so, else `none` where another model has `deepseek`, else `passthrough`.",
    )
    pools: list[PoolSection] = Field(min_length=1)

    def group_tokens(self) -> int:
        """Return the tokens of a group."""
        return (self.gsm or GsmSection()).group_size

    def stated_thinking(self) -> Thinking | None:
        """Return how its thinking is controlled, as it is stated, or as its names say."""
        if self.thinking is not None:
            return self.thinking
        providers = [replica.litellm for pool in self.pools for replica in pool.replicas if replica.litellm]
        named = any(map(_DEEPSEEK.search, (self.served_name, *providers)))
        return Thinking.DEEPSEEK if named else None

    @model_validator(mode="after")
    def _events_can_be_read(self) -> Self:
        follows = any(replica.kv_events for pool in self.pools for replica in pool.replicas)
        if follows and self.tokenizer_files is None:
            raise ValueError("kv_events tell of tokens: tokenizer_files is needed to know those of a prompt")
        return self

    @model_validator(mode="after")
    def _pools_differ(self) -> Self:
        names = [pool.name for pool in self.pools]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ValueError(f"two pools are called {double[0]!r}; give each its own name")
        return self


class EncoderSection(Section):
    """A sentence encoder, the second stage of the tenants' versions that were adapted with it."""

    model: str = Field(
        min_length=1,
        description="Path of an .onnx file, with its tokenizer.json beside it or in the folder above; or a "
        "model of sentence-transformers.",
    )
    budget_ms: float = Field(
        default=50.0, gt=0, le=10_000, description="A request waits so long; then the first stage decides."
    )
    workers: int = Field(default=1, gt=0, le=64, description="Requests encoded at once, on a core each.")


def secret_of(user: str, variable: str | None, secrets: Mapping[str, str]) -> str | None:
    """Return the value of an environment variable; None where none is named.

    Args:
        user: What needs it, for the error.
        variable: Its name.
        secrets: The environment.

    Raises:
        ConfigInvalid: It is not set.
    """
    if variable is None:
        return None
    value = secrets.get(variable)
    if not value:
        raise ConfigInvalid(
            f"{user}: the variable {variable} is not set, and its value is needed. "
            f"Set it: export {variable}=..."
        )
    return value
