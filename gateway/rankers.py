"""The classifier of each tenant: the version adapted to its pairs, with what its tasks gained since.

Requests read a dictionary. Behind their back a job looks for new versions on disk and for new gains in Redis;
when either cannot be read, the last that was known is used.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from classifier.errors import ClassifierError
from classifier.model import Classifier
from classifier.task_gains import TaskGains
from classifier.versions import current_folder, is_versions_folder
from gateway.shared_gains import gains_key, read_counts, read_gains
from policies.types import LossBound, Tenant

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 5.0
"""For one reading of all gains."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """What ranks the requests of one tenant.

    Attributes:
        classifier: With what its tasks gained.
        fitted: The same without: what its version learned from pairs, or the shipped weights.
        source: Folder of the version; None for the shipped weights.
        bound: How it stands with the loss that the tenant allows; None when it states none.
    """

    classifier: Classifier
    fitted: Classifier
    source: Path | None = None
    bound: LossBound | None = None

    @property
    def refines(self) -> bool:
        """Whether its second stage may change a score; as with gains, none that a promise was proven with."""
        return self.classifier.has_second_stage and self.takes_gains

    @property
    def takes_gains(self) -> bool:
        """Whether later gains may move its scores: a promise is for the scores that it was proven with."""
        return self.bound is None or self.bound.cut is None


class Tenants(Protocol):
    """Who the tenants are at this moment."""

    def tenants(self) -> Sequence[Tenant]:
        """Return all tenants."""
        ...


class Rankers:
    """The rankers of all tenants."""

    def __init__(self, shipped: Classifier, folder: Path, models: str, *, encoder: str | None = None) -> None:
        """Know no tenant yet: whoever is asked for gets the shipped weights.

        Args:
            shipped: What is served where there is no version.
            folder: Has a folder of versions for each tenant that has some, by its name.
            models: The pair of models, by the names that a version states.
            encoder: Name of the encoder that is there, "" for none: a version that needs another is refused.
                None where nothing is encoded.
        """
        self._shipped = Ranker(shipped, shipped)
        self._folder = folder
        self._models = models
        self._encoder = encoder
        self._rankers: dict[str, Ranker] = {}
        self._stated: dict[str, tuple[float | None, float]] = {}
        self._refused: set[Path] = set()
        self._said: dict[str, str] = {}
        self._counts: dict[str, bytes | None] = {}

    def of(self, tenant: str) -> Ranker:
        """Return what ranks the requests of a tenant, by its name."""
        return self._rankers.get(tenant, self._shipped)

    def kind(self, tenant: str) -> str:
        """Return what the scores of a tenant mean: who made them, and for which pair of models."""
        return f"{self.of(tenant).fitted.version}:{self._models}"

    def look(self, tenants: Sequence[Tenant]) -> None:
        """Look for other versions, and for other bounds in the policies; reads files, so not on the loop."""
        rankers = {tenant.name: self._look_at(tenant) for tenant in tenants}
        self._stated = {tenant.name: _stated(tenant) for tenant in tenants}
        self._rankers = rankers

    async def refresh(self, redis: Redis) -> None:
        """Take in what tasks gained.

        Raises:
            RedisError: Redis is away; what was known stays.
            TimeoutError: It is too slow; likewise.
        """
        wanted = {
            gains_key(name, self._models, ranker.fitted.version): (name, ranker)
            for name, ranker in self._rankers.items()
            if ranker.takes_gains
        }
        async with asyncio.timeout(DEADLINE_SECONDS):
            counts = dict(zip(wanted, await read_counts(redis, list(wanted)), strict=True))
            self._counts = {key: count for key, count in self._counts.items() if key in wanted}
            for key, (name, ranker) in wanted.items():
                unread = counts[key] is not None and ranker.classifier is ranker.fitted
                if unread or self._counts.get(key) != counts[key]:
                    gains = TaskGains() if counts[key] is None else await read_gains(redis, key)
                    await self._move(name, ranker, gains)
                    self._counts[key] = counts[key]

    async def keep_fresh(
        self,
        redis: Redis,
        tenants: Tenants,
        *,
        began: Callable[[str, str], None],
        failed: Callable[[], None],
        every: float = 1.0,
    ) -> None:
        """Look and refresh for ever, every `every` seconds; a Redis that is away is waited for.

        Args:
            redis: Shared state.
            tenants: Who is looked for.
            began: Told the kind of each tenant's scores, by name.
            failed: Told each time that gains could not be read.
            every: Seconds.
        """
        away = False
        while True:
            await asyncio.to_thread(self.look, tenants.tenants())
            for tenant in tenants.tenants():
                began(tenant.name, self.kind(tenant.name))
            try:
                await self.refresh(redis)
                if away:
                    log.warning("Redis is back; what tasks gained is read again")
                away = False
            except (RedisError, OSError) as error:  # a TimeoutError is an OSError
                if not away:
                    log.warning("Redis is away (%s); what tasks gained stays as last read", error)
                away = True
                failed()
            await asyncio.sleep(every)

    async def _move(self, name: str, ranker: Ranker, gains: TaskGains) -> None:
        """Let a tenant's requests be ranked with these gains."""
        classifier = ranker.fitted
        if gains.tasks:
            classifier = await asyncio.to_thread(ranker.fitted.with_gains, gains)
        self._rankers[name] = replace(ranker, classifier=classifier)

    def _look_at(self, tenant: Tenant) -> Ranker:
        known = self.of(tenant.name)
        versions = self._folder / tenant.name
        fitted, source = known.fitted, known.source
        try:
            wanted = current_folder(versions) if is_versions_folder(versions) else None
            if wanted is None:
                fitted, source = self._shipped.fitted, None
            elif wanted != source and wanted not in self._refused:
                fitted, source = self._load(wanted), wanted
        except (ClassifierError, OSError) as error:
            if self._said.get(tenant.name) != str(error):
                log.error("Tenant %r stays with the classifier %s: %s", tenant.name, fitted.version, error)  # noqa: TRY400 - the trace says nothing more
            self._said[tenant.name] = str(error)
        if source == known.source and self._stated.get(tenant.name, (None, 0.0)) == _stated(tenant):
            return known
        return Ranker(fitted, fitted, source, bound_of(fitted, tenant))

    def _load(self, folder: Path) -> Classifier:
        """Load a version; one that is refused is not tried, and not logged, again."""
        from classifier.adapted_file import load_card  # numpy: who has no version starts without

        self._refused.add(folder)
        models = load_card(folder).models
        if models not in {"", self._models}:
            raise ClassifierError(
                f"{folder} was adapted to pairs of {models}, and {self._models} is configured"
            )
        fitted = Classifier.load(folder, encoder=self._encoder)
        self._refused.discard(folder)
        return fitted


def bound_of(fitted: Classifier, tenant: Tenant) -> LossBound | None:
    """Find the cut that keeps the loss that a tenant allows, from the pairs its version was adapted to.

    Returns:
        None when the tenant allows none.
    """
    max_loss, confidence = _stated(tenant)
    if max_loss is None:
        return None
    return loss_bound(fitted, max_loss, confidence)


def loss_bound(fitted: Classifier, max_loss: float, confidence: float) -> LossBound:
    """Find the cut that keeps a loss, and say how it stands."""
    if fitted.adapted is None:
        return LossBound(None, "no pairs")
    from classifier.risk import fewest_pairs  # numpy: who has no version starts without

    calibration = fitted.adapted.calibration
    pairs, needed = len(calibration.scores), fewest_pairs(max_loss, confidence)
    if pairs < needed:
        return LossBound(None, f"{pairs} of {needed} pairs")
    found = calibration.cut(max_loss, confidence)
    if found is None:
        return LossBound(-1.0, f"no cut keeps a loss of {max_loss:g}")
    return LossBound(found.cut, f"{pairs} pairs, {found.flash_share:.0%} of them left to flash")


def _stated(tenant: Tenant) -> tuple[float | None, float]:
    routing = tenant.routing
    return routing.max_quality_loss, routing.confidence if routing.max_quality_loss is not None else 0.0
