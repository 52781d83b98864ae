"""A switch of models pays for the warm prefix that it throws away."""

import pytest

from policies.types import FLASH, STANDARD, Decision
from policies.weighing import Candidate, weigh

EASY = Decision(FLASH, (STANDARD,), "complexity:0.100<=0.500", ("complexity:0.100<=0.500",))


def candidates(flash: float, standard: float) -> list[Candidate]:
    return [
        Candidate(FLASH, "main", "flash/main/0", flash, 2.5, 0),
        Candidate(STANDARD, "main", "standard/main/1", standard, 0.2, 81920),
    ]


def test_standard_stays_where_its_warm_prefix_makes_it_cheaper_and_flash_stands_by():
    decision = weigh(EASY, candidates(0.0130, 0.0021))
    assert (decision.model, decision.fallbacks) == (STANDARD, (FLASH,))
    assert decision.reason == "prefix:standard holds 81920 tokens, 0.002100<0.013000 USD"
    assert any("flash/main/0 0.013000 USD, first token in 2.50 s" in line for line in decision.trace)


@pytest.mark.parametrize("standard", [0.0130, 0.5])
def test_flash_answers_where_it_costs_no_more(standard: float):
    decision = weigh(EASY, candidates(0.0130, standard))
    assert (decision.model, decision.fallbacks, decision.reason) == (FLASH, (STANDARD,), EASY.reason)
    assert any("standard/main/1" in line for line in decision.trace)


@pytest.mark.parametrize(
    "decision",
    [
        Decision(FLASH, (STANDARD,), "forced:flash", ()),
        Decision(FLASH, (), "complexity:0.100<=0.500", ()),
        Decision(STANDARD, (), "domain:legal", ()),
    ],
)
def test_what_a_rule_decided_is_not_weighed(decision: Decision):
    assert weigh(decision, candidates(0.0130, 0.0021)) is decision


def test_a_model_without_a_replica_is_not_weighed():
    assert weigh(EASY, candidates(0.0130, 0.0021)[:1]).model == FLASH
