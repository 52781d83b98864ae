"""`flashlane gsm simulate`: policies on a trace, and what it says of one that is wrong."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from backends.gsm.simulation import Policy, simulate
from backends.gsm.traces import TracedRequest
from gateway.cli import app
from tests.gsm.conversations import conversations


def flashlane(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["gsm", "simulate", *map(str, arguments)], env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    return result


def write(path: Path, requests: list[TracedRequest]) -> Path:
    lines = [
        json.dumps(
            {
                "timestamp": request.at * 1000,
                "input_length": request.input_tokens,
                "output_length": request.output_tokens,
                "hash_ids": request.groups,
            }
        )
        for request in requests
    ]
    path.write_text("\n".join(lines))
    return path


def request(*groups: int) -> TracedRequest:
    return TracedRequest(0.0, 512 * len(groups), 1, groups)


@pytest.mark.parametrize("policy", ["gsm", "lru", "lfu", "belady"])
def test_every_policy_hits_all_that_repeats_when_there_is_room(policy: Policy) -> None:
    trace = conversations(1, 60)
    seen: set[int] = set()
    hits = 0
    for each in trace:
        hits += len(seen & set(each.groups))
        seen |= set(each.groups)
    result = simulate(trace, capacity=100_000, policy=policy)
    assert (result.hits, result.evictions, result.peak_groups) == (hits, 0, len(seen))


@pytest.mark.parametrize(
    ("policy", "hits"),
    # With room for three, after 1 1 2 3 and then 4: LRU loses 1, LFU 2, and Belady what does not come again.
    [("lru", 1 + 0 + 0), ("lfu", 1 + 1 + 0), ("belady", 1 + 1 + 1)],
)
def test_a_policy_gives_up_what_its_name_says(policy: Policy, hits: int) -> None:
    trace = [request(*groups) for groups in ((1,), (1,), (2,), (3,), (4,), (1,), (2,))]
    assert simulate(trace, capacity=3, policy=policy).hits == hits


IDS = st.lists(st.integers(0, 3), max_size=5)


@given(st.lists(IDS, max_size=40), st.integers(1, 8), st.sampled_from(["gsm", "lru", "lfu"]))
def test_nothing_hits_more_than_belady_and_no_cache_holds_more_than_its_room(
    requests: list[list[int]], capacity: int, policy: Policy
) -> None:
    trace = [request(*groups) for groups in requests]
    result = simulate(trace, capacity=capacity, policy=policy)
    assert result.hits <= simulate(trace, capacity=capacity, policy="belady").hits
    assert result.peak_groups <= capacity
    assert result.groups == sum(map(len, requests))


def test_an_id_that_repeats_in_a_request_is_another_group_each_time() -> None:
    result = simulate([request(5, 5, 5), request(5, 5)], capacity=10, policy="lru")
    assert (result.hits, result.peak_groups) == (2, 3)


def test_replicas_have_their_own_room_and_a_conversation_stays_where_it_is() -> None:
    trace = conversations(2, 200)
    one = simulate(trace, capacity=400, policy="gsm")
    four = simulate(trace, capacity=400, policy="gsm", replicas=4)
    assert four.hit_rate > one.hit_rate
    assert 400 < four.peak_groups <= 1600


def test_it_prints_figures_for_people_and_for_scripts(tmp_path: Path) -> None:
    trace = write(tmp_path / "trace.jsonl", [request(1, 2), request(1, 2, 3)])
    told = flashlane("--trace", trace, "--capacity", 10, "--policy", "lru", "--json")
    assert told.exit_code == 0
    assert json.loads(told.output) == {
        "trace": str(trace),
        "policy": "lru",
        "capacity": 10,
        "replicas": 1,
        "hit_rate": 0.4,
        "requests": 2,
        "groups": 5,
        "hits": 2,
        "reused_tokens": 1024,
        "evictions": 0,
        "peak_groups": 3,
    }
    assert "hit rate       40.0%" in flashlane("--trace", trace, "--capacity", 10).output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no requests"),
        ('{"timestamp": 0}', "line 1: `input_length`"),
        ("\n\nx", "line 3: is not JSON"),
    ],
)
def test_a_trace_that_is_wrong_ends_the_command_with_one_message(
    tmp_path: Path, text: str, says: str
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(text)
    result = flashlane("--trace", trace, "--capacity", 1)
    assert result.exit_code == 1
    assert result.output.startswith(f"flashlane: {trace}")
    assert says in result.output


def test_a_trace_that_is_missing_and_a_policy_that_is_unknown_are_named(tmp_path: Path) -> None:
    missing = flashlane("--trace", tmp_path / "none.jsonl", "--capacity", 1)
    assert (missing.exit_code, "none.jsonl: cannot be read" in missing.output) == (1, True)
    unknown = flashlane("--trace", tmp_path, "--capacity", 1, "--policy", "arc")
    assert (unknown.exit_code, "'arc' is none of gsm, lru, lfu, belady" in unknown.output) == (2, True)
    assert flashlane("--trace", tmp_path, "--capacity", 0).exit_code == 2
