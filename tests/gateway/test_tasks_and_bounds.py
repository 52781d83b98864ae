"""What a task is known by, what it gained, and the loss that a tenant allows, through a whole gateway."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from classifier.adaptation import adapt
from classifier.adapted_file import save_adapted
from classifier.model import Classifier, task_name
from classifier.risk import Calibration
from classifier.types import Conversation, Turn
from classifier.versions import add_version
from gateway.cli.classifier import app as cli
from gateway.config import load_config
from gateway.records import RequestRecord
from gateway.runtime import running
from gateway.shared_gains import record_pair
from policies.redis_client import connect
from policies.yaml_file import write_yaml
from tests.classifier.test_adaptation import pairs_of
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, GatewayUnderTest, settings_in, write_tenant
from tests.support.waiting import until

SYSTEM = "You answer questions of the shop."
QUESTION = "Where is my parcel?"
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
MODELS = "flash-upstream+standard-upstream"


async def ask(gateway: GatewayUnderTest, *, system: str = SYSTEM, path: str = CHAT) -> RequestRecord:
    """Ask a question for `auto`; return its record."""
    user = {"role": "user", "content": QUESTION}
    body: dict[str, Any] = {"model": "auto", "max_tokens": 50}
    if path == MESSAGES:
        body |= {"system": system, "messages": [user]}
    else:
        body["messages"] = [*([{"role": "system", "content": system}] if system else []), user]
    async with gateway.http() as client:
        reply = await client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return await gateway.record(reply.headers["x-flashlane-request-id"])


@pytest.mark.parametrize(
    ("task_by", "expected"),
    [
        (None, [task_name(SYSTEM, b"", "web", CHAT), task_name(SYSTEM, b"", "web", MESSAGES), ""]),
        (["prompt"], [task_name(SYSTEM, b""), task_name(SYSTEM, b""), ""]),
        (["prompt", "key"], [task_name(SYSTEM, b"", "web"), task_name(SYSTEM, b"", "web"), ""]),
        (["key"], ["web", "web", "web"]),
        (["endpoint", "key"], [f"web{CHAT}", f"web{MESSAGES}", f"web{CHAT}"]),
    ],
)
async def test_a_task_is_known_by_what_the_tenant_says(
    start_gateway: StartGateway, task_by: list[str] | None, expected: list[str]
):
    routing: Mapping[str, Any] = {} if task_by is None else {"routing": {"task_by": task_by}}
    async with start_gateway(tenant=routing) as gateway:
        records = [
            await ask(gateway),
            await ask(gateway, path=MESSAGES),
            await ask(gateway, system=""),
        ]
    assert [record.task for record in records] == expected


async def test_pairs_recorded_for_a_task_move_its_next_requests(start_gateway: StartGateway, redis_url: str):
    async with start_gateway() as gateway:
        before, other = await ask(gateway), await ask(gateway, system="You write poems.")
        fitted = gateway.services.rankers.of("acme").fitted
        async with connect(redis_url) as redis:
            for number in range(40):
                hard = number % 2 == 0
                conversation = Conversation(
                    [Turn("user", QUESTION)], task=before.task if hard else other.task
                )
                gain = 0.9 if hard else 0.0
                await record_pair(redis, fitted, conversation, gain, tenant="acme", models=MODELS)
        rankers = gateway.services.rankers
        await until(lambda: rankers.of("acme").classifier is not fitted, "the gains to be read")
        after, other_after = await ask(gateway), await ask(gateway, system="You write poems.")
        assert before.complexity is not None
        assert other.complexity is not None
        assert after.complexity is not None
        assert after.complexity > before.complexity + 0.2
        assert after.model == "standard"
        assert other_after.complexity is not None
        assert other_after.complexity < other.complexity
        assert rankers.of("umbrella").classifier is fitted


async def test_requests_are_answered_from_what_was_read_last_while_redis_is_away(
    start_gateway: StartGateway, redis_url: str
):
    """OPEN-27: no request waits for shared state."""
    async with start_gateway() as gateway:
        fitted = gateway.services.rankers.of("acme").fitted
        before = await ask(gateway)
        conversation = Conversation([Turn("user", QUESTION)], task=before.task)
        async with connect(redis_url) as redis:
            for number in range(20):
                await record_pair(redis, fitted, conversation, 0.8, tenant="acme", models=MODELS)
                easy = replace_task(conversation, f"other {number % 3}")
                await record_pair(redis, fitted, easy, 0.0, tenant="acme", models=MODELS)
            rankers = gateway.services.rankers
            await until(lambda: rankers.of("acme").classifier is not fitted, "the gains to be read")
            moved = rankers.of("acme").classifier
            await redis.client_pause(1500)  # pyright: ignore[reportUnknownMemberType]
            after = await ask(gateway)
        assert after.complexity == moved.estimate(replace_task(conversation, before.task)).score


def replace_task(conversation: Conversation, task: str) -> Conversation:
    return Conversation(conversation.turns, task=task)


async def test_an_operator_records_pairs_for_a_gateway_with_its_own_valkey(tmp_path: Path):
    config = tmp_path / "flashlane.yaml"
    pool = {"pools": [{"name": "main", "replicas": [{"url": "http://127.0.0.1:9"}]}]}
    models = {name: {"served_name": name, **pool} for name in ("flash", "standard")}
    pairs = [
        {
            "prompt": QUESTION,
            "flash_score": number % 2,
            "standard_score": 1,
            "task": ("hard", "easy")[number % 2],
        }
        for number in range(40)
    ]

    def write() -> None:
        write_tenant(tmp_path / "tenants", "acme", KEY, {})
        write_yaml(config, {"tenants": "tenants", "models": models})
        (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))

    def record() -> Result:
        arguments = ["record", "--pairs", f"{tmp_path}/pairs.jsonl", "--tenant", "acme", "-c", str(config)]
        return CliRunner().invoke(cli, arguments, env={"FLASHLANE_STATE": str(tmp_path / "state")})

    await asyncio.to_thread(write)
    async with running(await asyncio.to_thread(load_config, config), settings_in(tmp_path)) as app:
        rankers = app.services.rankers
        recorded = await asyncio.to_thread(record)
        assert recorded.exit_code == 0, recorded.output
        fitted = rankers.of("acme").fitted
        await until(lambda: rankers.of("acme").classifier is not fitted, "the gains to be read")
        hard, easy = (
            rankers.of("acme").classifier.estimate(Conversation([Turn("user", QUESTION)], task=task)).score
            for task in ("hard", "easy")
        )
        assert hard > easy


@pytest.fixture(scope="module")
def save_version() -> Callable[[Path, int], object]:
    """Write a version for acme in which Flash never lost, with so many pairs."""
    shipped = Classifier.load()
    adapted = adapt(shipped.prior, pairs_of(80))

    def save(folder: Path, pairs: int) -> object:
        ones = np.ones(pairs)
        version = replace(
            adapted,
            calibration=Calibration(np.linspace(0.0, 1.0, pairs), ones, ones),
            report=replace(adapted.report, pairs=pairs),
        )
        return add_version(
            folder / "state" / "classifier" / "acme",
            lambda new: save_adapted(new, version, prior=shipped.card.version, models=MODELS),
        )

    return save


async def test_a_loss_that_a_tenant_allows_holds_from_the_version_on_that_proves_it(
    start_gateway: StartGateway, tmp_path: Path, save_version: Callable[[Path, int], object]
):
    routing = {"routing": {"max_quality_loss": 0.02, "standard_share": 1.0}}
    async with start_gateway(tenant=routing) as gateway:
        rankers = gateway.services.rankers
        first = await ask(gateway)
        assert first.model == "standard"
        assert first.reason.endswith(" (quality: no pairs)")
        await asyncio.to_thread(save_version, tmp_path, 60)
        await until(lambda: rankers.of("acme").source is not None, "the version to be noticed")
        assert (await ask(gateway)).reason.endswith(" (quality: 60 of 167 pairs)")
        await asyncio.to_thread(save_version, tmp_path, 300)
        await until(lambda: not rankers.of("acme").takes_gains, "the second version to be noticed")
        proven = await ask(gateway)
        assert proven.model == "flash"
        assert proven.reason.startswith("quality:")
        assert proven.reason.endswith("<=1.000")
        assert "+adapted-" in proven.classifier_version
