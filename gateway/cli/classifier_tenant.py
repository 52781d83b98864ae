"""Where a tenant's part of the classifier is kept, and `flashlane classifier record`."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from redis.exceptions import RedisError

from classifier.errors import DatasetInvalid
from classifier.model import Classifier
from classifier.task_gains import TaskGains
from classifier.types import Conversation, Turn
from gateway.cli.classifier_output import JsonOption, one_line_errors, print_json, progress_line
from gateway.cli.console import errors_end_the_command
from gateway.cli.serve import DEFAULTS
from gateway.config import Config, load_config
from gateway.errors import SharedStateAway
from gateway.rankers import Ranker, Rankers
from gateway.runtime import known_names, redis_url_of, tenants_folder, versions_folder
from gateway.settings import Settings
from gateway.shared_gains import add_gains, gains_key
from policies.errors import TenantFileInvalid
from policies.redis_client import connect
from policies.tenants import TenantBook
from policies.validation import unknown_name

if TYPE_CHECKING:  # imports numpy, which the other commands do without
    from classifier.pairs import Pair

PairsOption = Annotated[
    Path,
    typer.Option(
        "--pairs", help="File (.jsonl, .csv, .parquet) of prompt, flash_score, standard_score and task."
    ),
]
TaskColumnOption = Annotated[str, typer.Option("--task-column", help="Column that names the task.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The flashlane.yaml of the gateway; else the local one.")
]


@dataclass(frozen=True, slots=True)
class TenantPlace:
    """One tenant of one gateway, as a command finds it.

    Attributes:
        tenant: Its name.
        config: Of the gateway.
        settings: The environment, which should be that of the gateway.
    """

    tenant: str
    config: Config
    settings: Settings

    @property
    def versions(self) -> Path:
        """Folder of the tenant's versions, there or not."""
        return versions_folder(self.config, self.settings) / self.tenant

    @property
    def models(self) -> str:
        """The pair of models that the gateway has."""
        return self.config.pair_of_models()

    def ranker(self) -> Ranker:
        """What ranks the tenant's requests now, but for the gains that are kept in Redis."""
        book = _book(self.config, self.settings)
        rankers = Rankers(Classifier.load(), versions_folder(self.config, self.settings), self.models)
        rankers.look([tenant for tenant in book.tenants() if tenant.name == self.tenant])
        return rankers.of(self.tenant)


def tenant_place(tenant: str, config_file: Path | None) -> TenantPlace:
    """Find a tenant.

    Raises:
        ConfigInvalid: The configuration is wrong.
        TenantFileInvalid: A tenant's file is, or nobody is called so.
    """
    config, settings = load_config(config_file or DEFAULTS / "flashlane.yaml"), Settings.from_env()
    book = _book(config, settings)
    if tenant not in book.names():
        raise TenantFileInvalid(f"{tenants_folder(config, settings)}: {unknown_name(tenant, book.names())}")
    return TenantPlace(tenant, config, settings)


def record(
    pairs: PairsOption,
    tenant: Annotated[str, typer.Option("--tenant", help="Whose pairs they are.")],
    config_file: ConfigOption = None,
    *,
    task_column: TaskColumnOption = "task",
    as_json: JsonOption = False,
) -> None:
    """Count pairs to what their tasks gain, for all running gateways at once, without a new version.

    Each pair counts as often as it is recorded. Those that a version was adapted to are in it already.
    """
    with errors_end_the_command(), one_line_errors(), progress_line() as report:
        from classifier.pairs import load_pairs  # numpy: the other commands must not wait for it

        place = tenant_place(tenant, config_file)
        report("reading the pairs")
        found = load_pairs(pairs, task_column)
        classifier = place.ranker().fitted
        excesses = [classifier.excess(_conversation(pair), pair.gain) for pair in found]
        if not any(task for task, _ in excesses):
            raise DatasetInvalid(
                f"{pairs}: no pair names its task, so there is nothing to count; name them in the column "
                f"{task_column!r}, or make a version with `flashlane classifier adapt`"
            )
        gains = TaskGains().added(excesses)
        asyncio.run(
            _add(
                redis_url_of(place.config, place.settings),
                gains_key(tenant, place.models, classifier.version),
                gains,
            )
        )
    counts = {task: round(tally.pairs) for task, tally in sorted(gains.tasks.items())}
    if as_json:
        print_json({"version": classifier.version, "tasks": counts})
        return
    typer.echo(f"{len(found)} pairs of {len(counts)} tasks are counted for tenant {tenant!r}")


def _conversation(pair: "Pair") -> Conversation:
    return Conversation([Turn("user", pair.prompt)], tool_count=pair.tool_count, task=pair.task)


async def _add(url: str, key: str, gains: TaskGains) -> None:
    async with connect(url) as redis:
        try:
            await add_gains(redis, key, gains)
        except (RedisError, OSError) as error:
            raise SharedStateAway(
                f"Redis cannot be reached ({error}); nothing was counted. Is the gateway running?"
            ) from error


def _book(config: Config, settings: Settings) -> TenantBook:
    return TenantBook(tenants_folder(config, settings), known_names(config))
