"""Everything a gateway runs on, started in order and stopped in reverse, whatever happens between."""

import asyncio
import functools
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backends.engines.llama import LlamaOptions, llama_spec
from backends.engines.probes import free_port
from backends.engines.process import SupervisedProcess
from backends.engines.types import ProcessSpec
from backends.engines.valkey import valkey_spec
from backends.errors import EngineError
from backends.fleet import Fleet
from backends.models.store import ModelStore
from backends.placement.block_events import TrackedGroups
from backends.placement.naming import PromptNamer, root_of
from backends.pools.desk import PoolDesk
from backends.pools.event_following import EventFollowing
from backends.pools.membership import Membership
from backends.pools.slots import Slots
from backends.types import Pool
from classifier.domains import DOMAINS
from classifier.errors import ClassifierError
from classifier.model import Classifier
from gateway.app import GatewayApp, create_app
from gateway.clock import SystemClock
from gateway.config import Config, EmbeddedEngine
from gateway.errors import SharedStateAway, StartFailed
from gateway.health import Health
from gateway.ledger import Ledger
from gateway.placing import make_namer
from gateway.prefixes.metrics import PrefixMetrics
from gateway.prefixes.shared import SharedPrefixes
from gateway.prefixes.warming import Prefixes
from gateway.rankers import Rankers
from gateway.salts import Salts, kept_secret
from gateway.second_stage import SecondStage
from gateway.services import Services
from gateway.settings import Settings
from gateway.telemetry import Telemetry
from policies.errors import PolicyError
from policies.recent_scores import SEED, RecentScores
from policies.redis_client import connect
from policies.tenant_file import KnownNames
from policies.tenants import TenantBook

if TYPE_CHECKING:  # numpy: who has no encoder starts without
    from classifier.encoders import Encoder

log = logging.getLogger(__name__)

DRAFT_TOKENS = 8
"""Most tokens that an embedded engine of a pool with speculation drafts."""

RESTART_PAUSE = 5.0
"""Seconds before a background job that failed is started again."""


def tenants_folder(config: Config, settings: Settings) -> Path:
    """Return where the tenants' files are."""
    return config.tenants or settings.state_dir / "tenants"


def versions_folder(config: Config, settings: Settings) -> Path:
    """Return where the adapted versions of the tenants' classifiers are, a folder of versions a tenant."""
    return config.classifier or settings.state_dir / "classifier"


def load_encoder_of(config: Config) -> "Encoder | None":
    """Load the encoder that a configuration names; None where it names none.

    Raises:
        ClassifierError: It cannot be used; says why.
    """
    if config.encoder is None:
        return None
    from classifier.encoders import load_encoder  # numpy, and what runs the encoder

    return load_encoder(config.encoder.model)


def embedded_url_file(settings: Settings) -> Path:
    """Return where the URL of the embedded Valkey stands while a gateway runs."""
    return settings.state_dir / "valkey" / "url"


def redis_url_of(config: Config, settings: Settings) -> str:
    """Return where a gateway of this configuration keeps what its processes share.

    Raises:
        SharedStateAway: In an embedded Valkey, and no gateway has run here.
    """
    if config.redis is not None:
        return config.redis.resolve("redis", settings.secrets)
    file = embedded_url_file(settings)
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise SharedStateAway(
            f"This is known by a running gateway, and none has run here: no file {file}. "
            "Start it, or name its configuration with --config."
        ) from error


def known_names(config: Config) -> KnownNames:
    """Return what tenants' files may refer to."""
    tokenizers = frozenset(model.tokenizer for model in config.models.values() if model.tokenizer)
    return KnownNames(frozenset(config.models), frozenset(DOMAINS), tokenizers)


@asynccontextmanager
async def running(config: Config, settings: Settings) -> AsyncGenerator[GatewayApp]:
    """Start all that the configuration asks for, and yield the application over it.

    Raises:
        StartFailed: A part did not start; what had been started was stopped.
        ConfigInvalid: A variable that the configuration names is not set.
    """
    async with AsyncExitStack() as stack:
        try:
            app = await _start(config, settings, stack)
        except (EngineError, ClassifierError, PolicyError, OSError) as error:
            raise StartFailed(str(error)) from error
        yield app


@dataclass(frozen=True, slots=True)
class _Plan:
    """All that is known before anything runs: what can be wrong with files shows while it is made."""

    tenants: TenantBook
    classifier: Classifier
    rankers: Rankers
    encoder: "Encoder | None"
    pools: Mapping[str, Sequence[Pool]]
    namers: Mapping[str, PromptNamer]
    engines: Sequence[ProcessSpec]
    ledger_url: str
    redis_url: str
    valkey: ProcessSpec | None
    salt_secret: str


def _plan(config: Config, settings: Settings) -> _Plan:
    """Look at every file and variable that the configuration names."""
    placed = [(engine, free_port()) for engine in config.embedded()]
    urls = {engine.replica: f"http://127.0.0.1:{port}" for engine, port in placed}
    if config.redis is not None:
        valkey, redis_url = None, config.redis.resolve("redis", settings.secrets)
    else:
        port = free_port()
        valkey, redis_url = valkey_spec(settings.state_dir / "valkey", port), f"redis://127.0.0.1:{port}/0"
    tenants = TenantBook(tenants_folder(config, settings), known_names(config))
    classifier = Classifier.load()
    encoder = load_encoder_of(config)
    rankers = Rankers(
        classifier,
        versions_folder(config, settings),
        config.pair_of_models(),
        encoder="" if encoder is None else encoder.name,
    )
    rankers.look(tenants.tenants())
    return _Plan(
        tenants=tenants,
        classifier=classifier,
        rankers=rankers,
        encoder=encoder,
        pools=config.pools(settings.secrets, urls),
        namers={
            name: make_namer(model.served_name, model.tokenizer_files, model.group_tokens())
            for name, model in config.models.items()
        },
        engines=_engine_specs(placed, settings),
        ledger_url=ledger_url(config, settings),
        redis_url=redis_url,
        valkey=valkey,
        salt_secret=config.server.salt_secret(settings.secrets),
    )


async def _start(config: Config, settings: Settings, stack: AsyncExitStack) -> GatewayApp:
    plan = await asyncio.to_thread(_plan, config, settings)
    telemetry = Telemetry()
    ledger = await asyncio.to_thread(Ledger, plan.ledger_url, telemetry.ledger_failed)
    stack.push_async_callback(ledger.aclose)
    if plan.valkey is not None:
        await stack.enter_async_context(SupervisedProcess(plan.valkey))
        await asyncio.to_thread(embedded_url_file(settings).write_text, plan.redis_url)
    salts = await asyncio.to_thread(_salts, plan.salt_secret, settings)
    redis = connect(plan.redis_url)
    stack.push_async_callback(redis.aclose)
    await _start_engines(plan.engines, stack)

    clock = SystemClock()
    fleet = Fleet(plan.pools, monotonic=clock.monotonic)
    stack.push_async_callback(fleet.aclose)
    membership = Membership(fleet)
    slots = Slots(redis, process=secrets.token_hex(8), monotonic=clock.monotonic)
    desk = PoolDesk(fleet, slots, monotonic=clock.monotonic)
    reference = [plan.classifier.reference_cut((index + 0.5) / SEED) for index in range(SEED)]
    scores = RecentScores(reference, process=secrets.token_hex(8))
    for tenant in plan.tenants.names():
        scores.begin(tenant, plan.rankers.kind(tenant))
    telemetry.watch(fleet, desk)
    prefixes = Prefixes(
        fleet,
        plan.tenants,
        SharedPrefixes(redis),
        salts=salts,
        models=config.facts(),
        clock=clock,
        pinned=frozenset(name for name, model in config.models.items() if model.gsm is not None),
    )
    telemetry.watch_prefixes(PrefixMetrics(prefixes))
    services = Services(
        clock=clock,
        tenants=plan.tenants,
        rankers=plan.rankers,
        scores=scores,
        fleet=fleet,
        desk=desk,
        salts=salts,
        prefixes=prefixes,
        ledger=ledger,
        telemetry=telemetry,
        models=config.facts(),
        prices=config.prices(),
        max_body_bytes=config.server.max_body_bytes,
        namers=plan.namers,
        second_stage=_second_stage(plan.encoder, config, telemetry, stack),
    )
    jobs: dict[str, Callable[[], Awaitable[None]]] = {
        "reload tenants": plan.tenants.keep_reloading,
        "probe replicas": fleet.keep_probing,
        "find replicas": membership.keep_looking,
        "read engines": desk.keep_reading,
        "renew slots": slots.keep_renewing,
        "keep prefixes": prefixes.keep_warm,
        "exchange scores": lambda: scores.keep_exchanging(redis, plan.tenants),
        "refresh rankers": lambda: plan.rankers.keep_fresh(
            redis, plan.tenants, began=scores.begin, failed=telemetry.gains_not_read
        ),
        "follow KV events": EventFollowing(fleet, functools.partial(_tracked_groups, config)).keep_following,
    }
    await membership.look()
    await _warn_of_absent(fleet)
    await _start_jobs(stack, jobs)
    await prefixes.until_ready()
    return create_app(services, Health(fleet, ledger, redis))


def _second_stage(
    encoder: "Encoder | None", config: Config, telemetry: Telemetry, stack: AsyncExitStack
) -> SecondStage | None:
    if encoder is None or config.encoder is None:
        return None
    stage = SecondStage(
        encoder,
        budget=config.encoder.budget_ms / 1000,
        workers=config.encoder.workers,
        count=telemetry.second_stage,
    )
    stack.push_async_callback(asyncio.to_thread, stage.close)
    return stage


def _salts(secret: str, settings: Settings) -> Salts:
    """Return what keeps the cached prefixes of tenants apart, under a kept secret where none is stated."""
    return Salts(secret.encode() if secret else kept_secret(settings.state_dir / "cache-salt.key"))


def _tracked_groups(config: Config, model: str) -> TrackedGroups:
    """Return what keeps the groups of a replica of a model by its KV events."""
    section = config.models[model]
    return TrackedGroups(section.group_tokens(), functools.partial(root_of, section.served_name))


def ledger_url(config: Config, settings: Settings) -> str:
    """Return where records are kept; the state folder is made for those that are there."""
    if config.ledger is not None:
        return config.ledger.resolve("ledger", settings.secrets)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{settings.state_dir / 'flashlane.db'}"


def _engine_specs(plans: list[tuple[EmbeddedEngine, int]], settings: Settings) -> list[ProcessSpec]:
    """Return how to run every embedded engine; a model file that is missing or damaged shows here."""
    store = ModelStore(settings.models_dir)
    logs = settings.state_dir / "logs"
    return [
        llama_spec(
            engine.model.served_name,
            store.locate(engine.source),
            port,
            logs / f"{engine.replica.replace('/', '-')}.log",
            LlamaOptions(
                context=engine.model.context or LlamaOptions().context,
                slots=engine.section.slots,
                threads=engine.section.threads,
                chat_template=store.chat_template(engine.source),
                draft_tokens=DRAFT_TOKENS if engine.speculation else 0,
            ),
        )
        for engine, port in plans
    ]


async def _start_engines(specs: Sequence[ProcessSpec], stack: AsyncExitStack) -> None:
    """Start all engines side by side; each is on the stack before the next can fail."""
    engines = [SupervisedProcess(spec) for spec in specs]
    for engine in engines:
        stack.push_async_callback(engine.stop)
    try:
        async with asyncio.TaskGroup() as group:
            for engine in engines:
                group.create_task(engine.start())
    except* EngineError as errors:
        raise errors.exceptions[0] from None


async def _warn_of_absent(fleet: Fleet) -> None:
    """Ask every replica once, which also loads what a provider needs; one that is away may come later."""
    for model, replicas in (await fleet.probe()).items():
        for name, ready in replicas.items():
            if not ready:
                log.warning("Replica %s of %r does not answer yet", name, model)


async def _start_jobs(stack: AsyncExitStack, jobs: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
    """Run background jobs until the stack unwinds; one that fails is logged and started again."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(_keep_alive(name, job), name=name) for name, job in jobs.items()]

    async def stop() -> None:
        pending = set(tasks)
        while pending:  # again and again: a library may swallow a cancellation
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=1.0)

    stack.push_async_callback(stop)


async def _keep_alive(name: str, job: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await job()
        except Exception:
            log.exception("The job %r failed; it is started again in %g s", name, RESTART_PAUSE)
        await asyncio.sleep(RESTART_PAUSE)
