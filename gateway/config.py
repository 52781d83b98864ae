"""`flashlane.yaml`: its schema, and the plain values that the rest of the program gets from it."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from backends.types import (
    DEFAULT_TIMEOUTS,
    Discovery,
    EngineFlavour,
    Pool,
    Replica,
    ReplicaKind,
    Thinking,
    Timeouts,
)
from gateway.capabilities import CapabilitiesSection
from gateway.errors import ConfigInvalid
from policies.cost import prices_of_gpu
from policies.types import AUTO, FLASH, STANDARD, ModelFacts, Prices
from policies.validation import describe
from policies.yaml_file import YamlInvalid, read_yaml

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


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSection(_Section):
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
        return _secret("server.cache_salt_env", self.cache_salt_env, secrets) or ""


class _Address(_Section):
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
        return self.url or _secret(key, self.url_env, secrets) or ""


class RedisSection(_Address):
    """Shared state."""

    url: Annotated[str, Field(pattern=r"^(rediss?|unix)://.+")] | None = None


class LedgerSection(_Address):
    """Where a request's record is kept."""

    url: Annotated[str, Field(pattern=r"^(sqlite|postgresql)(\+\w+)?://.*")] | None = None


class TokenPrices(_Section):
    """USD per million tokens."""

    hit: Usd
    miss: Usd
    output: Usd


class GpuPrices(_Section):
    """An own machine: what it costs, and what it does."""

    gpu_hour: Annotated[Decimal, Field(ge=0, description="USD an hour, the whole machine.")]
    throughput: Annotated[Decimal, Field(gt=0, description="Input and output tokens a second when busy.")]


class GsmSection(_Section):
    """Grouped Sequential Memory; see docs/glossary.md."""

    group_size: int = Field(default=512, gt=0)
    max_groups: int = Field(default=64, gt=0)
    rebuild_threshold: float = Field(default=0.3, ge=0.0, le=1.0)


class ReplicaSection(_Section):
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


class PoolSection(_Section):
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


class TimeoutsSection(_Section):
    """How long a model's engines are waited for, in seconds."""

    connect: Seconds = DEFAULT_TIMEOUTS.connect
    peek: Seconds = DEFAULT_TIMEOUTS.peek
    first_token: Seconds = DEFAULT_TIMEOUTS.first_token
    idle: Seconds = DEFAULT_TIMEOUTS.idle
    total: Seconds | None = DEFAULT_TIMEOUTS.total

    def value(self) -> Timeouts:
        """Return the value that the rest of the program works with."""
        return Timeouts(**self.model_dump())


class ModelSection(_Section):
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


@dataclass(frozen=True, slots=True)
class EmbeddedEngine:
    """An engine that Flashlane runs itself: for which replica, which model file, and how."""

    replica: str
    source: str
    model: ModelSection
    section: ReplicaSection
    speculation: bool


class EncoderSection(_Section):
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


class Config(_Section):
    """The whole file."""

    server: ServerSection = Field(default_factory=ServerSection)
    redis: RedisSection | None = Field(default=None, description="Left out: an embedded Valkey is started.")
    ledger: LedgerSection | None = Field(default=None, description="Left out: SQLite in the state folder.")
    models: dict[Name, ModelSection]
    tenants: Path | None = Field(default=None, description="Left out: `tenants` in the state folder.")
    classifier: Path | None = Field(
        default=None,
        description="Has a folder of adapted versions for each tenant that has some. "
        "Left out: `classifier` in the state folder.",
    )
    encoder: EncoderSection | None = Field(
        default=None, description="Left out: the classifier has one stage; see docs/classifier.md."
    )

    @model_validator(mode="after")
    def _has_both_models(self) -> Self:
        missing = [name for name in (FLASH, STANDARD) if name not in self.models]
        if missing:
            raise ValueError(f"models must have {FLASH!r} and {STANDARD!r}; {missing[0]!r} is missing")
        if AUTO in self.models:
            raise ValueError(f"models may not define {AUTO!r}: it means that Flashlane decides")
        return self

    def pair_of_models(self) -> str:
        """Name flash and standard together: what is learned of one pair says nothing of another."""
        return "+".join(self.models[name].served_name for name in (FLASH, STANDARD))

    def facts(self) -> dict[str, ModelFacts]:
        """Return what decisions need to know, by model."""
        return {
            name: ModelFacts(
                name,
                model.context,
                model.capabilities.names(),
                model.tokenizer,
                thinks=self.thinking(model) is Thinking.DEEPSEEK,
            )
            for name, model in self.models.items()
        }

    def thinking(self, model: ModelSection) -> Thinking:
        """Return how the thinking of one of the models is controlled.

        Once one model gives its reasoning to clients to hand back, another will get it in a history; and
        one that knows no such field may refuse it.
        """
        others = any(other.stated_thinking() is Thinking.DEEPSEEK for other in self.models.values())
        return model.stated_thinking() or (Thinking.NONE if others else Thinking.PASSTHROUGH)

    def prices(self) -> dict[str, Prices]:
        """Return the prices, by model; nothing where none is stated."""
        return {name: _prices(model.prices) for name, model in self.models.items()}

    def not_enforced(self) -> list[str]:
        """Name the keys in this file that this version reads but does not act on."""
        found = ["server.admin_key_env"] if "admin_key_env" in self.server.model_fields_set else []
        for name, model in self.models.items():
            stated = model.gsm.model_fields_set if model.gsm is not None else frozenset[str]()
            found += [f"models.{name}.gsm.{key}" for key in sorted(stated - {"group_size"})]
        return found

    def embedded(self) -> list[EmbeddedEngine]:
        """Return the engines that this configuration asks Flashlane to run itself."""
        return [
            EmbeddedEngine(
                _replica_name(name, pool, index), section.embedded, model, section, pool.speculation
            )
            for name, model in self.models.items()
            for pool in model.pools
            for index, section in enumerate(pool.replicas)
            if section.embedded is not None
        ]

    def pools(
        self, secrets: Mapping[str, str], embedded_urls: Mapping[str, str]
    ) -> dict[str, tuple[Pool, ...]]:
        """Return the pools, by model.

        Args:
            secrets: Where the variables named by `api_key_env` are looked up.
            embedded_urls: Base URL of each engine of `embedded()`, by replica name.

        Raises:
            ConfigInvalid: Such a variable is not set.
        """

        def pool_of(name: str, model: ModelSection, pool: PoolSection) -> Pool:
            made = [
                (section, _replica(_replica_name(name, pool, index), model, section, secrets, embedded_urls))
                for index, section in enumerate(pool.replicas)
            ]
            return Pool(
                pool.name,
                pool.role,
                tuple(replica for section, replica in made if section.discover is None),
                pool.speculation,
                pool.max_concurrency,
                model.timeouts.value(),
                self.thinking(model),
                pool.context,
                tuple(Discovery(section.discover, replica) for section, replica in made if section.discover),
            )

        return {
            name: tuple(pool_of(name, model, pool) for pool in model.pools)
            for name, model in self.models.items()
        }


def load_config(path: Path) -> Config:
    """Read and check a configuration; relative paths in it are relative to its folder.

    Raises:
        ConfigInvalid: With every fault, each with its path in the file.
    """
    try:
        data = read_yaml(path)
    except YamlInvalid as error:
        raise ConfigInvalid(str(error)) from error
    if not isinstance(data, dict):
        raise ConfigInvalid(f"{path}: expected a mapping with the key 'models', found {type(data).__name__}.")
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigInvalid("\n".join(f"{path}: {fault}" for fault in describe(error, Config))) from error
    folders = {"tenants": config.tenants, "classifier": config.classifier}
    relative = {key: path.parent / folder for key, folder in folders.items() if folder is not None}
    config = config.model_copy(update=relative)
    config = config.model_copy(
        update={"models": {name: _with_files_beside(path, model) for name, model in config.models.items()}}
    )
    if config.encoder is not None and (path.parent / config.encoder.model).exists():
        model = str(path.parent / config.encoder.model)  # else it may be a name
        config = config.model_copy(update={"encoder": config.encoder.model_copy(update={"model": model})})
    if config.ledger is not None and config.ledger.url is not None:
        ledger = config.ledger.model_copy(update={"url": _beside(path, config.ledger.url)})
        config = config.model_copy(update={"ledger": ledger})
    return config


def _with_files_beside(path: Path, model: ModelSection) -> ModelSection:
    """Return a model whose tokenizer, when its path is relative, is in the folder of the configuration."""
    files = model.tokenizer_files
    return model if files is None else model.model_copy(update={"tokenizer_files": path.parent / files})


def _beside(path: Path, url: str) -> str:
    """Return a ledger's URL whose SQLite file, when relative, is in the folder of the configuration."""
    scheme, separator, file = url.partition(":///")
    if not scheme.startswith("sqlite") or not separator or not file or file.startswith(("/", ":")):
        return url
    return f"{scheme}:///{path.parent.resolve() / file}"


def _prices(section: TokenPrices | GpuPrices | None) -> Prices:
    match section:
        case None:
            return Prices()
        case TokenPrices():
            return Prices(hit=section.hit, miss=section.miss, output=section.output)
        case GpuPrices():
            return prices_of_gpu(usd_per_hour=section.gpu_hour, tokens_per_second=section.throughput)


def _replica_name(model: str, pool: PoolSection, index: int) -> str:
    return f"{model}/{pool.name}/{index}"


def _replica(
    name: str,
    model: ModelSection,
    section: ReplicaSection,
    secrets: Mapping[str, str],
    embedded_urls: Mapping[str, str],
) -> Replica:
    api_key = _secret(f"replica {name}", section.api_key_env, secrets)
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise ConfigInvalid(
            f"replica {name}: the value of the variable {section.api_key_env} is no key: it holds a line "
            "break, or a character that no HTTP header may hold."
        )
    if section.litellm is not None:
        return Replica(
            name, ReplicaKind.LITELLM, section.api_base or "", section.litellm, EngineFlavour.GENERIC, api_key
        )
    if section.embedded is not None:
        url, flavour = embedded_urls[name], EngineFlavour.LLAMA_CPP
    else:
        url, flavour = section.url or "", section.engine or EngineFlavour.GENERIC
    target, login = _without_login(url.rstrip("/").removesuffix("/v1").rstrip("/"))
    return Replica(
        name,
        ReplicaKind.OPENAI,
        target,
        model.served_name,
        flavour,
        api_key,
        login,
        section.kv_events,
        section.kv_replay,
    )


def _without_login(url: str) -> tuple[str, str | None]:
    """Return a URL without the user and password in it, and these as HTTP's Basic scheme has them."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, colon, password = login.partition(":")
    plain = f"{unquote(user)}{colon or ':'}{unquote(password)}"
    return urlunsplit(parts._replace(netloc=host)), base64.b64encode(plain.encode()).decode()


def _secret(user: str, variable: str | None, secrets: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    value = secrets.get(variable)
    if not value:
        raise ConfigInvalid(
            f"{user}: the variable {variable} is not set, and its value is needed. "
            f"Set it: export {variable}=..."
        )
    return value
