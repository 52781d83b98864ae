"""A sentence encoder beside the event loop: waited for within a budget, and never in the way."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from classifier.adaptation import adapt
from classifier.adapted import Adapted
from classifier.adapted_file import save_adapted
from classifier.encoders import Encoder, Vector, load_encoder
from classifier.model import Classifier
from classifier.risk import Calibration
from classifier.types import ComplexityEstimate, Conversation, Turn
from classifier.versions import add_version
from gateway.config import Config, load_config
from gateway.errors import StartFailed
from gateway.rankers import Rankers
from gateway.runtime import running
from gateway.second_stage import Outcome, SecondStage
from policies.types import Routing, Tenant
from policies.yaml_file import write_yaml
from tests.gateway.conftest import StartGateway
from tests.support.gateway import KEY, settings_in, write_tenant
from tests.support.hard_names import NAMES, pairs_of, vectors_of
from tests.support.tiny_encoder import write_tiny_encoder
from tests.support.waiting import until

pytest.importorskip("onnxruntime", reason="the extra is not installed: pip install flashlane[encoder]")

MODELS = "flash-upstream+standard-upstream"
QUESTION = f"Translate the word {NAMES[0]}."
ASKED = Conversation([Turn("user", QUESTION)])


class HeldEncoder:
    """Waits until it is let go; fails when it is told to."""

    name = "held@1"

    def __init__(self, vectors: Encoder) -> None:
        self._vectors = vectors
        self.go = threading.Event()
        self.entered = threading.Semaphore(0)
        self.broken = False

    def encode(self, text: str) -> Vector:
        self.entered.release()
        self.go.wait()
        if self.broken:
            raise RuntimeError("out of memory")
        return self._vectors.encode(text)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny", NAMES, vectors_of(1))


@pytest.fixture(scope="module")
def encoder(model: Path) -> Encoder:
    return load_encoder(str(model))


@pytest.fixture(scope="module")
def adapted(encoder: Encoder) -> Adapted:
    found = adapt(Classifier.load().prior, pairs_of(500), encoder=encoder)
    assert found.second is not None
    return found


@pytest.fixture(scope="module")
def classifier(adapted: Adapted) -> Classifier:
    return Classifier.load().with_adapted(adapted, "adapted")


@pytest.fixture(scope="module")
def first(classifier: Classifier) -> ComplexityEstimate:
    return classifier.estimate(ASKED)


async def test_the_second_stage_is_used_when_it_is_there_in_time(
    classifier: Classifier, first: ComplexityEstimate, encoder: Encoder
):
    outcomes: list[Outcome] = []
    stage = SecondStage(encoder, budget=60.0, workers=1, count=outcomes.append)
    for _ in range(3):
        assert await stage.refine(classifier, ASKED, first) == classifier.refine(first, ASKED, encoder.encode)
    assert outcomes == ["used"] * 3
    await asyncio.to_thread(stage.close)


async def test_the_first_stage_stands_when_the_budget_has_passed_or_all_threads_are_at_work(
    classifier: Classifier, first: ComplexityEstimate, encoder: Encoder
):
    outcomes: list[Outcome] = []
    held = HeldEncoder(encoder)
    stage = SecondStage(held, budget=0.01, workers=2, count=outcomes.append)
    for _ in range(2):
        assert await stage.refine(classifier, ASKED, first) is first
    assert outcomes == ["late", "late"]
    assert await stage.refine(classifier, ASKED, first) is first
    assert outcomes == ["late", "late", "full"]
    held.go.set()

    async def used() -> bool:
        return await stage.refine(classifier, ASKED, first) is not first

    await until(used, "the threads to be free again")
    await asyncio.to_thread(stage.close)


async def test_an_encoder_that_fails_leaves_the_first_stage_and_its_thread_free(
    classifier: Classifier,
    first: ComplexityEstimate,
    encoder: Encoder,
    caplog: pytest.LogCaptureFixture,
):
    outcomes: list[Outcome] = []
    held = HeldEncoder(encoder)
    held.broken = True
    held.go.set()
    stage = SecondStage(held, budget=60.0, workers=1, count=outcomes.append)
    for _ in range(3):
        assert await stage.refine(classifier, ASKED, first) is first
    assert outcomes == ["failed"] * 3
    assert "The encoder held@1 failed" in caplog.text
    await asyncio.to_thread(stage.close)


async def test_a_client_that_leaves_takes_no_thread_with_it(
    classifier: Classifier, first: ComplexityEstimate, encoder: Encoder
):
    outcomes: list[Outcome] = []
    held = HeldEncoder(encoder)
    stage = SecondStage(held, budget=60.0, workers=1, count=outcomes.append)
    waiting = asyncio.ensure_future(stage.refine(classifier, ASKED, first))
    await asyncio.to_thread(held.entered.acquire)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held.go.set()

    async def used() -> bool:
        return await stage.refine(classifier, ASKED, first) is not first

    await until(used, "the thread to be free again")
    assert outcomes[-1] == "used"
    await asyncio.to_thread(stage.close)


def save(folder: Path, adapted: Adapted) -> None:
    prior = Classifier.load().card.version
    add_version(folder / "acme", lambda place: save_adapted(place, adapted, prior=prior, models=MODELS))


async def test_a_gateway_scores_with_the_encoder_that_it_is_told(
    start_gateway: StartGateway,
    classifier: Classifier,
    adapted: Adapted,
    encoder: Encoder,
    model: Path,
    tmp_path: Path,
):
    await asyncio.to_thread(save, tmp_path / "versions", adapted)
    more = {"classifier": "versions", "encoder": {"model": str(model), "budget_ms": 10_000}}
    async with start_gateway(more=more) as gateway:
        ranker = gateway.services.rankers.of("acme")
        assert ranker.refines
        async with gateway.http() as client:
            body = {"model": "auto", "messages": [{"role": "user", "content": QUESTION}]}
            reply = await client.post("/v1/chat/completions", json=body)
            shown = (await client.get("/metrics")).text
        record = await gateway.record(reply.headers["x-flashlane-request-id"])
    first = classifier.estimate(ASKED)
    assert record.complexity == classifier.refine(first, ASKED, encoder.encode).score
    assert record.complexity != first.score
    assert 'flashlane_second_stage_total{outcome="used"} 1.0' in shown


def test_a_version_of_another_encoder_is_not_served(
    adapted: Adapted, encoder: Encoder, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    save(tmp_path, adapted)
    shipped = Classifier.load()
    for name, served in (("", False), ("other@1", False), (encoder.name, True)):
        rankers = Rankers(shipped, tmp_path, MODELS, encoder=name)
        rankers.look([Tenant("acme")])
        assert rankers.of("acme").refines == served
        assert (rankers.of("acme").classifier is shipped) == (not served)
    assert [encoder.name in text for text in caplog.messages] == [True, True]
    assert "none is configured" in caplog.messages[0]
    assert "the one here is other@1" in caplog.messages[1]


def test_no_second_stage_moves_a_score_that_a_promise_was_proven_with(
    adapted: Adapted, encoder: Encoder, tmp_path: Path
):
    pairs = 400
    proven = replace(
        adapted,
        calibration=Calibration(np.linspace(0.0, 1.0, pairs), np.ones(pairs), np.ones(pairs)),
        report=replace(adapted.report, pairs=pairs),
    )
    save(tmp_path, proven)
    rankers = Rankers(Classifier.load(), tmp_path, MODELS, encoder=encoder.name)
    for loss, refines in ((None, True), (0.03, False), (0.0001, True)):
        rankers.look([Tenant("acme", routing=Routing(max_quality_loss=loss, confidence=0.9))])
        assert rankers.of("acme").refines == refines


def config_with(folder: Path, encoder: Mapping[str, str]) -> Config:
    pool = {"pools": [{"name": "main", "replicas": [{"url": "http://127.0.0.1:9"}]}]}
    models = {name: {"served_name": name, **pool} for name in ("flash", "standard")}
    write_tenant(folder / "tenants", "acme", KEY, {})
    (folder / "model.onnx").write_bytes(b"x")
    write_yaml(folder / "flashlane.yaml", {"tenants": "tenants", "models": models, "encoder": encoder})
    return load_config(folder / "flashlane.yaml")


async def test_a_gateway_does_not_start_with_an_encoder_that_cannot_be_used(tmp_path: Path):
    config = await asyncio.to_thread(config_with, tmp_path, {"model": "model.onnx"})
    assert config.encoder is not None
    assert config.encoder.model == str(tmp_path / "model.onnx")
    with pytest.raises(StartFailed, match=r"there is no tokenizer\.json"):
        async with running(config, settings_in(tmp_path)):
            raise AssertionError("it started")
