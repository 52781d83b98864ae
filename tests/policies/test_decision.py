"""The decision, rule by rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.decision import decide, needs_estimate
from policies.errors import InputTooLong, UnknownModel
from policies.types import (
    Ask,
    ContextRule,
    Decision,
    Hardness,
    LossBound,
    Mode,
    ModelFacts,
    Overflow,
    Routing,
    Tenant,
)

MODELS = {"flash": ModelFacts("flash", 1000), "standard": ModelFacts("standard", 4000)}
EASY = Hardness(0.1, "chat")
HARD = Hardness(0.9, "chat")


def run(
    ask: Ask | None = None,
    hardness: Hardness | None = EASY,
    tenant: Tenant | None = None,
    cut: float = 0.5,
    bound: LossBound | None = None,
) -> Decision:
    """Decide with defaults for what a test does not care about."""
    return decide(ask or Ask("auto", 10), hardness, tenant or Tenant("acme"), MODELS, cut=cut, bound=bound)


def with_routing(**settings: object) -> Tenant:
    """Return a tenant with these routing settings."""
    return Tenant("acme", routing=Routing(**settings))  # pyright: ignore[reportArgumentType]


def test_a_score_above_the_cut_goes_to_standard_and_one_at_it_to_flash():
    assert run(hardness=HARD).model == "standard"
    assert run(hardness=Hardness(0.5, "chat")).model == "flash"
    assert run(hardness=HARD).reason == "complexity:0.900>0.500"


@pytest.mark.parametrize(
    ("bound", "model", "reason"),
    [
        (LossBound(0.42, "1,200 pairs"), "flash", "quality:0.310<=0.420"),
        (LossBound(0.25, "1,200 pairs"), "standard", "quality:0.310>0.250"),
        (LossBound(-1.0, "no cut keeps a loss of 0.02"), "standard", "quality:no cut keeps a loss of 0.02"),
        (LossBound(None, "120 of 167 pairs"), "flash", "complexity:0.310<=0.500 (quality: 120 of 167 pairs)"),
        (None, "flash", "complexity:0.310<=0.500"),
    ],
)
def test_a_loss_that_the_tenant_allows_decides_once_it_is_proven_and_the_share_until_then(
    bound: LossBound | None, model: str, reason: str
):
    decision = run(hardness=Hardness(0.31, "chat"), bound=bound)
    assert (decision.model, decision.reason) == (model, reason)
    assert decision.rule == reason.partition(":")[0]


def test_what_is_proven_of_a_loss_does_not_lift_other_rules():
    bound = LossBound(1.0, "1,200 pairs")
    tenant = with_routing(standard_domains=frozenset({"legal"}), max_quality_loss=0.02)
    assert run(hardness=Hardness(0.0, "legal"), tenant=tenant, bound=bound).reason == "domain:legal"
    assert run(Ask("standard", 10), tenant=tenant, bound=bound).reason == "forced:standard"


def test_a_model_that_was_named_is_taken_whatever_the_score():
    assert run(Ask("flash", 10), HARD).reason == "forced:flash"
    assert run(Ask("standard", 10), EASY).reason == "forced:standard"


def test_the_tenants_mode_comes_before_the_score():
    tenant = with_routing(mode=Mode.STANDARD)
    assert run(tenant=tenant).reason == "tenant-mode:standard"
    assert not needs_estimate(Ask("auto", 10), tenant, MODELS)
    assert run(Ask("flash", 10), tenant=tenant).model == "flash"


def test_a_risk_domain_goes_to_standard_however_easy_it_looks():
    tenant = with_routing(standard_domains=frozenset({"legal"}))
    assert run(hardness=Hardness(0.0, "legal"), tenant=tenant).reason == "domain:legal"
    assert run(hardness=Hardness(0.0, "medical"), tenant=tenant).model == "flash"


def test_domains_are_spoken_of_where_a_tenant_has_a_rule_of_them():
    tenant = with_routing(standard_domains=frozenset({"legal"}))
    assert "domain:chat is not a standard domain" in run(hardness=EASY, tenant=tenant).trace
    assert not any("domain" in line for line in run(hardness=EASY).trace)


@pytest.mark.parametrize("text", ["About the MERGER.", "关于合并的问题"])
def test_a_keyword_goes_to_standard(text: str):
    tenant = with_routing(standard_keywords=("merger", "合并"))
    assert run(Ask("auto", 10, text=text), tenant=tenant).reason.startswith("keyword:")
    assert run(Ask("auto", 10, text="nothing"), tenant=tenant).model == "flash"


def bounded(on_overflow: Overflow) -> Tenant:
    """Return a tenant that may send 100 tokens."""
    return Tenant("acme", context=ContextRule(100, on_overflow))


def test_the_context_rule_sends_to_standard_or_cuts_or_refuses():
    long = Ask("auto", 101)
    assert run(long, tenant=bounded("standard")).reason == "context:101>100"
    cut_down = run(long, tenant=bounded("truncate"))
    assert (cut_down.model, cut_down.keep_input_tokens) == ("flash", 100)
    with pytest.raises(InputTooLong, match="at most 100"):
        run(long, tenant=bounded("reject"))
    assert run(Ask("auto", 100), tenant=bounded("reject")).model == "flash"


def test_an_input_that_does_not_fit_flash_goes_to_standard():
    decision = run(Ask("auto", 900, max_output_tokens=200))
    assert decision.model == "standard"
    assert decision.reason.startswith("context:")
    assert any(step.startswith("complexity:") for step in decision.trace)


def test_the_output_cap_is_sent_only_where_the_client_is_over_it_or_silent():
    tenant = Tenant("acme", max_output_tokens=50)
    assert run(Ask("auto", 10, 51), tenant=tenant).max_output_tokens == 50
    assert run(Ask("auto", 10), tenant=tenant).max_output_tokens == 50
    assert run(Ask("auto", 10, 50), tenant=tenant).max_output_tokens is None


def test_fallbacks_are_the_others_that_the_tenant_may_use_and_that_fit():
    assert run().fallbacks == ("standard",)
    assert run(hardness=HARD).fallbacks == ("flash",)
    assert run(tenant=Tenant("acme", models=frozenset({"flash"}))).fallbacks == ()
    assert run(Ask("standard", 3000)).fallbacks == ()
    assert run(tenant=with_routing(fallback=())).fallbacks == ()


def test_a_model_that_may_not_be_used_is_refused_by_name():
    flash_only = Tenant("acme", models=frozenset({"flash"}))
    with pytest.raises(UnknownModel, match="may not use the model 'standard'"):
        run(Ask("standard", 10), tenant=flash_only)
    with pytest.raises(UnknownModel, match="'gpt-9' does not exist"):
        run(Ask("gpt-9", 10))
    assert run(hardness=HARD, tenant=flash_only).reason == "only-allowed:flash"
    with pytest.raises(UnknownModel, match="no choice"):
        run(tenant=Tenant("acme", models=frozenset()))


@given(
    score=st.floats(0, 1),
    cut=st.floats(-1, 1),
    tokens=st.integers(0, 5000),
    wanted=st.none() | st.integers(1, 5000),
    allowed=st.none() | st.frozensets(st.sampled_from(["flash", "standard"]), min_size=1),
    on_overflow=st.sampled_from(["standard", "truncate"]),
)
def test_whatever_comes_the_model_and_its_fallbacks_are_ones_the_tenant_may_use(
    score: float,
    cut: float,
    tokens: int,
    wanted: int | None,
    allowed: frozenset[str] | None,
    on_overflow: Overflow,
):
    tenant = Tenant("acme", models=allowed, context=ContextRule(100, on_overflow), max_output_tokens=10)
    decision = run(Ask("auto", tokens, wanted), Hardness(score, "chat"), tenant, cut)
    assert all(tenant.may_use(name) for name in (decision.model, *decision.fallbacks))
    assert decision.model not in decision.fallbacks
    assert decision.trace[-1] == decision.reason
