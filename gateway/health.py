"""Whether the gateway can do its work, part by part."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import RedisError

from backends.fleet import Fleet
from gateway.ledger import Ledger

PING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What each part said.

    Attributes:
        models: Model -> replica -> ready.
        ledger: Whether records can be kept.
        redis: Whether shared state is reachable; without it each process decides from its own scores.
    """

    models: Mapping[str, Mapping[str, bool]]
    ledger: bool
    redis: bool

    @property
    def ready(self) -> bool:
        """Tell whether every model has a replica that can serve, and records can be kept."""
        return self.ledger and all(any(replicas.values()) for replicas in self.models.values())

    def as_json(self) -> dict[str, object]:
        """Return the report as it is served."""
        whole = self.redis and all(all(replicas.values()) for replicas in self.models.values())
        status = "not ready" if not self.ready else "healthy" if whole else "degraded"
        return {"status": status, "models": self.models, "ledger": self.ledger, "redis": self.redis}


class Health:
    """Asks the parts."""

    def __init__(self, fleet: Fleet, ledger: Ledger, redis: Redis) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._redis = redis

    async def report(self) -> HealthReport:
        """Ask every part at once; each answers, or counts as not ready, within seconds."""
        models, ledger, redis = await asyncio.gather(
            self._fleet.readiness(), self._ledger.is_ready(), self._ping()
        )
        return HealthReport(models, ledger, redis)

    async def _ping(self) -> bool:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._redis.ping()  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
        except (RedisError, OSError, TimeoutError):
            return False
        return True
