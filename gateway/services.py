"""What every request works with; made once at the start."""

from collections.abc import Mapping
from dataclasses import dataclass

from backends.fleet import Fleet
from backends.placement.naming import PromptNamer
from backends.pools.desk import PoolDesk
from gateway.clock import Clock
from gateway.ledger import Ledger
from gateway.prefixes.warming import Prefixes
from gateway.rankers import Rankers
from gateway.salts import Salts
from gateway.second_stage import SecondStage
from gateway.telemetry import Telemetry
from policies.recent_scores import RecentScores
from policies.tenants import TenantBook
from policies.types import ModelTable, Prices


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a running gateway.

    Attributes:
        models: What decisions need to know of every model.
        prices: Of every model.
        namers: What names the prompts of every model, for placement.
        second_stage: None where no encoder is configured.
        max_body_bytes: Longest request body.
    """

    clock: Clock
    tenants: TenantBook
    rankers: Rankers
    scores: RecentScores
    fleet: Fleet
    desk: PoolDesk
    salts: Salts
    prefixes: Prefixes
    ledger: Ledger
    telemetry: Telemetry
    models: ModelTable
    prices: Mapping[str, Prices]
    max_body_bytes: int
    namers: Mapping[str, PromptNamer]
    second_stage: SecondStage | None
