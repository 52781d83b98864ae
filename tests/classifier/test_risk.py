"""The promise of a cut is kept as often as it says, and is worth having."""

from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from classifier.adaptation import adapt
from classifier.adapted_file import load_adapted, save_adapted
from classifier.adapted_scorer import AdaptedScorer
from classifier.errors import ModelFileInvalid
from classifier.model import Classifier
from classifier.reading import read
from classifier.risk import CANDIDATES, Array, Calibration, fewest_pairs, risk_cut
from classifier.types import Conversation, Turn
from tests.classifier.test_adaptation import pairs_of

RESAMPLES = 1000
BOUND = 0.03
CONFIDENCE = 0.9


def population(rng: np.random.Generator, size: int = 200_000) -> tuple[Array, Array, Array]:
    """Scores that rank the gap, and outcomes in steps of a half."""
    scores = rng.random(size)
    flash = np.where(rng.random(size) < 0.35 * scores, 0.0, 1.0)
    standard = np.where(rng.random(size) < 0.06, 0.5, 1.0)
    return scores, flash, standard


def true_losses(scores: Array, flash: Array, standard: Array) -> dict[float, float]:
    """The loss of each candidate cut over the whole population."""
    order = np.argsort(scores)
    losses = np.cumsum((standard - flash)[order]) / len(scores)
    places = np.searchsorted(scores[order], CANDIDATES, side="right")
    return dict(zip(CANDIDATES, np.concatenate([[0.0], losses])[places], strict=True))


def most_often(trials: int, chance: float, slack: float = 1e-4) -> int:
    """The number of breaches that a promise kept exactly would exceed with a chance of `slack` only."""
    total, found = 0.0, 0
    for found in range(trials + 1):
        total += comb(trials, found) * chance**found * (1 - chance) ** (trials - found)
        if total > 1 - slack:
            break
    return found


@pytest.mark.parametrize("pairs", [300, 1000])
def test_the_promise_is_broken_at_most_as_often_as_stated_and_not_bought_with_uselessness(pairs: int):
    rng = np.random.default_rng(11)
    scores, flash, standard = population(rng)
    losses = true_losses(scores, flash, standard)
    broken = 0
    shares: list[float] = []
    found: list[float] = []
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(scores), pairs)
        cut = risk_cut(scores[rows], flash[rows], standard[rows], max_loss=BOUND, confidence=CONFIDENCE)
        if cut is not None:
            broken += losses[cut.cut] > BOUND
            shares.append(cut.flash_share)
            found.append(losses[cut.cut])
    assert broken <= most_often(RESAMPLES, 1 - CONFIDENCE)
    best = max(cut for cut, loss in losses.items() if loss <= BOUND)
    assert len(found) > 0.85 * RESAMPLES
    # What could be sent to Flash at most, by an oracle, is `best`.
    assert np.mean(shares) > (0.6 if pairs == 300 else 0.75) * best


def test_too_few_pairs_give_no_cut():
    ones = np.ones(60)
    assert risk_cut(np.linspace(0, 1, 60), ones, ones, max_loss=0.02, confidence=0.95) is None


def test_pairs_without_any_loss_send_everything_to_flash_once_there_are_enough():
    ones = np.ones(400)
    cut = risk_cut(np.linspace(0, 1, 400), ones, ones, max_loss=0.02, confidence=0.95)
    assert cut is not None
    assert cut.cut == CANDIDATES[-1]
    assert cut.flash_share == 1.0
    assert cut.loss == 0.0


def test_a_flash_model_that_always_fails_gets_next_to_nothing():
    rng = np.random.default_rng(3)
    cut = risk_cut(rng.random(800), np.zeros(800), np.ones(800), max_loss=0.05, confidence=0.95)
    assert cut is None or cut.flash_share < 0.05


def test_pairs_that_come_sorted_by_outcome_prove_no_more():
    rng = np.random.default_rng(5)
    scores, flash, standard = population(rng, 2000)
    by_loss = np.argsort(standard - flash)
    cut = risk_cut(scores[by_loss], flash[by_loss], standard[by_loss], max_loss=BOUND)
    assert cut is not None
    assert cut.loss < BOUND


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"max_loss": 0.0}, "max_loss"),
        ({"confidence": 1.0}, "confidence"),
        ({"flash": np.array([2.0])}, "flash"),
        ({"scores": np.array([np.nan])}, "scores"),
        ({"scores": np.zeros(2)}, "2 scores"),
    ],
)
def test_what_is_out_of_range_is_named(change: dict[str, Any], named: str):
    arguments: dict[str, Any] = {
        "scores": np.array([0.5]), "flash": np.array([0.5]), "standard": np.array([0.5]), "max_loss": 0.1,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=named):
        risk_cut(**arguments)


@pytest.mark.parametrize(("max_loss", "confidence"), [(0.02, 0.95), (0.1, 0.8), (0.005, 0.99)])
def test_the_fewest_pairs_are_those_that_suffice_when_flash_never_loses(max_loss: float, confidence: float):
    def cut_of(pairs: int) -> object:
        ones = np.ones(pairs)
        return risk_cut(np.linspace(0, 1, pairs), ones, ones, max_loss=max_loss, confidence=confidence)

    fewest = fewest_pairs(max_loss, confidence)
    assert cut_of(fewest) is not None
    assert cut_of(fewest - 1) is None


def test_the_promise_is_kept_through_what_a_version_stores(classifier: Classifier, tmp_path: Path):
    """A thousand versions, each with a calibration of its own, written, read and cut."""
    rng = np.random.default_rng(12)
    scores, flash, standard = population(rng)
    losses = true_losses(scores, flash, standard)
    adapted = adapt(classifier.prior, pairs_of(80))
    prior = classifier.card.version
    pairs, broken, found = 300, 0, 0
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(scores), pairs)
        calibration = Calibration(scores[rows], flash[rows], standard[rows])
        report = replace(adapted.report, pairs=pairs)
        save_adapted(tmp_path, replace(adapted, calibration=calibration, report=report), prior=prior)
        cut = load_adapted(tmp_path, prior=prior)[0].calibration.cut(BOUND, CONFIDENCE)
        if cut is not None:
            found += 1
            broken += losses[cut.cut] > BOUND
    assert found > 0.85 * RESAMPLES
    assert broken <= most_often(RESAMPLES, 1 - CONFIDENCE)


def test_a_version_is_calibrated_on_scores_that_did_not_learn_from_the_same_pair(classifier: Classifier):
    """What a model says of its own pairs looks better than it is."""
    pairs = pairs_of(120, seed=8)
    adapted = adapt(classifier.prior, pairs)
    gains = np.array([pair.gain for pair in pairs])
    scorer = AdaptedScorer(classifier.prior, adapted)

    def score(prompt: str, task: str) -> float:
        conversation = Conversation(turns=[Turn("user", prompt)])
        return scorer.estimate(classifier.estimate(conversation).values, read(prompt), task)[0]

    own = np.array([score(pair.prompt, pair.task) for pair in pairs])
    stored = adapted.calibration
    assert np.array_equal(stored.standard - stored.flash, gains)
    assert np.corrcoef(stored.scores, gains)[0, 1] < np.corrcoef(own, gains)[0, 1]


def test_a_calibration_that_is_out_of_range_is_refused(classifier: Classifier, tmp_path: Path):
    adapted = adapt(classifier.prior, pairs_of(80))
    wrong = replace(adapted.calibration, flash=adapted.calibration.flash + 2.0)
    save_adapted(tmp_path, replace(adapted, calibration=wrong), prior=classifier.card.version)
    with pytest.raises(ModelFileInvalid, match="calibration"):
        load_adapted(tmp_path, prior=classifier.card.version)
