"""What is kept, found, loaded and given up, with vLLM's own classes on both sides.

A letter is a page of 128 tokens; four make a group.
"""

import random
import resource
from pathlib import Path

import pytest
from bare_engine import PAGE_BYTES
from conftest import Start

from backends.gsm.engine.manager import PIN


def test_what_was_kept_is_loaded_as_it_was(start: Start) -> None:
    engine = start()

    assert engine.run("abcdefgh") == 0
    assert engine.run("abcdefgh") == 8
    counted = engine.counted()
    assert counted["vllm:gsm_reused_tokens", "host"] == 8 * 128
    assert counted["vllm:gsm_held_groups", "host"] == 2
    assert counted["vllm:gsm_held_bytes", "host"] == 8 * PAGE_BYTES


@pytest.mark.parametrize(("changed", "reused"), [("abcdefgX", 7), ("abcdefXX", 4), ("abcdeXXX", 4)])
def test_the_head_of_a_group_is_loaded_when_at_most_the_threshold_differs(
    start: Start, changed: str, reused: int
) -> None:
    engine = start(host_pages=32)
    engine.run("abcdefgh")
    engine.counted()

    assert engine.run(changed) == reused
    counted = engine.counted()
    assert counted.get(("vllm:gsm_reused_heads",), 0) == (reused == 7)
    assert counted.get(("vllm:gsm_rebuilt_groups",), 0) == (reused == 4)


def test_a_group_that_a_conversation_goes_on_with_is_loaded_as_far_as_it_went(start: Start) -> None:
    engine = start()
    engine.run("abcdef")

    assert engine.run("abcdefgh") == 6
    assert ("vllm:gsm_rebuilt_groups",) not in engine.counted()


def test_the_threshold_can_be_set(start: Start) -> None:
    engine = start(gsm_rebuild_threshold=0.2)
    engine.run("abcdefgh")
    assert engine.run("abcdefgX") == 4

    engine = start(gsm_rebuild_threshold=1.0)
    engine.run("abcdefgh")
    assert engine.run("abcdeXXX") == 5


def test_a_request_that_ends_inside_a_group_reuses_what_it_has_of_it(start: Start) -> None:
    engine = start()
    engine.run("abcdefgh")

    assert engine.run("abcdef") == 6


def test_no_more_groups_of_a_sequence_are_kept_than_allowed(start: Start) -> None:
    engine = start(gsm_max_groups=2)
    engine.run("abcdefghijkl")

    assert engine.run("abcdefghijkl") == 8
    assert engine.counted()["vllm:gsm_refused_pages", "host", "max_groups"] == 8


def test_pages_outlive_a_restart_and_a_shrunken_bound(start: Start) -> None:
    start(disk_pages=32).run("abcdefgh")

    engine = start(disk_pages=32)
    assert engine.run("abcdefgh") == 8
    assert engine.counted()["vllm:gsm_reused_tokens", "disk"] == 8 * 128
    assert start(disk_pages=4).run("abcdefgh") == 4


def test_the_disk_never_has_more_files_than_its_bound(start: Start, tmp_path: Path) -> None:
    engine = start(disk_pages=6)
    for prompt in ("abcd", "efgh", "ijkl", "abcd"):
        engine.run(prompt)
        assert len(list(tmp_path.glob("pages/*/*.page"))) <= 6


def test_a_prompt_larger_than_the_tiers_keeps_what_fits_of_its_beginning(start: Start) -> None:
    engine = start(host_pages=6)
    engine.run("abcdefghijkl")

    assert engine.run("abcdefgh") == 6


def test_what_a_request_already_kept_is_not_given_up_for_what_comes_behind_it(start: Start) -> None:
    engine = start(host_pages=6)
    request, keys = engine.begin("abcdefghij")
    blocks = list(range(20))

    assert len(engine.save(request, keys[:4], blocks[:8])) == 4
    assert len(engine.save(request, keys[4:8], blocks[8:16])) == 2
    assert engine.save(request, keys[8:], blocks[16:]) == []
    engine.manager.on_request_finished(request)


def test_no_page_is_kept_behind_one_that_went_while_its_request_ran(start: Start) -> None:
    engine = start(host_pages=4)
    request, keys = engine.begin("abcdefgh")
    engine.save(request, keys[:4], list(range(8)))
    engine.run("wxyz")

    assert engine.save(request, keys[4:], list(range(8, 16))) == []
    engine.manager.on_request_finished(request)


def test_what_was_just_used_is_not_given_up(start: Start) -> None:
    engine = start(host_pages=4, gsm_min_ttl=3600)
    engine.run("abcd")
    engine.run("efgh")

    assert engine.run("abcd") == 4
    assert engine.counted()["vllm:gsm_refused_pages", "host", "no_room"] == 4


def test_pinned_pages_stay_until_they_are_unpinned(start: Start) -> None:
    engine = start(host_pages=8)
    engine.run("abcd", **{PIN: True})
    engine.run("efghijkl")
    assert engine.counted()["vllm:gsm_pinned_pages",] == 4
    assert engine.run("abcd", **{PIN: False}) == 4
    engine.run("efghijkl")
    engine.run("mnopqrst")

    assert engine.run("abcd") == 0
    assert engine.counted()["vllm:gsm_pinned_pages",] == 0


def test_pins_hold_on_disk_too(start: Start) -> None:
    engine = start(host_pages=8, disk_pages=8)
    engine.run("abcd", **{PIN: True})
    engine.run("efghijkl")
    engine.run("mnopqrst")

    assert start(host_pages=8, disk_pages=8).run("abcd") == 4


def test_no_more_than_half_of_the_host_tier_can_be_pinned(start: Start) -> None:
    engine = start(host_pages=8)
    engine.run("abcd", **{PIN: True})
    engine.run("efgh", **{PIN: True})

    assert engine.counted()["vllm:gsm_pinned_pages",] == 4


def test_a_reset_forgets_the_disk_too(start: Start, tmp_path: Path) -> None:
    engine = start(disk_pages=32)
    engine.run("abcd", **{PIN: True})
    engine.manager.reset_cache()

    assert not list(tmp_path.glob("pages/*/*.page"))
    assert engine.run("abcd") == 0
    assert engine.run("abcd") == 4


def test_a_damaged_page_is_computed_anew_with_all_behind_it(start: Start, tmp_path: Path) -> None:
    engine = start(disk_pages=32)
    engine.run("abcd")
    before = set(tmp_path.glob("pages/*/*.page"))
    engine.run("abcde")
    (fifth,) = set(tmp_path.glob("pages/*/*.page")) - before
    engine.run("abcdefgh")
    content = bytearray(fifth.read_bytes())
    content[-1] ^= 1
    fifth.write_bytes(content)
    engine = start(disk_pages=32)

    assert engine.run("abcdefgh") == 4
    assert engine.run("abcdefgh") == 8
    assert start(disk_pages=32).run("abcdefgh") == 8


def test_serving_goes_on_while_the_disk_is_full(start: Start, tmp_path: Path) -> None:
    """The limit of this process stands for a full disk: the kernel refuses the rest of a file it began."""
    engine = start(disk_pages=32)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE_BYTES // 2, hard))
    try:
        engine.run("abcd")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert engine.counted()["vllm:gsm_refused_pages", "disk", "failed"] == 4
    assert not list(tmp_path.glob("pages/*/*.page")) + list(tmp_path.glob("pages/aside/*"))
    assert engine.run("abcd") == 4
    engine.run("efgh")
    assert len(list(tmp_path.glob("pages/*/*.page"))) == 4


@pytest.mark.parametrize("seed", range(6))
def test_whatever_comes_what_is_loaded_is_what_was_computed(start: Start, seed: int) -> None:
    """`run` compares every byte; here requests share prefixes at random, under pressure and over restarts."""
    choose = random.Random(seed)
    prompts = ["".join(choose.choices("ab", k=choose.randrange(1, 16))) for _ in range(12)]
    hits = 0
    for _ in range(3):
        engine = start(host_pages=20, disk_pages=40)
        for _ in range(25):
            hits += engine.run(choose.choice(prompts))
    assert hits
