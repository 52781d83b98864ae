"""The promise of a cut is kept as often as it says, and is worth having."""

from math import comb
from typing import Any

import numpy as np
import pytest

from classifier.risk import CANDIDATES, Array, risk_cut

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
