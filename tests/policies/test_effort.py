"""How hard a model shall think: the client's word, else off where thinking would not pay."""

import pytest

from policies.decision import decide
from policies.effort import ROOM_TO_THINK
from policies.errors import ThinkingConflict
from policies.types import Ask, Decision, Effort, Hardness, Mode, ModelFacts, Routing, Tenant

THINKING = {"flash": ModelFacts("flash", 64_000, thinks=True), "standard": ModelFacts("standard", 64_000)}
BOTH = {**THINKING, "standard": ModelFacts("standard", 64_000, thinks=True)}
NEITHER = {name: ModelFacts(name) for name in THINKING}
EASY, HARD = Hardness(0.1, "chat"), Hardness(0.9, "chat")
ACME = Tenant("acme")


def run(
    ask: Ask | None = None,
    hardness: Hardness | None = EASY,
    *,
    models: dict[str, ModelFacts] = THINKING,
    tenant: Tenant = ACME,
) -> Decision:
    """Decide with a cut in the middle."""
    return decide(ask or Ask("auto", 10), hardness, tenant, models, cut=0.5)


def test_an_easy_prompt_is_answered_without_thinking():
    decision = run()
    assert (decision.model, decision.effort) == ("flash", Effort.OFF)
    assert decision.trace[-1] == "effort:off, as the prompt is easy"
    assert decision.reason.startswith("complexity:")


def test_a_hard_prompt_is_left_to_the_models_own_measure_on_its_fallback_too():
    decision = run(hardness=HARD, models=BOTH)
    assert (decision.model, decision.fallbacks, decision.effort) == ("standard", ("flash",), None)


def test_a_model_that_was_named_thinks_as_it_is_used_to():
    assert run(Ask("flash", 10)).effort is None
    always_flash = Tenant("acme", routing=Routing(mode=Mode.FLASH))
    assert run(hardness=None, tenant=always_flash).effort is None


def test_a_domain_that_sends_an_easy_prompt_to_standard_leaves_its_thinking_on():
    tenant = Tenant("acme", routing=Routing(standard_domains=frozenset({"legal"})))
    decision = run(hardness=Hardness(0.1, "legal"), models=BOTH, tenant=tenant)
    assert (decision.model, decision.effort) == ("standard", None)


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("model", ["auto", "flash"])
def test_what_the_client_asks_for_is_done(model: str, effort: Effort):
    ask = Ask(model, 10, max_output_tokens=5, effort=effort)
    decision = run(ask)
    assert decision.effort is effort
    assert decision.trace[-1] == f"effort:{effort}, as asked"


@pytest.mark.parametrize("limit", [1, ROOM_TO_THINK - 1])
@pytest.mark.parametrize("model", ["auto", "flash"])
def test_few_output_tokens_are_left_for_the_answer(model: str, limit: int):
    decision = run(Ask(model, 10, max_output_tokens=limit), HARD, models=BOTH)
    assert decision.effort is Effort.OFF
    assert str(limit) in decision.trace[-1]
    assert run(Ask("flash", 10, max_output_tokens=ROOM_TO_THINK)).effort is None


def test_the_tenants_cap_counts_as_a_limit_too():
    capped = Tenant("acme", max_output_tokens=100)
    assert run(Ask("flash", 10), tenant=capped).effort is Effort.OFF
    assert run(Ask("flash", 10, max_output_tokens=9000), tenant=capped).effort is Effort.OFF


def test_a_forced_tool_is_called_without_thinking():
    decision = run(Ask("flash", 10, tool_forced=True))
    assert decision.effort is Effort.OFF
    assert "tool_choice" in decision.trace[-1]


def test_thinking_and_a_forced_tool_exclude_each_other():
    both = Ask("flash", 10, effort=Effort.LOW, tool_forced=True)
    with pytest.raises(ThinkingConflict, match=r"'flash'.*'auto'.*'disabled'"):
        run(both)
    assert run(Ask("flash", 10, effort=Effort.OFF, tool_forced=True)).effort is Effort.OFF
    assert run(Ask("standard", 10, effort=Effort.LOW, tool_forced=True)).effort is Effort.LOW


@pytest.mark.parametrize("ask", [Ask("auto", 10), Ask("flash", 10, max_output_tokens=1, tool_forced=True)])
def test_where_no_model_is_told_how_to_think_nothing_is_decided(ask: Ask):
    decision = run(ask, models=NEITHER)
    assert decision.effort is None
    assert not any(step.startswith("effort") for step in decision.trace)
