"""The main job on real models: `flashlane up`, the official client, and a clean end."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from openai.types.chat import ChatCompletionMessageParam

from gateway.exchange import HEADER
from tests.e2e.conftest import CAPITAL, Program, command_line, descendants, start
from tests.support.processes import is_alive
from tests.support.waiting import until

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc"),
]

PROOF = (
    "Prove by induction that the sum of the first n odd numbers is n squared. State the base case, the "
    "induction hypothesis and the induction step, and justify every equality."
)
CLAUSE = (
    "The Supplier shall indemnify and hold harmless the Customer from any claims arising out of a breach of "
    "this Agreement. Is this clause enforceable if liability is capped elsewhere in the contract?"
)
PROOF_ZH = "请用数学归纳法证明：前n个奇数之和等于n的平方。写出每一步并说明理由。"
CAPITAL_ZH = "法国的首都是哪里？"


def asking(text: str) -> Sequence[ChatCompletionMessageParam]:
    """Return a conversation of one question."""
    return [{"role": "user", "content": text}]


async def where(program: Program, text: str) -> tuple[str, str]:
    """Ask by `auto`; return the model that answered and the reason."""
    async with program.openai() as client:
        answer = await client.chat.completions.with_raw_response.create(
            model="auto", messages=asking(text), max_tokens=4, temperature=0
        )
    return answer.headers[f"{HEADER}model"], answer.headers[f"{HEADER}reason"]


async def test_the_small_model_knows_the_capital_of_france(up: Program):
    async with up.openai() as client:
        answer = await client.chat.completions.create(
            model="auto", messages=asking(CAPITAL), max_tokens=16, temperature=0
        )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0
    assert answer.model == "smollm2-135m-instruct"


@pytest.mark.parametrize(
    ("model", "engine"),
    [("flash", "smollm2-135m-instruct"), ("standard", "qwen2.5-coder-1.5b-instruct")],
)
async def test_a_model_that_is_named_streams_from_its_own_engine(up: Program, model: str, engine: str):
    async with up.openai() as client:
        stream = await client.chat.completions.create(
            model=model,
            messages=asking("Say hello."),
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    assert {chunk.model for chunk in chunks} == {engine}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None
    assert 0 < chunks[-1].usage.completion_tokens <= 8


@pytest.mark.parametrize(
    ("text", "model", "rule"),
    [
        (CAPITAL, "flash", "complexity"),
        (CAPITAL_ZH, "flash", "complexity"),
        (PROOF, "standard", "complexity"),
        (PROOF_ZH, "standard", "complexity"),
        (CLAUSE, "standard", "domain"),
    ],
)
async def test_auto_sends_easy_questions_to_flash_and_hard_or_risky_ones_to_standard(
    up: Program, text: str, model: str, rule: str
):
    found, reason = await where(up, text)
    assert found == model
    assert reason.startswith(f"{rule}:")


async def test_a_prefix_that_was_seen_is_reused_by_the_engine_and_shown(up: Program):
    system = "You answer questions about the city of Lyon. " * 10
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": system},
        {"role": "user", "content": "How many rivers?"},
    ]
    async with up.openai() as client:
        answers = [
            await client.chat.completions.with_raw_response.create(
                model="flash", messages=messages, max_tokens=2
            )
            for _ in range(2)
        ]
    assert int(answers[-1].headers[f"{HEADER}cached-tokens"]) > 50


async def test_it_says_that_it_is_healthy_and_counts_what_it_did(up: Program):
    await where(up, CAPITAL)
    async with httpx.AsyncClient(base_url=up.url) as client:
        health = (await client.get("/health/readiness")).json()
        metrics = (await client.get("/metrics")).text
    assert health["status"] == "healthy"
    assert 'flashlane_requests_total{code="",model="flash",status="ok",tenant="local"}' in metrics


async def test_an_engine_that_is_killed_is_started_again(up: Program):
    async def restarted() -> bool:
        async with httpx.AsyncClient(base_url=up.url) as client:
            return bool((await client.get("/health/readiness")).json()["models"]["flash"]["flash/local/0"])

    engines = [pid for pid in descendants(up.process.pid) if "smollm2-135m-instruct" in command_line(pid)]
    assert len(engines) == 1
    os.kill(engines[0], signal.SIGKILL)
    await until(lambda: not is_alive(engines[0]), "the engine to die")
    await until(restarted, "the engine to be back", patience=60)
    assert (await where(up, CAPITAL))[0] == "flash"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_whatever_ends_it_no_process_is_left(tmp_path: Path, number: signal.Signals):
    program = start(tmp_path, "up", "--port", "0")
    await until(lambda: "Ctrl-C" in program.output(), "flashlane to be ready", patience=120)
    program.remember_children()
    assert len(program.children) >= 3
    status = await program.stop(number)
    await program.until_children_are_gone()
    assert status == (0 if number is not signal.SIGKILL else -signal.SIGKILL)


async def test_ctrl_c_while_the_engines_start_leaves_no_process(tmp_path: Path):
    program = start(tmp_path, "up", "--port", "0")

    def starting() -> bool:
        program.remember_children()
        return len(program.children) >= 2

    await until(starting, "the first engines to start", patience=60)
    await program.stop()
    await program.until_children_are_gone()
    assert "Traceback" not in program.output()
