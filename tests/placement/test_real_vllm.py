"""Two real vLLM replicas with SmolLM2: what conversations that take turns find of themselves."""

import asyncio
import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from backends.placement.naming import PromptText
from bench.gsm_server import MODEL, model_folder, what_is_missing
from bench.replicas import BLOCK, KEPT_BAR, LOST_BAR, Cached, Plan, Target, messages_of, models_over, replay
from gateway.placing import make_namer
from tests.support.gateway import KEY, running_gateway

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(1800)]

PLAN = Plan(conversations=4, turns=3)


@pytest.fixture
def replicas(tmp_path: Path) -> Generator[tuple[Cached, Cached]]:
    """Two vLLM servers, each with room for about half of the conversations."""
    if (missing := what_is_missing()) is not None:
        if os.environ.get("FLASHLANE_REQUIRE_VLLM"):  # noqa: TID251 tells CI from a user's machine
            pytest.fail(missing)
        pytest.skip(missing)
    half = PLAN.blocks() // 2
    first, second = (Cached.of(tmp_path / f"vllm-{number}.log", half) for number in range(2))
    with first.server, second.server:
        yield first, second


def held_by_an_endless_cache(plan: Plan) -> int:
    """Return the tokens of all prompts that begin as an earlier one did, in whole blocks."""
    namer, seen, found = make_namer(MODEL, model_folder(), BLOCK), set[bytes](), 0
    for conversation, turn in plan.order():
        messages = messages_of(conversation, turn)
        parts = [json.dumps(each).encode() for each in messages]
        names = namer.name(PromptText(parts, tokens=0, messages=json.dumps(messages).encode())).names
        found += BLOCK * sum(name in seen for name in names)
        seen.update(names)
    return found


async def test_two_replicas_hold_what_one_cache_would_and_round_robin_loses_a_third(
    replicas: tuple[Cached, Cached], redis_url: str, tmp_path: Path
):
    held = await asyncio.to_thread(held_by_an_endless_cache, PLAN)
    url = replicas[0].server.url
    async with running_gateway(
        tmp_path, redis_url, flash=url, standard=url, models=models_over(replicas)
    ) as gateway:
        ours = await replay(PLAN, [Target(gateway.url, "flash", KEY)])
    in_turn = await replay(PLAN, [Target(each.server.url) for each in replicas])
    assert ours.cached >= KEPT_BAR * held
    assert in_turn.cached <= (1 - LOST_BAR) * held
    assert len(ours.asked) == 2
