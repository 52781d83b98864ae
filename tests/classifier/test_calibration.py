"""Probabilities mean what they say, and are stated only when they do."""

import numpy as np
import numpy.typing as npt
import pytest

from classifier.calibration import (
    MIN_OF_EACH,
    MIN_PAIRS,
    Array,
    Platt,
    calibration_error,
    enough_to_calibrate,
    fit_platt,
)

Outcomes = npt.NDArray[np.bool_]


def drawn(
    rng: np.random.Generator, size: int, slope: float = 3.0, intercept: float = 0.5
) -> tuple[Array, Outcomes]:
    scores = rng.normal(size=size)
    return scores, rng.random(size) < Platt(slope, intercept).probabilities(scores)


def test_platt_scaling_finds_the_slope_and_the_intercept_that_outcomes_were_drawn_by():
    found = fit_platt(*drawn(np.random.default_rng(0), 20_000))
    assert found.slope == pytest.approx(3.0, rel=0.1)
    assert found.intercept == pytest.approx(0.5, abs=0.1)


def test_calibrated_probabilities_have_a_small_error_and_others_a_large_one():
    rng = np.random.default_rng(1)
    found = fit_platt(*drawn(rng, 1000))
    scores, outcomes = drawn(rng, 20_000)
    assert calibration_error(found.probabilities(scores), outcomes) < 0.03
    assert calibration_error(Platt(0.5, -1.0).probabilities(scores), outcomes) > 0.1


def test_scores_that_carry_nothing_give_the_base_rate():
    rng = np.random.default_rng(2)
    outcomes = rng.random(2000) < 0.7
    for scores in (np.zeros(2000), np.where(outcomes, -1.0, 1.0)):
        found = fit_platt(scores, outcomes)
        assert found.slope == 0.0
        assert found.probability(0.0) == pytest.approx(outcomes.mean(), abs=0.01)


def test_outcomes_that_are_separable_stay_finite():
    scores = np.linspace(-1, 1, 100)
    found = fit_platt(scores, scores > 0)
    assert 0.5 < found.probability(1.0) < 1.0
    assert np.isfinite(found.slope)


def test_a_probability_takes_enough_pairs_of_either_kind():
    assert not enough_to_calibrate(np.arange(MIN_PAIRS - 1) % 2 == 0)
    assert enough_to_calibrate(np.arange(MIN_PAIRS) % 2 == 0)
    assert not enough_to_calibrate(np.arange(MIN_PAIRS) < MIN_OF_EACH - 1)


def test_one_probability_is_the_same_as_many():
    platt = Platt(2.0, -0.3)
    assert platt.probabilities(np.array([0.4]))[0] == pytest.approx(platt.probability(0.4))
