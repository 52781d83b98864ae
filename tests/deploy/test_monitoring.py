"""Prometheus and Grafana ask only for metrics and labels that the gateway and vLLM have."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, Field

from backends.errors import BackendUnavailable
from backends.fleet import Fleet
from backends.pools.desk import PoolDesk
from backends.pools.engine_metrics import EngineCounts, EngineWord
from backends.pools.slots import Slots
from backends.types import Pool
from gateway.clock import SystemClock
from gateway.config import load_config
from gateway.errors import TABLE
from gateway.prefixes.metrics import PrefixMetrics
from gateway.prefixes.shared import SharedPrefixes
from gateway.prefixes.warming import Prefixes
from gateway.records import RequestRecord
from gateway.salts import Salts
from gateway.telemetry import Telemetry
from policies.redis_client import connect
from policies.types import Prefix, Tenant
from policies.yaml_file import read_yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
EXAMPLE = ROOT / "examples" / "self-hosted-vllm" / "two-pools.yaml"

Metrics = Mapping[str, frozenset[str]]
"""Name of a series -> its labels."""

FROM_PROMETHEUS = frozenset({"job", "instance"})
VLLM_LABELS = FROM_PROMETHEUS | {"model", "model_name", "engine"}
VLLM_GAUGES_AND_COUNTERS = (
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
)
VLLM_HISTOGRAMS = (
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
)

BUILT_IN = {"up": FROM_PROMETHEUS | {"model"}}
KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})


def vllm_metrics() -> dict[str, frozenset[str]]:
    """Return what a vLLM server exports, as far as it is used here."""
    found = {f"vllm:{name}": VLLM_LABELS for name in VLLM_GAUGES_AND_COUNTERS}
    for name in VLLM_HISTOGRAMS:
        found |= {f"vllm:{name}_{part}": VLLM_LABELS for part in ("sum", "count")}
        found[f"vllm:{name}_bucket"] = VLLM_LABELS | {"le"}
    return found


def record() -> RequestRecord:
    return RequestRecord(
        id="req_0",
        created_ms=0,
        tenant="acme",
        key_name="web",
        endpoint="/v1/chat/completions",
        model_requested="auto",
        model="flash",
        pool="latency",
        replica="flash/latency/0",
        reason="complexity:0.100<=0.500",
        trace=(),
        complexity=0.1,
        domain="chat",
        task="",
        classifier_version="1",
        stream=True,
        status="ok",
        http_status=200,
        error="",
        attempts=1,
        prompt_tokens=10,
        cached_tokens=5,
        completion_tokens=7,
        usage_estimated=False,
        ttft_ms=20.0,
        total_ms=90.0,
        overhead_ms=1.0,
        cost_usd=Decimal("0.001"),
    )


def busy_fleet(pools: Mapping[str, Sequence[Pool]]) -> tuple[Fleet, PoolDesk]:
    """Return a fleet and its desk that know all there is to know of engines and pools."""
    fleet = Fleet(pools, monotonic=lambda: 0.0)
    desk = PoolDesk(fleet, Slots(None, process="p", monotonic=lambda: 0.0), monotonic=lambda: 0.0)
    counts = EngineCounts(running=1.0, waiting=0.0, kv_use=0.5, drafts=60.0, drafted=300.0, accepted=150.0)
    for model, member in fleet.members():
        member.word = EngineWord(counts, 0.0, 0)
        member.acceptance.saw(counts)
        desk.answered(model, member, load=1.0, tokens=20, seconds=1.0)
    return fleet, desk


class OneTenant:
    """One tenant with one prefix."""

    def tenants(self) -> Sequence[Tenant]:
        fields = b'{"messages": [{"role": "system", "content": "Be brief."}]}'
        return [Tenant("acme", prefixes=(Prefix("support", fields),))]


def computed_prefixes(fleet: Fleet) -> Prefixes:
    """Return prefixes that are computed on all replicas."""
    shared = SharedPrefixes(connect("redis://127.0.0.1:9/0"))
    prefixes = Prefixes(fleet, OneTenant(), shared, salts=Salts(b"secret"), models={}, clock=SystemClock())
    prefixes.plan()
    for entry in prefixes.entries():
        entry.residency.cached = entry.residency.expected = 512
        entry.residency.cold_seconds, entry.residency.warm_seconds = 1.0, 0.1
        entry.answered(512, 0.0)
    return prefixes


def gateway_metrics() -> dict[str, frozenset[str]]:
    """Return what the gateway exports once every metric was used."""
    pools = load_config(EXAMPLE).pools({"FLASHLANE_ENGINE_KEY": "secret", "DEEPSEEK_API_KEY": "secret"}, {})
    telemetry = Telemetry()
    telemetry.watch(*busy_fleet(pools))
    telemetry.placed("flash", "latency", "chat")
    telemetry.settled(record())
    telemetry.refused("invalid_api_key")
    telemetry.upstream_failed("flash/latency/0", BackendUnavailable("gone", replica="flash/latency/0"))
    telemetry.ledger_failed()
    telemetry.prefix_told("flash/latency/0", 2, 1)
    telemetry.volatile_prefix("acme")
    telemetry.classifier_failed()
    telemetry.gains_not_read()
    telemetry.second_stage("late")
    telemetry.watch_prefixes(PrefixMetrics(computed_prefixes(Fleet(pools, monotonic=lambda: 0.0))))
    return {
        sample.name: frozenset(sample.labels) | FROM_PROMETHEUS
        for family in text_string_to_metric_families(asyncio.run(telemetry.render()).decode())
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return gateway_metrics() | vllm_metrics() | BUILT_IN


class Rule(BaseModel):
    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]


class RuleGroup(BaseModel):
    name: str
    rules: list[Rule]


class RuleFile(BaseModel):
    groups: list[RuleGroup]


class StaticConfig(BaseModel):
    targets: list[str]
    labels: dict[str, str] = Field(default_factory=dict[str, str])


class Job(BaseModel):
    job_name: str
    metrics_path: str = "/metrics"
    static_configs: list[StaticConfig]


class PrometheusFile(BaseModel):
    rule_files: list[str]
    scrape_configs: list[Job]


class Source(BaseModel):
    uid: str
    type: str
    url: str = ""


class SourcesFile(BaseModel):
    datasources: list[Source]


class Target(BaseModel):
    expr: str
    datasource: Source
    legendFormat: str  # noqa: N815 - Grafana's name


class Box(BaseModel):
    x: int
    y: int
    w: int
    h: int

    def overlaps(self, other: "Box") -> bool:
        return (
            self.x < other.x + other.w
            and other.x < self.x + self.w
            and self.y < other.y + other.h
            and other.y < self.y + self.h
        )


class Panel(BaseModel):
    id: int
    type: str
    title: str
    description: str = ""
    gridPos: Box  # noqa: N815 - Grafana's name
    targets: list[Target] = Field(default_factory=list[Target])


class Variable(BaseModel):
    name: str
    definition: str


class Templating(BaseModel):
    list: list[Variable]


class Dashboard(BaseModel):
    uid: str
    panels: list[Panel]
    templating: Templating


PROMETHEUS = PrometheusFile.model_validate(read_yaml(DEPLOY / "prometheus" / "prometheus.yml"))
RULES = [
    rule
    for name in PROMETHEUS.rule_files
    for group in RuleFile.model_validate(read_yaml(DEPLOY / "prometheus" / name)).groups
    for rule in group.rules
]
SOURCES = SourcesFile.model_validate(
    read_yaml(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml")
)
DASHBOARD = Dashboard.model_validate(
    json.loads((DEPLOY / "grafana" / "dashboards" / "flashlane.json").read_text("utf-8"))
)
PANELS = [panel for panel in DASHBOARD.panels if panel.type != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every PromQL expression with its place."""
    for rule in RULES:
        yield rule.alert, rule.expr
    for panel in PANELS:
        for target in panel.targets:
            yield panel.title, target.expr


EXPRESSIONS = list(expressions())


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric in an expression, and the labels that it is matched by."""

    metric: str
    labels: frozenset[str]


def grouping_labels(expression: str) -> set[str]:
    """Return the labels of `by (...)`."""
    return {
        label.strip()
        for labels in re.findall(r"\bby\s*\(([^)]*)\)", expression)
        for label in labels.split(",")
    }


def selectors(expression: str) -> list[Selector]:
    """Return the metrics of a PromQL expression: names that are neither functions nor keywords."""
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", expression)
    bare = re.sub(r"\[[^\]]*\]", " ", bare)
    found: list[Selector] = []
    for match in re.finditer(r"(?<![\w:$.])([a-zA-Z_][\w:]*)\s*(\(|\{((?:[^}\"]|\"[^\"]*\")*)\})?", bare):
        name, after, matchers = match[1], match[2] or "", match[3] or ""
        if after != "(" and name not in KEYWORDS:
            labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers)
            found.append(Selector(name, frozenset(labels)))
    return found


def unknown(expression: str, metrics: Metrics) -> set[str]:
    """Return the metrics, and the labels of metrics, that an expression names and nobody exports."""
    found: set[str] = set()
    for selector in selectors(expression):
        known = metrics.get(selector.metric)
        if known is None:
            found.add(selector.metric)
        else:
            found |= {f"{selector.metric}:{label}" for label in selector.labels - known}
            found |= {f"{selector.metric}:{label}" for label in grouping_labels(expression) - known}
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum(rate(flashlane_requests_total[5m]))", set[str]()),
        ("sum(rate(flashlane_request_total[5m]))", {"flashlane_request_total"}),
        ('flashlane_requests_total{code="a{b}", tenants="x"}', {"flashlane_requests_total:tenants"}),
        ("sum by (replica) (flashlane_requests_total)", {"flashlane_requests_total:replica"}),
        ("up == 0 and vllm:kv_cache_usage > 0.5", {"vllm:kv_cache_usage"}),
        ("rate(flashlane_overhead_seconds[5m])", {"flashlane_overhead_seconds"}),
    ],
)
def test_a_wrong_name_is_found(metrics: Metrics, expression: str, expected: set[str]):
    assert unknown(expression, metrics) == expected


@pytest.mark.parametrize(("place", "expression"), EXPRESSIONS, ids=[place for place, _ in EXPRESSIONS])
def test_an_expression_names_only_what_is_exported(metrics: Metrics, place: str, expression: str):
    assert selectors(expression), place
    assert unknown(expression, metrics) == set()


def test_every_metric_of_the_gateway_is_on_the_dashboard():
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", selector.metric)
        for panel in PANELS
        for target in panel.targets
        for selector in selectors(target.expr)
    }
    exported = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in gateway_metrics()}
    assert {name for name in exported if name not in shown and f"{name}_total" not in shown} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert)
def test_an_alert_says_what_is_wrong_and_how_bad_it_is(rule: Rule, metrics: Metrics):
    assert rule.labels["severity"] in {"warning", "critical"}
    used = set(re.findall(r"\$labels\.(\w+)", rule.annotations["summary"]))
    kept = grouping_labels(rule.expr) or {
        label for selector in selectors(rule.expr) for label in metrics[selector.metric]
    }
    assert used <= kept - {"le"}


def test_alerts_match_codes_that_the_gateway_gives():
    codes = {
        code
        for rule in RULES
        for text in re.findall(r"code=~?\"([^\"]+)\"", rule.expr)
        for code in text.split("|")
    }
    assert codes
    assert codes <= {row.code for row in TABLE.values()} | {"internal_error"}


def test_prometheus_scrapes_the_gateway_and_the_engines_that_compose_runs():
    services = {"gateway": "8080", "vllm-flash": "8000", "vllm-standard": "8000"}
    targets = [
        target for job in PROMETHEUS.scrape_configs for part in job.static_configs for target in part.targets
    ]
    assert dict(target.split(":") for target in targets) == services
    labels = [part.labels for job in PROMETHEUS.scrape_configs for part in job.static_configs]
    assert [label["model"] for label in labels if label] == ["flash", "standard"]


def test_the_dashboard_reads_the_source_that_is_provisioned():
    (source,) = SOURCES.datasources
    assert source.url == "http://prometheus:9090"
    used = {(target.datasource.uid, target.datasource.type) for panel in PANELS for target in panel.targets}
    assert used == {(source.uid, source.type)}


def test_the_dashboard_is_found_where_compose_mounts_it():
    provider = (DEPLOY / "grafana" / "provisioning" / "dashboards" / "flashlane.yaml").read_text("utf-8")
    compose = (ROOT / "compose.yaml").read_text("utf-8")
    assert "path: /etc/grafana/dashboards\n" in provider
    assert "./deploy/grafana/dashboards:/etc/grafana/dashboards:ro" in compose
    assert "/etc/grafana/dashboards/flashlane.json" in compose


def test_panels_are_explained_and_do_not_cover_each_other():
    assert len({panel.id for panel in DASHBOARD.panels}) == len(DASHBOARD.panels)
    assert [panel.title for panel in PANELS if not panel.description or not panel.targets] == []
    covering = [
        (one.title, other.title)
        for one, other in combinations(DASHBOARD.panels, 2)
        if one.gridPos.overlaps(other.gridPos)
    ]
    assert covering == []
    assert all(panel.gridPos.x + panel.gridPos.w <= 24 for panel in DASHBOARD.panels)


def test_variables_are_defined_and_list_what_is_exported(metrics: Metrics):
    defined = {variable.name: variable.definition for variable in DASHBOARD.templating.list}
    used = {name for _, expression in EXPRESSIONS for name in re.findall(r"\$(?!__)(\w+)", expression)}
    assert used == set(defined)
    for definition in defined.values():
        match = re.fullmatch(r"label_values\(([\w:]+), (\w+)\)", definition)
        assert match is not None
        assert match[2] in metrics[match[1]]
