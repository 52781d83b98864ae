"""Which pools a request is for."""

import pytest

from backends.pools.choice import LONG_OUTPUT, PoolState, Work, choose_pool

LATENCY = PoolState("latency", is_latency=True, speculates=True, context=32768)
THROUGHPUT = PoolState("throughput")
POOLS = (LATENCY, THROUGHPUT)
CHAT = Work(is_chat=True, input_tokens=100)


def first(work: Work, *pools: PoolState) -> tuple[str, str]:
    """Return the first pool, and why it is."""
    choice = choose_pool(pools or POOLS, work)
    return choice.order[0][0], choice.reason


def test_a_chat_is_for_the_latency_pool_and_may_go_to_the_other():
    assert choose_pool(POOLS, CHAT).order == (("latency",), ("throughput",))


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (Work(is_chat=False), "batch"),
        (Work(is_chat=True, output_tokens=LONG_OUTPUT + 1), "long"),
        (Work(is_chat=True, input_tokens=32000, output_tokens=1000), "unfit"),
        (Work(is_chat=True, may_speculate=False), "off"),
        (Work(is_chat=True, home="throughput"), "home"),
    ],
)
def test_what_is_not_for_the_latency_pool_says_why(work: Work, reason: str):
    assert first(work) == ("throughput", reason)


def test_a_chat_of_the_usual_length_is_for_the_latency_pool():
    assert first(Work(is_chat=True, output_tokens=LONG_OUTPUT)) == ("latency", "chat")


def test_a_pool_that_a_request_may_not_use_is_not_even_the_last_resort():
    assert choose_pool(POOLS, Work(is_chat=True, may_speculate=False)).order == (("throughput",),)
    assert choose_pool(POOLS, Work(is_chat=True, input_tokens=40000)).order == (("throughput",),)


def test_a_tenant_without_speculation_is_served_where_there_is_nothing_else():
    assert choose_pool((LATENCY,), Work(is_chat=True, may_speculate=False)).order == (("latency",),)


def test_a_conversation_stays_in_the_latency_pool():
    assert first(Work(is_chat=True, home="latency")) == ("latency", "home")


def test_a_pool_whose_drafts_are_rejected_is_the_last_resort():
    rejected = PoolState("latency", is_latency=True, speculates=True, rejected=True)
    assert choose_pool((rejected, THROUGHPUT), CHAT).order == (("throughput",), ("latency",))
    assert first(CHAT, rejected, THROUGHPUT) == ("throughput", "rejected")


def test_pools_without_a_role_are_as_good_as_each_other():
    assert choose_pool((THROUGHPUT, PoolState("other")), CHAT).order == (("throughput", "other"),)


def test_a_home_that_is_no_longer_configured_is_forgotten():
    assert first(Work(is_chat=True, home="gone")) == ("latency", "chat")
