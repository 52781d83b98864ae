"""The bench of adaptation: what it draws, and what it says."""

from pathlib import Path
from typing import Any

import pytest

from classifier import adapt_curve
from classifier.adapt_curve import adapt_curves, five_fold, macro
from classifier.dataset import load_sources
from classifier.measured import load_measurable
from classifier.model import Classifier
from tests.classifier.conftest import rows, write_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("alpha", "beta"):
        content: list[dict[str, Any]] = [
            row | {"pkey": f"{row['pkey']}-{part}", "prompt": f"{row['prompt']} ({part})"}
            for part in range(4)
            for row in rows(name, seed=1)
        ]
        write_source(tmp_path / f"{name}.parquet", content)
    return tmp_path


def test_figures_get_better_with_pairs_and_are_the_same_each_time(
    folder: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(adapt_curve, "MIN_PROMPTS", 200)
    sources = load_measurable(folder)
    one, other = (adapt_curves(classifier.prior, sources, sizes=(0, 100), draws=2) for _ in range(2))
    assert one == other
    assert set(one) == {"alpha", "beta"}
    mean = macro(one)
    assert mean[100].apgr > 0.6
    assert mean[0].ece is None
    assert mean[100].ece is not None
    assert mean[100].weak_failure_auc is not None
    assert mean[100].weak_failure_auc > 0.6


def test_sources_with_few_prompts_and_sizes_that_leave_little_to_test_on_are_left_out(
    folder: Path, classifier: Classifier, monkeypatch: pytest.MonkeyPatch
):
    assert not adapt_curves(classifier.prior, load_measurable(folder), sizes=(0,))
    monkeypatch.setattr(adapt_curve, "MIN_PROMPTS", 200)
    found = adapt_curves(classifier.prior, load_measurable(folder), sizes=(0, 200), draws=1)
    assert set(found["alpha"]) == {0}


def test_five_folds_train_without_the_fold_and_the_prior_without_the_source(
    folder: Path, labelled: Path, classifier: Classifier
):
    sources = load_measurable(folder)
    one = five_fold(classifier.prior, sources, repeats=1)
    assert set(one) == {"alpha", "beta"}
    assert min(one.values()) > 0.6
    other = five_fold(classifier.prior, sources, load_sources(labelled), repeats=1)
    assert min(other.values()) > 0.6
