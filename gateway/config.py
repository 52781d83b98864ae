"""`flashlane.yaml`: the whole file, and the plain values that the rest of the program gets from it."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import Field, ValidationError, model_validator

from backends.types import (
    Discovery,
    EngineFlavour,
    Pool,
    Replica,
    ReplicaKind,
    Thinking,
)
from gateway.config_sections import (
    EncoderSection,
    GpuPrices,
    LedgerSection,
    ModelSection,
    Name,
    PoolSection,
    RedisSection,
    ReplicaSection,
    Section,
    ServerSection,
    TokenPrices,
    secret_of,
)
from gateway.errors import ConfigInvalid
from policies.cost import prices_of_gpu
from policies.types import AUTO, FLASH, STANDARD, ModelFacts, Prices
from policies.validation import describe
from policies.yaml_file import YamlInvalid, read_yaml


@dataclass(frozen=True, slots=True)
class EmbeddedEngine:
    """An engine that Flashlane runs itself: for which replica, which model file, and how."""

    replica: str
    source: str
    model: ModelSection
    section: ReplicaSection
    speculation: bool


class Config(Section):
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
    api_key = secret_of(f"replica {name}", section.api_key_env, secrets)
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
