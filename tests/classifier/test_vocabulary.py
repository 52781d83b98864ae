"""The terms that pairs share: which are kept, and what a prompt is as them."""

import numpy as np
import pytest

from classifier.features import FEATURE_NAMES
from classifier.inputs import WITHIN_TASKS, fit_scale
from classifier.vocabulary import MAX_TERMS, Vocabulary, shared_terms


def test_what_names_a_prompt_or_a_number_is_not_kept():
    prompts = [{"invoice", "4711", "smith" if at < 2 else "total", "x" * 25} for at in range(5)]
    assert shared_terms(prompts).terms == ("invoice", "total")


def test_terms_of_most_prompts_are_kept_in_an_order_that_does_not_hang_on_that_of_sets():
    prompts = [{f"word{at}" for at in range(number, MAX_TERMS + 40)} for number in range(MAX_TERMS + 20)]
    kept = shared_terms(prompts).terms
    assert len(kept) == MAX_TERMS
    assert kept == shared_terms(prompts[::-1]).terms
    assert "word0" not in kept


def test_a_prompt_is_a_row_of_length_one_or_of_zeros():
    rows = Vocabulary(("法", "law", "court")).rows([{"law", "法", "unknown"}, {"unknown"}, set()])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1.0, 0.0, 0.0])
    assert rows[0] == pytest.approx([0.5**0.5, 0.5**0.5, 0.0])


def test_features_are_measured_by_how_far_prompts_of_one_task_differ():
    assert set(WITHIN_TASKS) <= set(FEATURE_NAMES)
    values = np.zeros((50, len(FEATURE_NAMES)))
    words, depth = FEATURE_NAMES.index("words"), FEATURE_NAMES.index("depth")
    values[:, words] = np.linspace(0.0, 100.0, 50)
    values[:, depth] = np.linspace(0.0, 8.0, 50)
    factor = fit_scale(values).factor * np.sqrt(len(FEATURE_NAMES))
    assert factor[words] == pytest.approx(1.0 / WITHIN_TASKS["words"])
    assert factor[depth] == pytest.approx(1.0 / values[:, depth].std())
    assert np.count_nonzero(factor) == 2
