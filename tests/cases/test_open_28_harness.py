"""OPEN-28: neither the system prompt nor what a harness puts around a question decides."""

from collections.abc import Callable

import pytest

from gateway.exchange import HEADER
from tests.cases.playing import ask, asked
from tests.cases.routes import reply_to, route, route_of, turns
from tests.fakes.upstream import ScriptedUpstream
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest

RULES = (
    "- Prove invariants before you touch concurrency code, and derive the bounds you rely on.\n"
    "- Analyse the complexity of the architecture step by step; never break consensus or consistency.\n"
    "- Run the linter and the tests, and explain every trade-off rigorously.\n"
) * 60
HARD = (
    "Implement a lock-free hash map in C++, prove that it is linearizable and discuss memory reclamation.",
    "设计一个五地多活的共识协议，证明网络分区时的安全性，并分析消息复杂度。",
)
EASY = ("hi", "what time zone is CET?", "rename this variable to total", "你好，今天星期几？")

Wrap = Callable[[str], str]
WRAPPERS: dict[str, Wrap] = {
    "reminder before": lambda q: f"<system-reminder>\n{RULES}</system-reminder>\n{q}",
    "reminder after": lambda q: f"{q}\n\n<system-reminder>\n{RULES}</system-reminder>",
    "reminders around": lambda q: (
        f"<system-reminder>{RULES}</system-reminder>\n{q}\n<system-reminder>{RULES}</system-reminder>"
    ),
    "task and environment": lambda q: (
        f"<task>\n{q}\n</task>\n\n<environment_details>\n"
        f"# Visible Files\nsrc/lock.rs\n\n# Open Tabs\nproof.md\n\n"
        f"# Working Directory\n{RULES}</environment_details>"
    ),
    "editor and query": lambda q: (
        f"<additional_data>\n<current_file>\nPath: a.py\n{RULES}</current_file>\n</additional_data>\n\n"
        f"<user_query>\n{q}\n</user_query>"
    ),
    "attachments and request": lambda q: (
        f'<attachments>\n<attachment id="a">\n{RULES}</attachment>\n</attachments>\n'
        f"<reminderInstructions>\n{RULES}</reminderInstructions>\n<userRequest>\n{q}\n</userRequest>"
    ),
    "environment": lambda q: (
        f"<environment_context>\n<cwd>/w</cwd>\n<shell>zsh</shell>\n{RULES}</environment_context>\n{q}"
    ),
    "editor in headings": lambda q: (
        f"# Context from my IDE setup:\n\n## Active file: src/lock.rs\n\n## Open tabs:\n"
        f"{RULES}\n## My request:\n{q}\n"
    ),
    "instructions of a project": lambda q: (
        f"# AGENTS.md instructions\n\n<INSTRUCTIONS>\n{RULES}</INSTRUCTIONS>\n{q}"
    ),
    "rules in a heading": lambda q: f"# Project rules\n{RULES}\n\n{q}",
    "environment in a heading": lambda q: f"{q}\n\n## Environment\n- OS: linux\n{RULES}",
    "three headings": lambda q: f"## Guidelines\n{RULES}\n## Environment\nOS: linux\n\n## User request\n{q}",
    "bold labels": lambda q: f"**Context:**\n{RULES}\n\n**Question:** {q}",
    "pieces of context": lambda q: (
        f"Use the following pieces of context to answer the question.\n\nContext:\n{RULES}\n\nQuestion: {q}"
    ),
    "context below": lambda q: (
        f"Context information is below.\n----------\n{RULES}\n----------\n"
        f"Given the context, answer the query.\nQuery: {q}\nAnswer: "
    ),
    "role": lambda q: f"You are a senior engineer who proves what he claims.\n\nRules:\n{RULES}\n\n{q}",
    "documents": lambda q: f'<documents>\n<document index="1">\n{RULES}</document>\n</documents>\n\n{q}',
    "context and question": lambda q: f"<context>\n{RULES}</context>\n<question>{q}</question>",
    "a tag of its own": lambda q: f"<acme-agent-brief>\n{RULES}</acme-agent-brief>\n{q}",
    "memories": lambda q: (
        f"<user_memories>\n{RULES}</user_memories>\n<recent_edits>{RULES}</recent_edits>\n{q}"
    ),
    "opened file": lambda q: f"<ide_opened_file>The user opened proof.md. {RULES}</ide_opened_file>\n{q}",
    "selection": lambda q: f"<ide_selection>The user selected lines 1 to 9: {RULES}</ide_selection>{q}",
    "command": lambda q: (
        f"<command-name>/init</command-name>\n<local-command-stdout>{RULES}</local-command-stdout>\n{q}"
    ),
    "equals signs": lambda q: f"=== CONTEXT ===\n{RULES}\n=== QUESTION ===\n{q}",
    "brackets": lambda q: f"[SYSTEM CONTEXT]\n{RULES}\n[USER MESSAGE]\n{q}",
    "marks": lambda q: f"BEGIN CONTEXT\n{RULES}\nEND CONTEXT\n\n{q}",
    "Chinese headings": lambda q: f"## 项目规范\n{RULES}\n## 用户问题\n{q}",
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
async def test_the_question_decides_and_not_what_a_harness_puts_around_it(
    gateway: GatewayUnderTest, wrap: Wrap
):
    """C: the same block each time, an easy question and a hard one."""
    for expected, questions in (("flash", EASY), ("standard", HARD)):
        for question in questions:
            assert await route(gateway, wrap(question)) == expected, question


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_a_long_system_prompt_makes_no_difference(gateway: GatewayUnderTest, role: str):
    """A: plain "hi" and "hi" under eight thousand tokens of policy score the same."""
    policy = {
        "role": role,
        "content": "You must prove every claim about architecture and concurrency. " * 800,
    }
    for question in (*EASY, *HARD):
        assert await reply_to(gateway, [policy, *turns(question)]) == await reply_to(gateway, turns(question))


async def test_a_short_system_prompt_makes_no_difference_either(gateway: GatewayUnderTest):
    """B, D: nor one that stands last."""
    for question in HARD:
        for system in ("You are helpful.", "Answer in French.", "Keep it simple, this is easy."):
            message = {"role": "system", "content": system}
            assert await route_of(gateway, [message, *turns(question)]) == "standard"
            assert await route_of(gateway, [*turns(question), message]) == "standard"


async def test_a_session_is_not_pinned_by_its_boilerplate(gateway: GatewayUnderTest):
    """The same reminder in each turn: every turn goes where its question goes."""
    wrap = WRAPPERS["reminder before"]
    questions = (EASY[1], HARD[0], EASY[0])
    said: list[str] = []
    routes: list[str] = []
    for question in questions:
        said.append(wrap(question))
        routes.append(await route(gateway, *said))
        said.append("Done.")
    assert routes[:2] == ["flash", "standard"]
    assert await route(gateway, wrap("thanks!")) == "flash"


async def test_what_a_harness_sends_alone_is_read_as_it_is(gateway: GatewayUnderTest):
    assert await route(gateway, f"<task>\n{HARD[0]}\n</task>") == "standard"
    assert await route(gateway, f"<instructions>{HARD[0]}</instructions>") == "standard"
    assert await route(gateway, f"<system-reminder>{HARD[0]}</system-reminder>") == "standard"
    assert await route(gateway, f"# Question\n{HARD[0]}") == "standard"


async def test_the_whole_length_counts_against_the_context(
    start_gateway: StartGateway, flash: ScriptedUpstream, standard: ScriptedUpstream
):
    """An easy question with a system prompt, or a block, that fits no model's context is refused or moved."""
    limit = {"context": {"max_input_tokens": 2000, "on_overflow": "standard"}}
    async with start_gateway(tenant=limit) as gateway:
        short = await ask(gateway, EASY[0], model="auto")
        policy = {"role": "system", "content": "word " * 4000}
        long_system = await ask(gateway, model="auto", messages=[policy, *turns(EASY[0])])
        block = await ask(gateway, WRAPPERS["reminder before"](EASY[0]), model="auto")
    assert [reply.headers[f"{HEADER}model"] for reply in (short, long_system, block)] == [
        "flash",
        "standard",
        "standard",
    ]
    assert long_system.headers[f"{HEADER}reason"].startswith("context:")
    assert (asked(flash), asked(standard)) == (1, 2)
