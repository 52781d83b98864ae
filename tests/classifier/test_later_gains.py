"""What tasks gained after a version was made: what it moves, and what it leaves alone."""

from dataclasses import replace

import pytest

from classifier.adaptation import adapt, expected, observe
from classifier.adapted import Adapted
from classifier.adapted_scorer import AdaptedScorer
from classifier.features import FEATURE_NAMES
from classifier.model import Classifier
from classifier.prior_view import PriorView
from classifier.reading import read
from classifier.surface import CLUSTER
from classifier.task_gains import TaskGains
from classifier.types import Conversation, Turn
from tests.classifier.test_adaptation import pairs_of

PROMPTS = ("Translate: apple", "Review the contract of the river company", "Prove that 7 is a prime number.")


def asked(prompt: str, task: str = "") -> Conversation:
    return Conversation(turns=[Turn("user", prompt)], task=task)


def of_pairs(classifier: Classifier, count: int, seed: int = 0) -> TaskGains:
    pairs = pairs_of(count, seed)
    return TaskGains().added(classifier.excess(asked(pair.prompt, pair.task), pair.gain) for pair in pairs)


@pytest.fixture(scope="module")
def with_tasks(classifier: Classifier) -> Classifier:
    return classifier.with_adapted(adapt(classifier.prior, pairs_of(100)), "tasks")


@pytest.fixture(scope="module")
def clustered(classifier: Classifier) -> Adapted:
    return adapt(classifier.prior, pairs_of(100, tasks=False))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_task_that_gained_more_is_scored_higher_and_others_as_before(classifier: Classifier, prompt: str):
    moved = classifier.with_gains(of_pairs(classifier, 60))
    hard, easy = (moved.estimate(asked(prompt, task)).score for task in ("contract", "translate"))
    before = classifier.estimate(asked(prompt, "contract")).score
    assert easy < before < hard
    for task in ("", "never seen"):
        assert moved.estimate(asked(prompt, task)) == classifier.estimate(asked(prompt, task))


def test_without_pairs_nothing_changes(classifier: Classifier, with_tasks: Classifier):
    for each in (classifier, with_tasks):
        for prompt in PROMPTS:
            one = asked(prompt, "contract")
            assert each.with_gains(TaskGains()).estimate(one) == each.estimate(one)


def test_gains_that_are_given_again_replace_the_earlier(classifier: Classifier, with_tasks: Classifier):
    one = asked(PROMPTS[0], "contract")
    for each in (classifier, with_tasks):
        gains = of_pairs(each, 60)
        twice = each.with_gains(of_pairs(each, 30, seed=5)).with_gains(gains)
        assert twice.estimate(one) == each.with_gains(gains).estimate(one)


def test_what_moved_a_score_names_the_task(classifier: Classifier):
    moved = classifier.with_gains(of_pairs(classifier, 60))
    one = asked(PROMPTS[0], "contract")
    parts = moved.contributions(moved.estimate(one).features, one)
    assert tuple(parts) == (*FEATURE_NAMES, "task")
    assert parts["task"] > 0


def test_later_pairs_add_to_those_that_a_version_was_fitted_to(with_tasks: Classifier):
    """The sum of both counters, as if the later pairs had been among the first."""
    assert with_tasks.adapted is not None
    later = TaskGains().added([("contract", -0.5)] * 40 + [("new", 0.8)] * 40)
    moved = with_tasks.with_gains(later)
    lower, higher, other = (
        moved.estimate(asked(PROMPTS[1], task)).score - with_tasks.estimate(asked(PROMPTS[1], task)).score
        for task in ("contract", "new", "translate")
    )
    assert lower < 0.0 < higher
    assert abs(other) < min(-lower, higher) / 2.0
    assert moved.estimate(asked(PROMPTS[0])).p_flash_ok == with_tasks.estimate(asked(PROMPTS[0])).p_flash_ok


def test_an_excess_is_the_gain_less_what_the_version_expects_without_the_task(
    classifier: Classifier, with_tasks: Classifier
):
    adapted = with_tasks.adapted
    assert adapted is not None
    pairs = pairs_of(20, seed=3)
    evidence = observe(PriorView(classifier.prior), [replace(pair, task="unknown") for pair in pairs])
    gains, _ = expected(adapted.model, evidence)
    for at, pair in enumerate(pairs):
        task, excess = with_tasks.excess(asked(pair.prompt, pair.task), pair.gain)
        assert task == pair.task
        assert excess == pytest.approx(pair.gain - gains[at] + adapted.model.gain.tasks.mean, abs=1e-6)


def test_a_version_without_tasks_counts_pairs_without_one_to_their_cluster(
    classifier: Classifier, clustered: Adapted
):
    version = classifier.with_adapted(clustered, "clusters")
    assert version.excess(asked(PROMPTS[0]), 0.0)[0].startswith(CLUSTER)
    assert version.excess(asked(PROMPTS[0], "named"), 0.0)[0] == "named"


def test_a_version_without_tasks_lets_later_ones_speak(classifier: Classifier, clustered: Adapted):
    """Its own shrinkage is that of clusters, under which forty pairs of a task would move nothing."""
    scorer = AdaptedScorer(classifier.prior, clustered)
    later = TaskGains().added([("hard", 0.4), ("hard", 0.5), ("easy", -0.4), ("easy", -0.5)] * 20)
    moved = scorer.with_gains(later)
    values = classifier.estimate(asked(PROMPTS[0])).values
    hard, easy = (moved.estimate(values, read(PROMPTS[0]), task)[0] for task in ("hard", "easy"))
    assert hard > easy + 0.2
