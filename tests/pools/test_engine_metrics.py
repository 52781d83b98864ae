"""What engines say of themselves."""

import pytest

from backends.pools.engine_metrics import FRESH_SECONDS, Acceptance, EngineCounts, EngineWord, read_counts
from backends.types import EngineFlavour

VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="a } b"} 0.75
vllm:spec_decode_num_drafts_total{engine="0"} 208.0
vllm:spec_decode_num_drafts_created{engine="0"} 1.796026138692962e+09
vllm:spec_decode_num_draft_tokens_total{engine="0"} 1.04e+03
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 195.0 1796026138000
process_start_time_seconds 1.7e9
"""


def test_the_page_of_vllm_is_read_over_all_its_cores():
    assert read_counts(VLLM, EngineFlavour.VLLM) == EngineCounts(4.0, 2.0, 0.75, 208.0, 1040.0, 195.0, 1.7e9)


def test_the_page_of_llama_cpp_is_read():
    page = b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:n_decode_total 349\n"
    assert read_counts(page, EngineFlavour.LLAMA_CPP) == EngineCounts(running=2.0, waiting=1.0)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"\xff\xfe",
        b"<html>no metrics</html>",
        b"vllm:num_requests_running",
        b"vllm:num_requests_running NaN",
        b"vllm:num_requests_running -1",
        b"vllm:kv_cache_usage_perc{ x",
    ],
)
def test_a_page_that_cannot_be_read_says_nothing(page: bytes):
    assert read_counts(page, EngineFlavour.VLLM) == EngineCounts()


def test_an_unknown_engine_says_nothing():
    assert read_counts(VLLM, EngineFlavour.GENERIC) == EngineCounts()


def test_what_others_sent_counts_as_long_as_the_word_is_fresh():
    word = EngineWord(EngineCounts(running=5.0, waiting=2.0), at=100.0, in_flight=3)
    assert word.others(101.0) == 4.0
    assert word.others(100.0 + FRESH_SECONDS + 1.0) == 0.0


def test_the_use_of_a_cache_counts_as_long_as_the_word_is_fresh():
    word = EngineWord(EngineCounts(kv_use=0.5), at=100.0, in_flight=0)
    assert (word.kv_use(101.0), word.kv_use(100.0 + FRESH_SECONDS + 1.0)) == (0.5, 0.0)


def test_an_engine_that_lags_behind_us_has_no_negative_load():
    assert EngineWord(EngineCounts(running=1.0), at=0.0, in_flight=3).others(0.0) == 0.0


def counted(drafts: float, accepted: float) -> EngineCounts:
    return EngineCounts(drafts=drafts, drafted=5 * drafts, accepted=accepted)


def test_acceptance_is_unknown_until_there_are_enough_drafts():
    acceptance = Acceptance()
    acceptance.saw(counted(10, 20))
    assert acceptance.rate is None
    acceptance.saw(counted(100, 200))
    assert acceptance.rate == pytest.approx(0.4)
    assert acceptance.tokens_a_step == pytest.approx(3.0)


def test_acceptance_follows_what_is_drafted_now():
    acceptance = Acceptance()
    acceptance.saw(counted(1000, 4000))
    for step in range(1, 21):
        acceptance.saw(counted(1000 + 100 * step, 4000))
    assert acceptance.rate is not None
    assert acceptance.rate < 0.02


def test_an_engine_that_started_anew_counts_from_nothing():
    acceptance = Acceptance()
    acceptance.saw(counted(1000, 0))
    acceptance.saw(counted(600, 1800))
    assert acceptance.tokens_a_step == pytest.approx(4.0)


def test_an_engine_without_drafts_has_no_acceptance():
    acceptance = Acceptance()
    acceptance.saw(EngineCounts(running=1.0))
    assert (acceptance.rate, acceptance.tokens_a_step) == (None, None)
