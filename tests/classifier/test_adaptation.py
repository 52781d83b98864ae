"""Adapting: what pairs change, what is refused, and what is served."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from classifier.adaptation import adapt, adapt_evidence, expected, observe
from classifier.adapted import Adapted
from classifier.adapted_file import load_adapted, save_adapted
from classifier.adapted_scorer import AdaptedScorer
from classifier.errors import AdaptationRefused, ModelFileInvalid
from classifier.features import FEATURE_NAMES
from classifier.model import Classifier
from classifier.pairs import Pair
from classifier.prior_view import PriorView
from classifier.reading import read
from classifier.scoring import rank_in
from classifier.types import Conversation, Turn
from classifier.versions import add_version, roll_back

WORDS = ("apple", "river", "stone", "lamp", "green", "paper", "cloud", "music", "train", "window", "table")


def pairs_of(count: int, seed: int = 0, *, informative: bool = True, tasks: bool = True) -> list[Pair]:
    """Two tasks; Flash fails half of one of them, and never the other."""
    rng = np.random.default_rng(seed)
    found: list[Pair] = []
    for number in range(count):
        hard = bool(rng.random() < 0.5)
        words = " ".join(rng.choice(WORDS, 4 + int(rng.integers(20))))
        fails = rng.random() < ((0.5 if hard else 0.03) if informative else 0.25)
        prompt = f"{'Review the contract:' if hard else 'Translate:'} {words} {number}"
        found.append(Pair(prompt, 0.0 if fails else 1.0, 1.0, ("contract" if hard else "translate") * tasks))
    return found


@pytest.fixture(scope="module")
def adapted(classifier: Classifier) -> Adapted:
    return adapt(classifier.prior, pairs_of(600))


def test_held_out_pairs_are_ranked_better_and_the_report_says_so(adapted: Adapted):
    report = adapted.report
    assert report.pairs == 600
    assert report.tasks == 2
    assert report.after.value > report.before.value + 0.1
    assert report.difference.low > 0
    assert report.better > 0.95


def test_prompts_without_a_task_are_ranked_by_what_they_look_like(classifier: Classifier):
    report = adapt(classifier.prior, pairs_of(300, tasks=False)).report
    assert report.tasks == 0
    assert report.after.value > report.before.value + 0.1


def test_the_same_pairs_give_the_same_model(classifier: Classifier):
    one, other = (adapt(classifier.prior, pairs_of(80)) for _ in range(2))
    assert one.quantiles == other.quantiles
    assert one.report == other.report


def test_a_probability_is_stated_from_five_hundred_pairs_and_means_what_it_says(
    classifier: Classifier, adapted: Adapted
):
    assert adapt(classifier.prior, pairs_of(400)).platt is None
    assert adapted.report.calibration_error is not None
    fresh = observe(PriorView(classifier.prior), pairs_of(2000, seed=9))
    space = adapted.model.view.space(fresh.values, fresh.topics, fresh.starts, fresh.terms, fresh.tasks)
    assert adapted.platt is not None
    stated = adapted.platt.probabilities(adapted.model.expected(adapted.model.flash_ok, space))
    for task in ("contract", "translate"):
        rows = [row for row, name in enumerate(fresh.tasks) if name == task]
        assert stated[rows].mean() == pytest.approx(fresh.flash_ok[rows].mean(), abs=0.06)


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (pairs_of(30), "too few"),
        ([Pair(f"prompt {number}", 1.0, 1.0) for number in range(80)], "hardly varies"),
        ([Pair(f"prompt {number}", float(number % 2), 0.5) for number in range(80)], "no gap to recover"),
        ([Pair("the same", float(number % 2), 1.0) for number in range(200)], "too few"),
    ],
)
def test_pairs_that_say_nothing_are_refused_with_the_reason(
    classifier: Classifier, pairs: list[Pair], reason: str
):
    with pytest.raises(AdaptationRefused, match=reason):
        adapt(classifier.prior, pairs)


def test_outcomes_that_have_nothing_to_do_with_the_prompts_are_mostly_refused(classifier: Classifier):
    reasons: list[str] = []
    for seed in range(8):
        try:
            adapt(classifier.prior, pairs_of(150, seed, informative=False))
        except AdaptationRefused as error:
            reasons.append(str(error))
    assert len(reasons) >= 5
    assert all("no better ranking than the prior" in reason for reason in reasons)


def test_one_request_is_served_what_the_arrays_say(classifier: Classifier, adapted: Adapted):
    pairs = pairs_of(40, seed=3)
    scorer = AdaptedScorer(classifier.prior, adapted)
    assert adapted.platt is not None
    for task in ("contract", "", "never seen"):
        evidence = observe(PriorView(classifier.prior), [replace(pair, task=task) for pair in pairs])
        gains, flash_ok = expected(adapted.model, evidence)
        for at, pair in enumerate(pairs):
            score, p_flash_ok = scorer.estimate(evidence.values[at].tolist(), read(pair.prompt), task)
            assert p_flash_ok == pytest.approx(adapted.platt.probability(float(flash_ok[at])), abs=1e-4)
            assert score == pytest.approx(rank_in(adapted.quantiles, float(gains[at])), abs=1e-3)


def test_more_pairs_than_landmarks_cost_no_more_to_serve(classifier: Classifier, adapted: Adapted):
    assert len(adapted.model.landmarks.starts) == 128
    evidence = observe(PriorView(classifier.prior), pairs_of(90))
    assert len(adapt_evidence(evidence).model.landmarks.starts) == 90


@pytest.fixture
def version(classifier: Classifier, adapted: Adapted, tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    add_version(folder, lambda place: save_adapted(place, adapted, prior=classifier.card.version))
    return folder


def test_an_adapted_model_is_saved_and_served(classifier: Classifier, adapted: Adapted, version: Path):
    served = Classifier.load(version)
    loaded, _ = load_adapted(version / "0001", prior=classifier.card.version)
    assert loaded.report == adapted.report
    assert loaded.quantiles == adapted.quantiles
    contract, translation = (
        served.estimate(Conversation(turns=[Turn("user", f"{task} apple river")], task=task))
        for task in ("contract", "translate")
    )
    assert contract.score > translation.score
    assert contract.p_flash_ok is not None
    assert translation.p_flash_ok is not None
    assert contract.p_flash_ok < translation.p_flash_ok
    assert contract.model_version.startswith(classifier.card.version + "+adapted-")


def test_what_moved_an_adapted_score_names_the_prior_the_topic_and_the_task(version: Path):
    served = Classifier.load(version)
    conversation = Conversation(turns=[Turn("user", "Review the contract: apple")], task="contract")
    moved = served.contributions(served.estimate(conversation).features, conversation)
    assert tuple(moved) == (*FEATURE_NAMES, "prior", "topic", "task")
    assert moved["task"] > 0


def test_an_earlier_version_is_served_again_after_a_rollback(classifier: Classifier, version: Path):
    first = Classifier.load(version).version
    other = adapt(classifier.prior, pairs_of(100, seed=4))
    add_version(version, lambda place: save_adapted(place, other, prior=classifier.card.version))
    assert Classifier.load(version).version != first
    roll_back(version)
    assert Classifier.load(version).version == first
    assert Classifier.load(version / "0002").version != first


def test_damaged_or_foreign_versions_are_refused_by_name(version: Path, classifier: Classifier):
    arrays, card = version / "0001" / "adapted.safetensors", version / "0001" / "adapted.json"
    content, text = arrays.read_bytes(), card.read_text()
    arrays.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelFileInvalid, match="sha256"):
        Classifier.load(version)
    arrays.write_bytes(content)
    card.write_text(text.replace(f'"prior": "{classifier.card.version}"', '"prior": "prior-1-other"'))
    with pytest.raises(ModelFileInvalid, match="prior-1-other"):
        Classifier.load(version)
    card.write_text(text.replace('"format": 3', '"format": 9'))
    with pytest.raises(ModelFileInvalid, match="format 9"):
        Classifier.load(version)
    card.write_text("{")
    with pytest.raises(ModelFileInvalid, match="not the card"):
        Classifier.load(version)
