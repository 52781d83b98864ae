"""GSM on a real vLLM with SmolLM2: what is reused changes nothing but the time it takes.

Every test has a salt of its own, so that none reuses what another kept. Logprobs are compared bit by bit
where vLLM computes the rest of the prompt in the same steps with and without reuse; else the order of
additions differs, and they are compared to 1e-3.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.gsm_server import BLOCK, Answer
from tests.gsm.engine.conftest import DISK_PAGES, HOST_PAGES, PAGE_BYTES, Engine

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(1800)]

GROUP = 512


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what the server does in its own time."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in two minutes"
        time.sleep(0.1)


def same(answer: Answer, other: Answer) -> bool:
    return (answer.text, answer.logprobs) == (other.text, other.logprobs)


def near(answer: Answer, other: Answer) -> bool:
    return answer.text == other.text and answer.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_groups_outlive_a_restart_and_damaged_files_are_computed_anew(engine: Engine) -> None:
    prompt = engine.material()[: 3 * GROUP + 60]
    other = engine.material()[4000 : 4000 + 2 * GROUP + 60]
    third = engine.material()[6000 : 6000 + 2 * GROUP + 60]
    before = set(engine.store.glob("*/*.page"))
    cold = engine.server.ask(prompt, cache_salt="restart")
    eventually(lambda: len(set(engine.store.glob("*/*.page")) - before) == 3 * GROUP // BLOCK)
    known = set(engine.store.glob("*/*.page"))
    damaged = engine.server.ask(other, cache_salt="restart")
    eventually(lambda: len(set(engine.store.glob("*/*.page")) - known) == 2 * GROUP // BLOCK)
    flipped = sorted(set(engine.store.glob("*/*.page")) - known)
    known = set(engine.store.glob("*/*.page"))
    cut = engine.server.ask(third, cache_salt="restart")
    eventually(lambda: len(set(engine.store.glob("*/*.page")) - known) == 2 * GROUP // BLOCK)
    shortened = sorted(set(engine.store.glob("*/*.page")) - known)
    engine.stop()

    for path in flipped:
        content = bytearray(path.read_bytes())
        content[-1000] ^= 1
        path.write_bytes(content)
    for path in shortened:
        path.write_bytes(path.read_bytes()[:-1])
    (engine.store / "00").mkdir(exist_ok=True)
    (engine.store / "00" / "notes.txt").write_text("not a page")
    (engine.store / "aside" / "17").write_text("left by a crash")
    server = engine.start()

    warm = server.ask(prompt, cache_salt="restart")
    assert warm.cached == 3 * GROUP
    assert same(warm, cold)
    assert server.metrics()['vllm:gsm_reused_tokens_total{tier="disk"}'] == 3 * GROUP
    assert same(server.ask(other, cache_salt="restart"), damaged)
    assert same(server.ask(third, cache_salt="restart"), cut)
    assert server.metrics()['vllm:gsm_skipped_files_total{reason="corrupt"}'] == len(shortened)
    assert server.metrics()['vllm:gsm_skipped_files_total{reason="foreign"}'] == 1
    assert "is not as it was written" in server.log
    assert not list((engine.store / "aside").iterdir())


def test_the_head_of_a_group_that_differs_is_reused_when_enough_of_it_is_the_same(engine: Engine) -> None:
    material = engine.material()
    kept = material[: 3 * GROUP]
    quarter = [*kept[: 3 * GROUP - BLOCK], *material[5000 : 5000 + BLOCK + 60]]
    half = [*kept[: 3 * GROUP - 2 * BLOCK], *material[5000 : 5000 + 2 * BLOCK + 60]]
    server = engine.server
    engines_own = server.ask(kept, cache_salt="head") and server.ask(quarter, cache_salt="head")
    cold_half = server.ask(half, cache_salt="another head")

    server.ask(kept, cache_salt="head, again")
    server.forget_engine_cache()
    reused = server.ask(quarter, cache_salt="head, again")
    server.forget_engine_cache()
    rebuilt = server.ask(half, cache_salt="head, again")

    assert engines_own.cached == reused.cached == 3 * GROUP - BLOCK
    assert same(reused, engines_own)
    assert rebuilt.cached == 2 * GROUP
    assert same(rebuilt, cold_half)


def test_another_salt_shares_nothing(engine: Engine) -> None:
    prompt = engine.material()[: 2 * GROUP + 60]
    server = engine.server

    mine = server.ask(prompt, cache_salt="mine")
    server.forget_engine_cache()
    yours = server.ask(prompt, cache_salt="yours")
    server.forget_engine_cache()
    mine_again = server.ask(prompt, cache_salt="mine")

    assert (mine.cached, yours.cached, mine_again.cached) == (0, 0, 2 * GROUP)
    assert same(mine, yours)
    assert same(mine, mine_again)


def test_answers_stay_the_same_under_eviction_and_what_is_pinned_stays(engine: Engine) -> None:
    material = engine.material()
    prompts = [material[start : start + 2 * GROUP + 60] for start in range(0, 9000, 900)]
    server = engine.server

    first = [server.ask(prompt, tokens=2, cache_salt="pressure") for prompt in prompts[:3]]
    pinned = server.ask(prompts[3], tokens=2, cache_salt="pressure", kv_transfer_params={"gsm_pin": True})
    for prompt in prompts[4:]:
        server.ask(prompt, tokens=1, cache_salt="pressure")
    server.forget_engine_cache()
    pinned_again = server.ask(
        prompts[3], tokens=2, cache_salt="pressure", kv_transfer_params={"gsm_pin": False}
    )
    again = [server.ask(prompt, tokens=2, cache_salt="pressure") for prompt in prompts[:3]]

    assert all(same(one, other) for one, other in zip(first, again, strict=True))
    assert same(pinned, pinned_again)
    assert pinned_again.cached == 2 * GROUP
    metrics = server.metrics()
    assert metrics['vllm:gsm_evicted_pages_total{tier="host"}'] > 0
    assert metrics['vllm:gsm_peak_bytes{tier="host"}'] <= HOST_PAGES * PAGE_BYTES
    assert metrics["vllm:gsm_pinned_pages"] == 0
    assert len(list(engine.store.glob("*/*.page"))) <= DISK_PAGES


def test_preempted_requests_go_on_as_if_nothing_had_been(engine: Engine) -> None:
    """Two prompts of twelve blocks fill the engine's 25; when both need one more, one has to make room."""
    prompts = [engine.material()[start : start + 12 * BLOCK - 4] for start in (0, 3000)]
    server = engine.server
    undisturbed = [server.ask(prompt, tokens=12, cache_salt="calm") for prompt in prompts]

    with ThreadPoolExecutor(2) as threads:
        running = [
            threads.submit(server.ask, prompt, tokens=12, cache_salt="preempted") for prompt in prompts
        ]
        crowded = [each.result() for each in running]

    assert server.metrics()["vllm:num_preemptions_total"] > 0
    assert all(near(one, other) for one, other in zip(crowded, undisturbed, strict=True))


def test_a_group_size_that_does_not_fit_the_block_switches_gsm_off_and_nothing_else(engine: Engine) -> None:
    prompt = engine.material()[: 2 * GROUP + 60]
    with_gsm = engine.server.ask(prompt, cache_salt="fits")
    engine.stop()
    server = engine.start(gsm_group_size=500)

    without = server.ask(prompt, cache_salt="fits")

    assert without.cached == 0
    assert same(without, with_gsm)
    assert "which is not a multiple of the engine's block of 128 tokens; 512 would do" in server.log
    assert server.metrics()["vllm:gsm_on"] == 0
    engine.stop()
    engine.start()
