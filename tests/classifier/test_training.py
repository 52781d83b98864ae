"""Training and leave-one-source-out evaluation, on made-up sources."""

from pathlib import Path

import pytest

from classifier.dataset import load_sources
from classifier.errors import DatasetInvalid
from classifier.evaluation import evaluate
from classifier.model import Classifier
from classifier.release import train
from classifier.training import distinct, featurise
from classifier.weights_file import ARRAYS_NAME, CARD_NAME


def test_the_same_data_gives_the_same_bytes(labelled: Path, tmp_path: Path):
    for name in ("one", "two"):
        train(labelled, tmp_path / name)
    for name in (ARRAYS_NAME, CARD_NAME):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_figures_in_the_card_are_those_that_eval_computes(labelled: Path, tmp_path: Path):
    card = train(labelled, tmp_path)
    assert card.figures == evaluate(load_sources(labelled)).as_json()


def test_freshly_trained_weights_serve(labelled: Path, tmp_path: Path):
    card = train(labelled, tmp_path)
    loaded = Classifier.load(tmp_path)
    assert loaded.card == card
    assert [source["name"] for source in card.sources[:3]] == ["alpha", "beta", "gamma"]


def test_every_source_is_measured_beside_length_and_a_random_order(labelled: Path):
    names: list[str] = []
    report = evaluate(load_sources(labelled), names.append)
    assert names == list(report.sources) == ["alpha", "beta", "gamma"]
    for source in report.sources.values():
        assert source.pairs == 1  # the panel is not a real pair
        assert source.rows == 60
    assert report.macro.score.apgr > 0.6 > report.macro.random.apgr
    assert report.macro.score.weak_failure_auc is not None


def test_one_source_cannot_be_left_out(labelled: Path):
    with pytest.raises(DatasetInvalid, match="two sources"):
        evaluate(load_sources(labelled)[:1])


def test_nothing_is_written_when_training_is_refused(tmp_path: Path):
    with pytest.raises(DatasetInvalid):
        train(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_near_duplicates_are_trained_on_once_and_never_when_they_are_measured(labelled: Path):
    one, two, three = map(featurise, load_sources(labelled))
    assert [len(each.keys) for each in distinct([one, two, one])] == [60, 60]
    kept = distinct([two, three], unlike=two.keys[:10])
    assert [len(each.keys) for each in kept] == [50, 60]
    assert len(kept[0].prompts.values) == len(kept[0].terms) == len(kept[0].weak_fails) == 50
