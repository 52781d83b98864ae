"""Replicas that are found, and that leave."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from backends.fleet import Fleet, Member, Placed
from backends.placement.prompts import Prompt
from backends.pools.membership import DnsSource, KubernetesSource, Membership, NotAnswered, Source
from backends.types import Discovery, InferenceRequest, Pool, Replica, ReplicaKind
from tests.fakes.backend import FakeBackend
from tests.fakes.upstream import ScriptedUpstream, Talk

TEMPLATE = Replica("flash/main/0", ReplicaKind.OPENAI, "http://engines.llm:8000", "m")
REQUEST = InferenceRequest("/v1/chat/completions", b"{}", stream=False, headers={})


class Told:
    """A source that says what a test says."""

    def __init__(self) -> None:
        self.urls: frozenset[str] | None = frozenset()

    async def addresses(self) -> frozenset[str]:
        if self.urls is None:
            raise NotAnswered("the name server is away")
        return self.urls


class Scene:
    """A fleet with one pool whose replicas are found."""

    def __init__(self, max_concurrency: int | None = None, template: Replica = TEMPLATE) -> None:
        self.source = Told()
        self.backends: list[FakeBackend] = []
        pool = Pool(
            "main", "any", (), max_concurrency=max_concurrency, discoveries=(Discovery("dns", template),)
        )
        self.fleet = Fleet({"flash": (pool,)}, monotonic=lambda: 0.0, make=self._make)
        self.membership = Membership(self.fleet, make=self._source)

    def _make(self, *_: object) -> FakeBackend:
        self.backends.append(FakeBackend())
        return self.backends[-1]

    def _source(self, _: Discovery) -> Source:
        return self.source

    async def found(self, *urls: str) -> list[str]:
        """Return the members' addresses after a look that finds these."""
        self.source.urls = frozenset(urls)
        await self.membership.look()
        return [member.replica.target for member in self.fleet.members_of("flash")]

    def member(self, url: str) -> Member:
        return next(m for m in self.fleet.members_of("flash") if m.replica.target == url)


async def test_what_is_found_tells_its_events_at_its_own_address():
    template = replace(TEMPLATE, kv_events="tcp://engines.llm:5557", kv_replay="tcp://engines.llm:5558")
    scene = Scene(template=template)
    await scene.found("http://10.0.0.1:8000", "http://[fd00::3]:8000")
    assert [(m.replica.kv_events, m.replica.kv_replay) for m in scene.fleet.members_of("flash")] == [
        ("tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558"),
        ("tcp://[fd00::3]:5557", "tcp://[fd00::3]:5558"),
    ]


async def test_what_is_found_joins_under_names_of_its_own():
    scene = Scene()
    assert await scene.found("http://a:1", "http://b:1") == ["http://a:1", "http://b:1"]
    assert [m.replica.name for m in scene.fleet.members_of("flash")] == ["flash/main/0-0", "flash/main/0-1"]


async def test_one_that_is_gone_gets_nothing_new_and_ends_what_it_has():
    scene = Scene()
    await scene.found("http://a:1", "http://b:1")
    leaving = scene.member("http://a:1")
    answer = await leaving.open(REQUEST)
    assert await scene.found("http://b:1") == ["http://a:1", "http://b:1"]
    placed = scene.fleet.place("flash")
    assert placed is not None
    assert placed.member.replica.target == "http://b:1"
    await leaving.close(answer)
    assert await scene.found("http://b:1") == ["http://b:1"]
    assert scene.backends[0].closed == 1


async def test_one_that_comes_back_before_it_has_ended_is_the_same():
    scene = Scene()
    await scene.found("http://a:1")
    member = scene.member("http://a:1")
    answer = await member.open(REQUEST)
    await scene.found()
    await scene.found("http://a:1")
    assert scene.member("http://a:1") is member
    placed = scene.fleet.place("flash")
    assert placed is not None
    assert placed.member is member
    await member.close(answer)


async def test_one_that_comes_later_to_the_same_address_is_another():
    scene = Scene()
    await scene.found("http://a:1")
    before = scene.member("http://a:1")
    await scene.found()
    await scene.found("http://a:1")
    assert scene.member("http://a:1") is not before


async def test_one_that_comes_later_to_the_same_address_holds_nothing():
    scene = Scene()
    prompt = Prompt(600, [b"head"], session=b"conversation")

    def placed() -> Placed:
        found = scene.fleet.place("flash", (), prompt)
        assert found is not None
        return found

    await scene.found("http://a:1")
    first = placed()
    await first.member.close(await first.member.open(REQUEST, scene.fleet.send("flash", first)))
    assert placed().predicted == 512
    await scene.found()
    await scene.found("http://a:1")
    assert placed().predicted == 0


async def test_the_bound_of_a_pool_is_shared_out_over_those_that_are_there():
    scene = Scene(max_concurrency=8)
    await scene.found("http://a:1")
    assert [member.slots for member in scene.fleet.members_of("flash")] == [8]
    await scene.found("http://a:1", "http://b:1")
    assert [member.slots for member in scene.fleet.members_of("flash")] == [4, 4]
    await scene.found("http://b:1")
    assert [member.slots for member in scene.fleet.members_of("flash")] == [8]


async def test_a_question_without_an_answer_changes_nothing():
    scene = Scene()
    await scene.found("http://a:1", "http://b:1")
    scene.source.urls = None
    await scene.membership.look()
    assert len(scene.fleet.members_of("flash")) == 2
    assert scene.fleet.place("flash") is not None


async def test_a_name_stands_for_its_addresses():
    assert await DnsSource("http://127.0.0.1:8000").addresses() == {"http://127.0.0.1:8000"}
    assert "http://127.0.0.1:81" in await DnsSource("http://localhost:81").addresses()


async def test_a_name_that_nobody_knows_is_no_answer():
    with pytest.raises(NotAnswered, match=r"nowhere\.invalid cannot be looked up"):
        await DnsSource("http://nowhere.invalid:8000").addresses()


def endpoint(address: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "conditions": conditions, "nodeName": "n"}


async def kubernetes(body: Mapping[str, Any], status: int = 200) -> tuple[frozenset[str], str]:
    """Return what the source finds in an answer of Kubernetes, and what it asked for."""

    async def script(talk: Talk) -> None:
        await talk.json(body, status)

    async with ScriptedUpstream(script) as api:
        source = KubernetesSource("http://engines.llm.svc:8000", api=api.url)
        found = await source.addresses()
        return found, api.requests[0].path


async def test_kubernetes_tells_who_is_ready_and_who_is_about_to_end():
    slices = {
        "items": [
            {"endpoints": [endpoint("10.0.0.1", ready=True), endpoint("10.0.0.2", ready=False)]},
            {"endpoints": [endpoint("fd00::3"), endpoint("10.0.0.4", ready=True, terminating=True)]},
            {"endpoints": None},
        ]
    }
    found, path = await kubernetes(slices)
    assert found == {"http://10.0.0.1:8000", "http://[fd00::3]:8000"}
    assert path.startswith("/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices?")
    assert path.endswith("service-name%3Dengines")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"kind": "Status"}, 403, "let the pod's service account get and list endpointslices"),
        ({"items": 7}, 200, "does not tell the endpoints of engines"),
    ],
)
async def test_a_refusal_of_kubernetes_says_what_to_do(body: dict[str, Any], status: int, words: str):
    with pytest.raises(NotAnswered, match=words):
        await kubernetes(body, status)


async def test_kubernetes_that_is_away_is_no_answer():
    with pytest.raises(NotAnswered, match="does not tell"):
        await KubernetesSource("http://engines.llm:8000", api="http://127.0.0.1:1").addresses()
