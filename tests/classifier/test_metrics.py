"""The figures are what RouteLLM defines."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from classifier.metrics import auc, curve_figures


def test_a_perfect_ranking_recovers_the_gap_with_the_calls_it_needs():
    weak = np.array([0.0, 0.0, 1.0, 1.0])
    strong = np.ones(4)
    figures = curve_figures(np.array([4.0, 3.0, 2.0, 1.0]), weak, strong)
    # Recovered after 0..4 calls: 0, .5, 1, 1, 1; the trapezoids between them sum to 3 quarters.
    assert figures.apgr == pytest.approx(0.75)
    assert figures.cpt50 == pytest.approx(25)
    assert figures.cpt80 == pytest.approx(50)


def test_a_constant_score_is_a_random_order():
    rng = np.random.default_rng(99)
    weak = (rng.random(4000) < 0.6).astype(float)
    assert curve_figures(np.zeros(4000), weak, np.ones(4000)).apgr == pytest.approx(0.5, abs=0.03)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auc_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[int, bool]]):
    scores = np.array([score for score, _ in rows], dtype=float)
    positive = np.array([kind for _, kind in rows])
    pairs = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high in scores[positive]
        for low in scores[~positive]
    ]
    expected = sum(pairs) / len(pairs) if pairs else None
    assert auc(scores, positive) == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=5, max_size=60))
def test_the_curve_is_the_exact_one(outcomes: list[tuple[bool, bool]]):
    weak = np.array([each for each, _ in outcomes], dtype=float)
    strong = np.array([each for _, each in outcomes], dtype=float)
    gaps = strong - weak
    assume(gaps.sum() > 0)
    figures = curve_figures(-np.arange(len(gaps), dtype=float), weak, strong)  # ranks in the order given
    recovered = np.concatenate([[0.0], np.cumsum(gaps)]) / gaps.sum()
    share = np.arange(len(recovered)) / len(gaps)
    assert figures.apgr == pytest.approx(np.trapezoid(recovered, share))
    assert figures.cpt80 == pytest.approx(100 * share[np.argmax(recovered >= 0.8)])
