"""Replayed traces: caches hold what they should, and what costs least beats what looks at one thing only."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backends.gsm.traces import TracedRequest
from backends.placement.simulation import (
    PLACEMENTS,
    Outcome,
    hit_rate_of_single,
    round_robin,
    simulate,
)
from gateway.cli import app


def conversations(seed: int, count: int, *, every: float, turns: int = 5) -> list[TracedRequest]:
    """Return conversations of some turns each, all on from one system prompt of two groups."""
    draw, found = random.Random(seed), list[TracedRequest]()
    for number in range(count):
        at, groups = number * every, [0, 1]
        for turn in range(draw.randint(1, turns)):
            groups += [1000 * (number + 1) + 20 * turn + i for i in range(draw.randint(2, 12))]
            found.append(TracedRequest(at, 512 * len(groups), 100, tuple(groups)))
            at += draw.uniform(5, 60)
    return sorted(found, key=lambda request: request.at)


def hot_prefix(seed: int, per_second: float, seconds: float, groups: int) -> list[TracedRequest]:
    """Return requests that nearly all go on from one long prompt."""
    draw, at, found, fresh = random.Random(seed), 0.0, list[TracedRequest](), 10_000
    while (at := at + draw.expovariate(per_second)) < seconds:
        head = range(groups) if draw.random() < 0.98 else range(fresh, fresh + groups)
        fresh += groups + 3
        found.append(TracedRequest(at, 512 * (groups + 3), 100, (*head, *range(fresh - 3, fresh))))
    return found


def alternating(seed: int, count: int, *, every: float, system: int) -> list[TracedRequest]:
    """Return conversations that say one thing each, in a new order every round, on one system prompt."""
    draw, at, found, fresh = random.Random(seed), 0.0, list[TracedRequest](), 1000
    said = [tuple(range(system)) for _ in range(count)]
    for _ in range(6):
        for number in draw.sample(range(count), count):
            more = draw.randint(4, 12)
            said[number] += tuple(range(fresh, fresh + more))
            fresh, at = fresh + more, at + draw.expovariate(1 / every)
            found.append(TracedRequest(at, 512 * len(said[number]), 100, said[number]))
    return found


def outcomes(
    requests: Sequence[TracedRequest], *, replicas: int, capacity: int, rate: float
) -> dict[str, Outcome]:
    return {
        name: simulate(requests, make(), replicas=replicas, capacity=capacity, rate=rate)
        for name, make in PLACEMENTS.items()
    }


def test_one_replica_has_the_hits_of_one_cache_and_waits_for_what_was_before():
    requests = [TracedRequest(0.0, 1024, 1, (1, 2)), TracedRequest(0.0, 1536, 1, (1, 2, 3))]
    outcome = simulate(requests, round_robin(), replicas=1, capacity=10, rate=512)
    assert outcome == Outcome(0.4, 1.0, 1.0, ttft_p50=3.0, ttft_p99=3.0)
    assert hit_rate_of_single(requests, 10) == 0.4


@pytest.mark.parametrize(("replicas", "seed"), [(2, 1), (4, 2), (8, 3)])
def test_conversations_stay_together_and_work_is_spread(replicas: int, seed: int):
    requests = conversations(seed, 1500, every=0.5)
    found = outcomes(requests, replicas=replicas, capacity=8000, rate=30_000 / replicas)
    ours = found["flashlane"]
    assert ours.hit_share_of_single >= 0.97
    assert ours.imbalance <= 1.1
    for other in ("round_robin", "least_loaded", "prefix_only"):
        assert ours.ttft_p99 < found[other].ttft_p99
        assert ours.hit_rate > found[other].hit_rate


@pytest.mark.parametrize(("replicas", "seed"), [(2, 1), (4, 2)])
@pytest.mark.parametrize("system", [0, 1, 4, 12])
def test_replicas_that_idle_share_out_conversations_with_one_system_prompt(
    replicas: int, seed: int, system: int
):
    requests = alternating(seed, 40, every=60, system=system)
    capacity = int(1.15 * len({group for request in requests for group in request.groups}))
    found = outcomes(requests, replicas=replicas, capacity=capacity, rate=8000)
    assert found["flashlane"].hit_share_of_single >= 0.95
    assert found["round_robin"].hit_share_of_single <= 2 / 3 + system / 60


def test_a_hot_prefix_spreads_over_replicas():
    found = outcomes(hot_prefix(7, 16, 120, 60), replicas=4, capacity=30_000, rate=16_000)
    assert found["prefix_only"].imbalance > 2
    assert found["flashlane"].imbalance < 1.2
    assert found["flashlane"].hit_share_of_single > 0.95
    assert found["flashlane"].ttft_p99 < found["prefix_only"].ttft_p99 / 5


def test_the_command_prints_what_scripts_read(tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": r.at * 1000, "input_length": r.input_tokens, "output_length": 1, "hash_ids": r.groups}
        for r in conversations(1, 50, every=0.5)
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = CliRunner().invoke(
        app, ["simulate", "--trace", str(trace), "--replicas", "2", "--capacity", "500", "--json"]
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["placements"]
    assert list(found) == ["flashlane", "round_robin", "least_loaded", "prefix_only"]
    assert found["flashlane"].keys() == {
        "hit_rate",
        "hit_share_of_single",
        "imbalance",
        "ttft_p50",
        "ttft_p99",
    }


@pytest.mark.parametrize(("text", "said"), [("{}\n", "line 1"), ("", "no requests")])
def test_a_trace_that_cannot_be_read_ends_the_command_with_one_line(tmp_path: Path, text: str, said: str):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(text)
    result = CliRunner().invoke(app, ["simulate", "--trace", str(trace)])
    assert result.exit_code == 2
    assert said in result.output
