"""From features to a rank in the reference traffic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from classifier import weights_file
from classifier.features import CONTEXT_FEATURES, FEATURE_NAMES
from classifier.lsa import DIMENSIONS, Lsa
from classifier.model import SHIPPED, Classifier, task_name
from classifier.reference_prompts import load_reference_prompts
from classifier.scoring import Head, Prior, Ranker, Standard, reference_cut
from classifier.types import Conversation, Turn

SIZE = len(FEATURE_NAMES)
FLAT = Head((0.0,) * SIZE, 0.0)
LENGTH_ONLY = Prior(
    ranker=Ranker(FLAT, FLAT, FLAT, FLAT, gain=Standard(0.25, 1.0), length=Standard(0.0, 1.0)),
    quantiles=(1.0, 4.0, 5.0, 9.0),
    centre=(0.0,) * SIZE,
    lsa=Lsa(terms=(), rarities=(), rows=b"", scales=(1.0,) * DIMENSIONS, gains=(), neutral=6.0),
)


def with_length(value: float) -> list[float]:
    return [value if name == "chars" else 0.0 for name in FEATURE_NAMES]


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_higher_raw_score_never_ranks_lower(low: float, high: float):
    low, high = sorted((low, high))
    assert LENGTH_ONLY.score(with_length(low)) <= LENGTH_ONLY.score(with_length(high))


@given(st.floats(-1e6, 1e6))
def test_scores_lie_in_zero_to_one(value: float):
    assert 0.0 <= LENGTH_ONLY.score(with_length(value)) <= 1.0


def test_order_is_kept_beyond_the_reference():
    scores = [LENGTH_ONLY.score(with_length(value)) for value in (-9.0, -8.0, 12.0, 13.0)]
    assert scores == sorted(set(scores))


def test_the_cut_for_a_share_is_the_quantile_of_the_reference():
    middle = LENGTH_ONLY.quantiles[1]
    raw = LENGTH_ONLY.ranker.raw(with_length(0.0))
    assert LENGTH_ONLY.score(with_length(middle - raw)) == pytest.approx(reference_cut(2 / 3), abs=1e-9)


def test_the_cut_falls_as_the_share_grows():
    cuts = [reference_cut(share / 20) for share in range(21)]
    assert cuts == sorted(cuts, reverse=True)


@pytest.mark.parametrize("share", [-0.01, 1.01, float("nan")])
def test_a_share_outside_zero_to_one_is_refused(share: float):
    with pytest.raises(ValueError, match="share"):
        reference_cut(share)


def test_no_feature_of_context_or_language_is_weighed_by_a_head():
    prior, _ = weights_file.load(SHIPPED)
    context = [FEATURE_NAMES.index(name) for name in CONTEXT_FEATURES]
    ranker = prior.ranker
    for head in (ranker.weak_fails, ranker.strong_succeeds, ranker.demanding, ranker.failure):
        assert [head.weights[at] for at in context] == [0.0] * len(context)


def test_contributions_name_every_feature_and_vanish_at_the_median(classifier: Classifier):
    estimate = classifier.estimate(Conversation(turns=[Turn("user", "Prove that 7 is prime.")]))
    moved = classifier.contributions(estimate.features)
    assert tuple(moved) == FEATURE_NAMES
    assert moved["prove"] > 0
    prior, _ = weights_file.load(SHIPPED)
    assert set(prior.contributions(prior.centre).values()) == {0.0}


def test_the_shipped_reference_sends_everyday_prompts_to_flash(classifier: Classifier):
    def share_above(texts: tuple[str, ...]) -> float:
        scores = [classifier.estimate(Conversation(turns=[Turn("user", text)])).score for text in texts]
        return sum(score > classifier.reference_cut(0.35) for score in scores) / len(scores)

    prompts = load_reference_prompts()
    assert share_above(prompts.everyday) < 0.05
    assert share_above(prompts.demanding) > 0.75


def test_an_estimate_says_what_it_was_made_from(classifier: Classifier):
    conversation = Conversation(turns=[Turn("user", "Hi!")], tool_count=3, attachments=1, depth=5)
    estimate = classifier.estimate(conversation)
    assert estimate.p_flash_ok is None
    assert estimate.model_version == classifier.card.version
    assert tuple(estimate.features) == FEATURE_NAMES
    more = classifier.estimate(replace(conversation, tool_count=4))
    assert more.features["tools"] > estimate.features["tools"]


def test_a_conversation_without_turns_gets_an_estimate(classifier: Classifier):
    assert classifier.estimate(Conversation(turns=[])).score < classifier.reference_cut(0.35)


def test_a_task_is_named_by_its_system_prompt_and_tools():
    assert task_name("", b"") == ""
    assert len(task_name("You are a bot.", b"")) == 16
    assert task_name("ab", b"c") != task_name("a", b"bc")
    assert task_name("same", b"[]") == task_name("same", b"[]")
    assert task_name("\ud800", b"") != ""


def test_a_task_is_told_apart_by_key_and_endpoint_too():
    names = {
        task_name("same", b"", key, endpoint)
        for key, endpoint in (("", ""), ("a", ""), ("", "a"), ("a", "b"), ("ab", ""))
    }
    assert len(names) == 5
    assert task_name("", b"", "key", "endpoint") == ""


def test_a_caller_may_name_the_task(classifier: Classifier):
    turns = [Turn("user", "Hi!")]
    assert classifier.estimate(Conversation(turns=turns, system="x", task="greetings")).task == "greetings"
    assert classifier.estimate(Conversation(turns=turns, system="x", key="k")).task == task_name(
        "x", b"", "k"
    )
