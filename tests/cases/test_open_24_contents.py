"""Contents of every shape: who can take them, and that they arrive as they were sent."""

from typing import Any

import pytest

from gateway.exchange import HEADER
from tests.cases.playing import HARD, answering, ask, asked, error_of, record_of
from tests.fakes.upstream import ScriptedUpstream
from tests.gateway.conftest import StartGateway
from tests.support.gateway import GatewayUnderTest

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,R0lGODlh", "detail": "low"}}
FILM = {"type": "video_url", "video_url": {"url": "https://films.invalid/river"}}
CONTENTS: dict[str, tuple[list[dict[str, Any]], str, int]] = {
    "image": ([{"type": "text", "text": "hello, which river?"}, IMAGE], "images", 1),
    "audio": ([{"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}], "audio", 0),
    "video": ([{"type": "text", "text": "hello"}, FILM], "video", 1),
    "file": ([{"type": "file", "file": {"file_data": "JVBERi0="}}], "files", 0),
}
FAILING = answering({"error": {"message": "down"}}, 500)


@pytest.mark.parametrize(("content", "capability", "place"), CONTENTS.values(), ids=CONTENTS.keys())
@pytest.mark.parametrize(("able", "unable"), [("flash", "standard"), ("standard", "flash")])
async def test_only_a_model_that_takes_a_part_gets_it_and_gets_it_unchanged(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    content: list[Any],
    capability: str,
    place: int,
    able: str,
    unable: str,
):
    """OPEN-24 b, c, f: however easy the text; nobody else falls in, and a named model is not replaced."""
    taking, other = (flash, standard) if able == "flash" else (standard, flash)
    async with start_gateway(models={able: {"capabilities": {capability: True}}}) as gateway:
        reply = await ask(gateway, content, model="auto")
        assert (reply.status_code, reply.headers[f"{HEADER}reason"]) == (200, f"capability:{capability}")
        sent = taking.requests[0].json()
        assert sent["messages"] == [{"role": "user", "content": content}]
        assert sent["model"] == f"{able}-upstream"
        taking.script = FAILING
        assert (await ask(gateway, content, model="auto")).status_code == 502
        refused = await ask(gateway, content, model=unable)
    error = error_of(refused)
    assert asked(other) == 0
    assert (refused.status_code, error["code"]) == (400, "unsupported_content")
    assert error["param"] == f"messages[0].content[{place}]"
    assert f"These models do: {able}." in error["message"]


@pytest.mark.parametrize("model", ["auto", "flash"])
@pytest.mark.parametrize(("content", "capability", "place"), CONTENTS.values(), ids=CONTENTS.keys())
async def test_a_part_that_no_model_takes_is_refused_with_its_place(
    gateway: GatewayUnderTest,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    content: list[Any],
    capability: str,
    place: int,
    model: str,
):
    """OPEN-24 b, c, f: in an earlier turn, too; before an engine is asked; with the missing setting."""
    earlier = [{"role": "user", "content": content}, {"role": "assistant", "content": "I see."}]
    turns = [{"role": "system", "content": "Be brief."}, *earlier, {"role": "user", "content": "And?"}]
    reply = await ask(gateway, model=model, messages=turns)
    error = error_of(reply)
    assert (reply.status_code, error["code"]) == (400, "unsupported_content")
    assert error["param"] == f"messages[1].content[{place}]"
    assert repr(content[place]["type"]) in error["message"]
    assert f"models.<name>.capabilities.{capability}: true" in error["message"]
    assert asked(flash, standard) == 0
    assert (await record_of(gateway, reply)).http_status == 400


async def test_a_part_that_nobody_has_heard_of_goes_to_the_model_that_states_it(
    start_gateway: StartGateway, standard: ScriptedUpstream
):
    """OPEN-24 f: and is refused where none does."""
    content = [{"type": "hologram", "hologram": {"of": "the Danube"}}, {"type": "text", "text": "hi"}]
    async with start_gateway(models={"standard": {"capabilities": {"parts": ["hologram"]}}}) as gateway:
        assert (await ask(gateway, content, model="auto")).status_code == 200
        error = error_of(await ask(gateway, [{**content[0], "type": "smell"}], model="auto"))
    assert standard.requests[0].json()["messages"][0]["content"] == content
    assert (error["code"], error["param"]) == ("unsupported_content", "messages[0].content[0]")
    assert "'smell'" in error["message"]


async def test_a_model_that_the_tenant_may_not_use_takes_no_part(
    start_gateway: StartGateway, standard: ScriptedUpstream
):
    """OPEN-24 b: nor is it named."""
    models = {"standard": {"capabilities": {"images": True}}}
    async with start_gateway(models=models, tenant={"models": ["flash"]}) as gateway:
        error = error_of(await ask(gateway, [IMAGE], model="auto"))
    assert error["code"] == "unsupported_content"
    assert "standard" not in error["message"]
    assert asked(standard) == 0


async def test_an_empty_content_breaks_nothing(gateway: GatewayUnderTest, flash: ScriptedUpstream):
    """OPEN-24 d."""
    assert (await ask(gateway, [], model="auto")).status_code == 200
    assert flash.requests[0].json()["messages"] == [{"role": "user", "content": []}]


ASKED_FOR: dict[str, tuple[dict[str, Any], str, str]] = {
    "tools": ({"tools": [{"type": "function", "function": {"name": "level"}}]}, "tools", "tools"),
    "schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": {}}}},
        "json_schema",
        "response_format",
    ),
}


@pytest.mark.parametrize(("fields", "capability", "param"), ASKED_FOR.values(), ids=ASKED_FOR.keys())
async def test_tools_and_schemas_go_to_a_model_that_has_them(
    start_gateway: StartGateway,
    flash: ScriptedUpstream,
    standard: ScriptedUpstream,
    fields: dict[str, Any],
    capability: str,
    param: str,
):
    """OPEN-24 g, h: however easy the text; a model that was named and does not is 400."""
    async with start_gateway(models={"flash": {"capabilities": {capability: False}}}) as gateway:
        reply = await ask(gateway, "hi", model="auto", **fields)
        assert (await ask(gateway, "hi", model="auto")).headers[f"{HEADER}model"] == "flash"
        refused = await ask(gateway, "hi", **fields)
    error = error_of(refused)
    assert (reply.status_code, reply.headers[f"{HEADER}reason"]) == (200, f"capability:{capability}")
    assert {name: standard.requests[0].json()[name] for name in fields} == fields
    assert (refused.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", param)
    assert asked(flash) == 1


async def test_models_that_state_nothing_have_tools_and_schemas(gateway: GatewayUnderTest):
    """OPEN-24 g, h."""
    for fields, _, _ in ASKED_FOR.values():
        assert (await ask(gateway, "hi", model="auto", **fields)).headers[f"{HEADER}model"] == "flash"


async def test_a_text_in_parts_goes_where_the_same_text_goes(gateway: GatewayUnderTest):
    """OPEN-24 a."""
    parts = [{"type": "text", "text": HARD}]
    replies = [await ask(gateway, content, model="auto") for content in (HARD, parts)]
    assert [reply.headers[f"{HEADER}model"] for reply in replies] == ["standard", "standard"]
    assert len({reply.headers[f"{HEADER}complexity"] for reply in replies}) == 1


async def test_tool_turns_and_developer_messages_are_no_fault(
    gateway: GatewayUnderTest, flash: ScriptedUpstream
):
    """OPEN-24 e, i: content null, parts in a tool's answer, the role `developer`."""
    used = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [used]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "9"}]},
    ]
    reply = await ask(gateway, model="auto", messages=turns)
    assert reply.status_code == 200
    assert flash.requests[0].json()["messages"] == turns
