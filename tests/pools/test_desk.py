"""The desk: which pool has room, and what is made of what engines and answers tell."""

import pytest

from backends.fleet import Fleet
from backends.placement.prompts import Prompt
from backends.pools.choice import Work
from backends.pools.desk import FREE, PoolDesk
from backends.pools.engine_metrics import EngineWord
from backends.pools.slots import Slots
from backends.pools.speculation import FIRST_REST, STEP_SECONDS
from backends.types import EngineFlavour, InferenceRequest, Pool, Replica, ReplicaKind
from tests.fakes.backend import FakeBackend

CHAT = Work(is_chat=True)
REQUEST = InferenceRequest("/v1/chat/completions", b"{}", stream=False, headers={})


class Scene:
    """A model with both pools over fake engines, and a clock of the test's own."""

    def __init__(self, max_concurrency: int | None = None) -> None:
        self.now = 0.0
        self.engines: dict[str, FakeBackend] = {}
        self.fleet = Fleet(
            {
                "flash": (
                    Pool(
                        "latency",
                        "latency",
                        self._replicas("latency"),
                        speculation=True,
                        max_concurrency=max_concurrency,
                    ),
                    Pool("throughput", "throughput", self._replicas("throughput")),
                )
            },
            monotonic=lambda: self.now,
            make=self._make,
        )
        slots = Slots(None, process="one", monotonic=lambda: self.now)
        self.desk = PoolDesk(self.fleet, slots, monotonic=lambda: self.now)

    def _replicas(self, pool: str) -> tuple[Replica, ...]:
        name = f"flash/{pool}/0"
        return (Replica(name, ReplicaKind.OPENAI, "http://x", "m", EngineFlavour.VLLM),)

    def _make(self, replica: Replica, _: object) -> FakeBackend:
        self.engines[replica.name] = FakeBackend()
        return self.engines[replica.name]

    def says(
        self, pool: str, *, running: int = 0, drafts: int = 0, accepted: int = 0, started: float = 1.0
    ) -> None:
        lines = (
            f"process_start_time_seconds {started}",
            f"vllm:num_requests_running {running}",
            f"vllm:spec_decode_num_drafts_total {drafts}",
            f"vllm:spec_decode_num_draft_tokens_total {5 * drafts}",
            f"vllm:spec_decode_num_accepted_tokens_total {accepted}",
        )
        self.engines[f"flash/{pool}/0"].metrics = "\n".join(lines).encode()

    def first_pool(self) -> str:
        return self.desk.choose("flash", CHAT).order[0][0]

    def answered(self, pool: str, *, load: float, seconds: float) -> None:
        (member,) = self.fleet.members_of("flash", pool)
        self.desk.answered("flash", member, load=load, tokens=100, seconds=100 * seconds)


async def test_a_pool_without_a_bound_has_room_for_all():
    scene = Scene()
    leases = [
        await scene.desk.enter("flash", scene.fleet.pool("flash", "throughput"), stays=False)
        for _ in range(500)
    ]
    assert all(lease is FREE for lease in leases)
    await scene.desk.leave(FREE)


async def test_a_latency_pool_has_room_for_what_is_stated():
    scene = Scene(max_concurrency=3)
    leases = [
        await scene.desk.enter("flash", scene.fleet.pool("flash", "latency"), stays=False) for _ in range(5)
    ]
    assert sum(lease is not None for lease in leases) == 3
    assert scene.desk.held("flash/latency") == 3


async def test_the_room_shrinks_to_what_pays():
    scene = Scene(max_concurrency=8)
    for _ in range(40):
        for load in (1, 4, 8):
            scene.now += STEP_SECONDS
            scene.answered("latency", load=load, seconds=0.010 * load)
            scene.answered("throughput", load=20, seconds=0.045)
    bound = scene.desk.bound("flash", scene.fleet.pool("flash", "latency"))
    assert bound is not None
    assert 3 <= bound.high <= 5


async def test_drafts_that_are_rejected_send_chats_elsewhere_for_a_while():
    scene = Scene()
    scene.says("latency", drafts=1000, accepted=3000)
    await scene.desk.read_engines()
    assert scene.first_pool() == "latency"
    scene.says("latency", drafts=3000, accepted=3100)
    await scene.desk.read_engines()
    assert scene.first_pool() == "throughput"
    scene.now += FIRST_REST
    await scene.desk.read_engines()
    assert scene.first_pool() == "latency"


async def test_a_replica_that_others_keep_busy_is_placed_last():
    scene = Scene()
    scene.says("latency", running=9)
    scene.says("throughput", running=1)
    await scene.desk.read_engines()
    placed = scene.fleet.place("flash")
    assert placed is not None
    assert placed.member.pool.name == "throughput"
    assert [member.load(scene.now) for member in scene.fleet.members_of("flash")] == [9.0, 1.0]


async def test_a_prefix_is_looked_for_in_the_pools_that_were_chosen_only():
    scene = Scene()
    prompt = Prompt(600, [b"head"], session=b"conversation")

    def pool_of(pools: list[str] | None) -> tuple[str, int]:
        placed = scene.fleet.place("flash", (), prompt, pools)
        assert placed is not None
        return placed.member.pool.name, placed.predicted

    first = scene.fleet.place("flash", (), prompt, ["throughput"])
    assert first is not None
    await first.member.close(await first.member.open(REQUEST, scene.fleet.send("flash", first)))
    assert pool_of(None) == pool_of(["throughput"]) == ("throughput", 512)
    assert pool_of(["latency"]) == ("latency", 0)


async def test_an_engine_that_says_nothing_keeps_its_last_word():
    scene = Scene()
    scene.says("latency", running=2)
    await scene.desk.read_engines()
    scene.engines["flash/latency/0"].metrics = None
    await scene.desk.read_engines()
    (member,) = scene.fleet.members_of("flash", "latency")
    assert isinstance(member.word, EngineWord)


@pytest.mark.parametrize(("tokens", "seconds"), [(2, 1.0), (100, 0.0)])
def test_an_answer_too_short_to_tell_tells_nothing(tokens: int, seconds: float):
    scene = Scene()
    (member,) = scene.fleet.members_of("flash", "latency")
    scene.desk.answered("flash", member, load=1.0, tokens=tokens, seconds=seconds)
    assert scene.desk.speculations["flash"].latency.weight == 0.0


async def test_an_engine_that_started_anew_between_two_probes_is_told_of_once():
    scene, told = Scene(), list[str]()
    scene.fleet.returned = lambda member: told.append(member.replica.name)
    for started in (1.0, 1.0, 2.0, 2.0):
        scene.says("latency", started=started)
        scene.says("throughput")
        await scene.desk.read_engines()
    assert told == ["flash/latency/0"]


async def test_a_restart_that_a_probe_has_noticed_is_not_told_of_again():
    scene, told = Scene(), list[str]()
    scene.fleet.returned = lambda member: told.append(member.replica.name)
    scene.says("latency", started=1.0)
    await scene.desk.read_engines()
    for ready in (False, True):
        scene.engines["flash/latency/0"].ready = ready
        await scene.fleet.probe()
    scene.says("latency", started=2.0)
    await scene.desk.read_engines()
    assert told == ["flash/latency/0"]
