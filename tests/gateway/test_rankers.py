"""What ranks a tenant's requests: its version, what its tasks gained since, and the bound it states."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import RedisError

from classifier.adaptation import adapt
from classifier.adapted import Adapted
from classifier.adapted_file import save_adapted
from classifier.model import Classifier
from classifier.risk import Calibration
from classifier.task_gains import Tally, TaskGains
from classifier.types import Conversation, Turn
from classifier.versions import add_version, roll_back
from gateway import shared_gains
from gateway.rankers import Ranker, Rankers
from gateway.shared_gains import add_gains, gains_key, read_gains, record_pair
from policies.redis_client import connect
from policies.types import Routing, Tenant
from tests.classifier.test_adaptation import pairs_of
from tests.support.waiting import until

MODELS = "flash+standard"
ACME = Tenant("acme")
BOUNDED = Tenant("acme", routing=Routing(max_quality_loss=0.03, confidence=0.9))
HARD, EASY = (
    Conversation(turns=[Turn("user", "Tell me of the river")], task=task) for task in ("hard", "easy")
)


@pytest.fixture(scope="module")
def shipped() -> Classifier:
    return Classifier.load()


@pytest.fixture(scope="module")
def adapted(shipped: Classifier) -> Adapted:
    return adapt(shipped.prior, pairs_of(80))


@pytest_asyncio.fixture
async def redis(redis_url: str) -> AsyncGenerator[Redis]:
    """An empty Redis."""
    async with connect(redis_url) as client:
        await client.flushall()  # pyright: ignore[reportUnknownMemberType]
        yield client


@pytest.fixture
def save(shipped: Classifier, adapted: Adapted, tmp_path: Path) -> Callable[..., None]:
    """Make a version for acme; with `pairs` its calibration has so many, and Flash never loses."""

    def make(*, pairs: int | None = None, models: str = "", lost: float = 0.0) -> None:
        version = adapted
        if pairs is not None:
            flash = np.full(pairs, 1.0 - lost)
            calibration = Calibration(np.linspace(0.0, 1.0, pairs) * (lost == 0.0), flash, np.ones(pairs))
            report = replace(adapted.report, pairs=pairs)
            version = replace(adapted, calibration=calibration, report=report)
        add_version(
            tmp_path / "acme",
            lambda folder: save_adapted(folder, version, prior=shipped.card.version, models=models),
        )

    return make


def rankers_in(shipped: Classifier, folder: Path) -> Rankers:
    return Rankers(shipped, folder, MODELS)


def look(rankers: Rankers, tenant: Tenant = ACME) -> Ranker:
    rankers.look([tenant])
    return rankers.of("acme")


async def record_both(redis: Redis, classifier: Classifier, times: int = 20) -> None:
    for number in range(times):
        gain = 1.0 if number % 4 else 0.0
        for conversation, sign in ((HARD, 1), (EASY, -1)):
            await record_pair(redis, classifier, conversation, sign * gain, tenant="acme", models=MODELS)


def test_a_tenant_without_a_version_is_served_the_shipped_weights(shipped: Classifier, tmp_path: Path):
    rankers = rankers_in(shipped, tmp_path)
    assert look(rankers).classifier is shipped
    assert rankers.of("nobody").classifier is shipped
    assert rankers.kind("acme") == f"{shipped.version}:{MODELS}"


def test_a_new_version_and_a_rollback_are_noticed_and_other_tenants_are_left_alone(
    shipped: Classifier, tmp_path: Path, save: Callable[..., None]
):
    rankers = rankers_in(shipped, tmp_path)
    look(rankers)
    save()
    first = look(rankers)
    assert "+adapted-" in first.classifier.version
    assert look(rankers) is first  # nothing is read again
    save(pairs=90)
    assert look(rankers).source == tmp_path / "acme" / "0002"
    roll_back(tmp_path / "acme")
    assert look(rankers).source == tmp_path / "acme" / "0001"
    rankers.look([ACME, Tenant("umbrella")])
    assert rankers.of("umbrella").classifier is shipped


def test_a_damaged_version_or_one_of_other_models_is_said_once_and_the_last_one_stays(
    shipped: Classifier, tmp_path: Path, save: Callable[..., None], caplog: pytest.LogCaptureFixture
):
    rankers = rankers_in(shipped, tmp_path)
    save(models=MODELS)
    good = look(rankers)
    assert good.source is not None
    save(models="others+standard")
    for _ in range(3):
        assert look(rankers) is good
    save()
    (tmp_path / "acme" / "0003" / "adapted.safetensors").write_bytes(b"x")
    for _ in range(3):
        assert look(rankers) is good
    assert [("others+standard" in text, "sha256" in text) for text in caplog.messages] == [
        (True, False),
        (False, True),
    ]


def test_a_folder_whose_current_version_is_gone_is_said_once_and_served_again_when_it_is_back(
    shipped: Classifier, tmp_path: Path, save: Callable[..., None], caplog: pytest.LogCaptureFixture
):
    rankers = rankers_in(shipped, tmp_path)
    save()
    (tmp_path / "acme" / "current").write_text("7")
    for _ in range(3):
        assert look(rankers).classifier is shipped
    assert len(caplog.messages) == 1
    (tmp_path / "acme" / "current").write_text("1")
    assert look(rankers).source == tmp_path / "acme" / "0001"


async def test_pairs_that_many_record_at_once_all_count(redis: Redis):
    key = gains_key("acme", MODELS, "v")
    one = TaskGains().added([("a", 0.5), ("b", -0.25), ("", 0.125)])
    await asyncio.gather(*(add_gains(redis, key, one) for _ in range(50)))
    found = await read_gains(redis, key)
    assert found.tasks == {"a": Tally(50.0, 25.0), "b": Tally(50.0, -12.5)}
    assert found.everything == Tally(150.0, 18.75)
    assert found.squares == pytest.approx(50 * (0.25 + 0.0625 + 0.015625))
    assert await redis.ttl(key) > 0


async def test_the_tasks_with_the_fewest_pairs_are_forgotten_when_there_are_too_many(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shared_gains, "MAX_TASKS", 8)
    key = gains_key("acme", MODELS, "v")
    await add_gains(redis, key, TaskGains().added([(f"often {n}", 0.5) for n in range(5)] * 3))
    for number in range(30):
        await add_gains(redis, key, TaskGains().added([(f"once {number}", 0.5)]))
        assert len((await read_gains(redis, key)).tasks) <= 8
    found = await read_gains(redis, key)
    assert {f"often {n}" for n in range(5)} <= set(found.tasks)
    assert found.everything.pairs == 45.0


async def test_a_pair_that_one_process_records_moves_the_scores_of_another(
    shipped: Classifier, redis: Redis, tmp_path: Path
):
    rankers = rankers_in(shipped, tmp_path)
    before = (await asyncio.to_thread(look, rankers)).classifier.estimate(HARD).score
    await record_both(redis, shipped)
    await rankers.refresh(redis)
    moved = rankers.of("acme").classifier
    assert moved.estimate(EASY).score < before < moved.estimate(HARD).score
    assert (await asyncio.to_thread(look, rankers)).classifier is moved  # a look at the files keeps it
    await rankers.refresh(redis)
    assert rankers.of("acme").classifier is moved  # nothing new, so nothing is read


async def test_each_version_has_gains_of_its_own_so_that_no_pair_counts_twice(
    shipped: Classifier, redis: Redis, tmp_path: Path, save: Callable[..., None]
):
    rankers = rankers_in(shipped, tmp_path)
    await asyncio.to_thread(look, rankers)
    await record_both(redis, shipped)
    await rankers.refresh(redis)
    await asyncio.to_thread(save)
    adapted_now = await asyncio.to_thread(look, rankers)
    await rankers.refresh(redis)
    assert rankers.of("acme").classifier.estimate(HARD) == adapted_now.fitted.estimate(HARD)
    await record_both(redis, adapted_now.fitted)
    await rankers.refresh(redis)
    now = rankers.of("acme").classifier
    assert now.estimate(HARD).score > adapted_now.fitted.estimate(HARD).score


@pytest.mark.parametrize("gain", [1.5, -2.0, math.nan])
async def test_a_gain_that_is_none_is_refused(shipped: Classifier, redis: Redis, gain: float):
    with pytest.raises(ValueError, match="gain"):
        await record_pair(redis, shipped, HARD, gain, tenant="acme", models=MODELS)
    assert not await redis.exists(gains_key("acme", MODELS, shipped.version))


async def test_fields_that_are_no_numbers_are_passed_over(redis: Redis):
    key = gains_key("acme", MODELS, "v")
    await add_gains(redis, key, TaskGains().added([("good", 0.5)]))
    for name, value in {"n:bad": "x", "t:bad": "1", "n:half": "3", "n:endless": "inf", "other": "1"}.items():
        await redis.hset(key, name, value)  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
    assert (await read_gains(redis, key)).tasks == {"good": Tally(1.0, 0.5), "half": Tally(3.0, 0.0)}


@dataclass
class OneTenant:
    tenant: Tenant = ACME

    def tenants(self) -> Sequence[Tenant]:
        return [self.tenant]


async def test_without_redis_what_was_read_last_is_used_and_it_is_counted_and_said_once(
    shipped: Classifier, redis: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    rankers, failures = rankers_in(shipped, tmp_path), list[int]()
    await asyncio.to_thread(look, rankers)
    await record_both(redis, shipped)
    await rankers.refresh(redis)
    moved = rankers.of("acme").classifier
    async with connect("redis://127.0.0.1:9/0") as away:
        with pytest.raises(RedisError):
            await rankers.refresh(away)
        job = asyncio.get_running_loop().create_task(
            rankers.keep_fresh(
                away,
                OneTenant(),
                began=lambda _, __: None,
                failed=lambda: failures.append(1),
                every=0.01,
            )
        )
        await until(lambda: len(failures) > 3, "several failures")
        job.cancel()
    assert rankers.of("acme").classifier is moved
    assert sum("what tasks gained stays" in text for text in caplog.messages) == 1


def test_a_loss_is_bounded_once_the_pairs_of_the_version_prove_it(
    shipped: Classifier, tmp_path: Path, save: Callable[..., None]
):
    rankers = rankers_in(shipped, tmp_path)
    bounds = [look(rankers, BOUNDED).bound]
    save(pairs=60)
    bounds.append(look(rankers, BOUNDED).bound)
    save(pairs=400)
    bounds.append(look(rankers, BOUNDED).bound)
    assert [(bound.cut, bound.note) for bound in bounds if bound] == [
        (None, "no pairs"),
        (None, "60 of 85 pairs"),
        (1.0, "400 pairs, 100% of them left to flash"),
    ]
    assert look(rankers, ACME).bound is None
    looser = replace(BOUNDED, routing=replace(BOUNDED.routing, max_quality_loss=0.04))
    assert look(rankers, looser).bound is not None


def test_a_loss_that_no_cut_can_keep_sends_everything_to_standard_and_says_so(
    shipped: Classifier, tmp_path: Path, save: Callable[..., None]
):
    save(pairs=400, lost=1.0)  # all pairs have the same score
    bound = look(rankers_in(shipped, tmp_path), BOUNDED).bound
    assert bound is not None
    assert (bound.cut, bound.note) == (-1.0, "no cut keeps a loss of 0.03")


async def test_scores_that_a_promise_was_made_for_are_not_moved_by_later_gains(
    shipped: Classifier, redis: Redis, tmp_path: Path, save: Callable[..., None]
):
    await asyncio.to_thread(save, pairs=400)
    rankers = rankers_in(shipped, tmp_path)
    fitted = (await asyncio.to_thread(look, rankers, BOUNDED)).fitted
    await record_both(redis, fitted)
    await rankers.refresh(redis)
    assert rankers.of("acme").classifier is fitted
    await asyncio.to_thread(look, rankers, ACME)
    await rankers.refresh(redis)
    assert rankers.of("acme").classifier is not fitted
    assert (await asyncio.to_thread(look, rankers, BOUNDED)).classifier is fitted
