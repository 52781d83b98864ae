"""Where requests go: to the replica that holds their prefix, and to the model that does."""

from typing import Any

from gateway.exchange import HEADER
from tests.cases.playing import EASY, ask, asked, record_of
from tests.fakes.upstream import ScriptedUpstream, well_behaved
from tests.gateway.conftest import StartGateway
from tests.support.gateway import OTHER_KEY, GatewayUnderTest

LONG = "The parcel is on its way, and nobody knows where. " * 400


def conversation(*more: str, number: int = 1) -> list[dict[str, Any]]:
    """Return a conversation about a long text."""
    texts = (f"{number}. {LONG}", *more)
    roles = ("user", "assistant") * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


async def replicas_of(gateway: GatewayUnderTest, *more: str) -> list[str]:
    """Go on with eight conversations; return where each went."""
    replies = [await ask(gateway, messages=conversation(*more, number=number)) for number in range(8)]
    assert all(int(reply.headers[f"{HEADER}expected-ttft-ms"]) >= 0 for reply in replies)
    return [reply.headers[f"{HEADER}replica"] for reply in replies]


async def test_conversations_go_on_where_they_began(start_gateway: StartGateway, flash: ScriptedUpstream):
    async with (
        ScriptedUpstream(well_behaved) as second,
        start_gateway(flash=[flash.url, second.url]) as gateway,
    ):
        first = await replicas_of(gateway)
        assert asked(flash) == asked(second) == 4
        assert await replicas_of(gateway, "Well?", EASY) == first


async def test_a_record_says_what_was_weighed(gateway: GatewayUnderTest):
    await ask(gateway, messages=conversation())
    reply = await ask(gateway, messages=conversation("Well?", EASY))
    record = await record_of(gateway, reply)
    assert any(line.startswith("placement:holds 4608 of ") for line in record.trace), record.trace


async def test_tenants_do_not_see_what_others_sent(gateway: GatewayUnderTest):
    await ask(gateway, messages=conversation())
    reply = await ask(gateway, messages=conversation("Well?", EASY), key=OTHER_KEY)
    record = await gateway.record(reply.headers[f"{HEADER}request-id"], tenant="umbrella")
    assert any(line.startswith("placement:holds 0 of ") for line in record.trace), record.trace


async def test_an_easy_question_stays_with_standard_while_that_holds_the_conversation(
    start_gateway: StartGateway,
):
    async with start_gateway(tenant={"routing": {"standard_share": 0.0}}) as gateway:
        fresh = await ask(gateway, model="auto", messages=conversation("Well?", EASY, number=2))
        assert fresh.headers[f"{HEADER}model"] == "flash"
        await ask(gateway, model="standard", messages=conversation())
        reply = await ask(gateway, model="auto", messages=conversation("Well?", EASY))
        assert reply.headers[f"{HEADER}model"] == "standard"
        assert reply.headers[f"{HEADER}reason"].startswith("prefix:standard holds ")
        record = await record_of(gateway, reply)
        assert sum(line.startswith("candidate:") for line in record.trace) == 2


async def test_nothing_is_left_of_requests_that_are_over(gateway: GatewayUnderTest):
    for stream in (False, True):
        await ask(gateway, messages=conversation(), stream=stream)
    assert all(len(member.standing.queue) == 0 for _, member in gateway.services.fleet.members())
