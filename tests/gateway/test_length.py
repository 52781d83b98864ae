"""Answers that are kept short: stop sequences, and labels alone."""

from typing import Any

import pytest
from pydantic import ValidationError

from policies.tenant_file import TenantFile
from tests.cases.playing import PATH
from tests.fakes.upstream import ScriptedUpstream
from tests.gateway.conftest import StartGateway

SYSTEM = "You sort tickets by what they are about."
LABELS = ["billing", "a bug", "其他"]
TENANT = {"output": {"stop": ["\nUser:"], "labels": [{"system": "You sort tickets", "choose": LABELS}]}}


async def sent(start: StartGateway, flash: ScriptedUpstream, engine: str, **fields: Any) -> dict[str, Any]:
    """Return what an engine is sent for a ticket."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "I paid twice."}]
    async with start(tenant=TENANT, engine=engine) as gateway, gateway.http() as client:
        reply = await client.post(PATH, json={"model": "flash", "messages": messages, **fields})
        assert reply.status_code == 200, reply.text
    return flash.requests[-1].json()


@pytest.mark.parametrize(
    ("engine", "field", "value"),
    [
        ("vllm", "structured_outputs", {"choice": LABELS}),
        ("llama.cpp", "grammar", 'root ::= "billing" | "a bug" | "其他"'),
        ("sglang", "regex", r"(billing|a\ bug|其他)"),
        ("openai", "max_tokens", 8),
    ],
)
async def test_a_prompt_that_sorts_is_answered_by_a_label(
    start_gateway: StartGateway, flash: ScriptedUpstream, engine: str, field: str, value: object
):
    assert (await sent(start_gateway, flash, engine))[field] == value


async def test_another_prompt_is_answered_freely(start_gateway: StartGateway, flash: ScriptedUpstream):
    body = await sent(
        start_gateway, flash, "vllm", messages=[{"role": "user", "content": "You sort tickets, don't you?"}]
    )
    assert "structured_outputs" not in body


async def test_a_client_that_says_what_it_wants_gets_that(
    start_gateway: StartGateway, flash: ScriptedUpstream
):
    body = await sent(start_gateway, flash, "vllm", response_format={"type": "json_object"}, stop=["END"])
    assert "structured_outputs" not in body
    assert body["stop"] == ["END"]


async def test_an_answer_ends_where_the_tenant_says(start_gateway: StartGateway, flash: ScriptedUpstream):
    assert (await sent(start_gateway, flash, "vllm"))["stop"] == ["\nUser:"]


@pytest.mark.parametrize(
    "rule", [{"system": "short", "choose": LABELS}, {"system": SYSTEM, "choose": ["the only one"]}]
)
def test_a_rule_that_cannot_be_meant_is_refused(rule: dict[str, Any]):
    with pytest.raises(ValidationError):
        TenantFile.model_validate({"tenant": "acme", "output": {"labels": [rule]}})
