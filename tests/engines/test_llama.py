"""The embedded llama.cpp server."""

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import msgspec
import pytest

from backends.engines.llama import LlamaOptions, llama_spec, llama_threads, usable_cores
from backends.engines.probes import free_port
from backends.engines.types import EngineState
from backends.errors import EngineFailed
from backends.models.catalogue import SMOLLM2
from backends.models.store import ModelStore
from gateway.settings import Settings
from tests.engines.conftest import Bench
from tests.support.processes import is_alive
from tests.support.waiting import until


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_an_engine_takes_half_of_the_cores_and_one_thread_on_two(cores: int, threads: int):
    assert llama_threads(cores) == threads


def test_usable_cores_are_at_least_one_and_at_most_those_of_the_machine():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_the_command_has_the_model_the_port_and_the_options(tmp_path: Path):
    options = LlamaOptions(context=1024, slots=3, threads=5, cache_mib=7)
    argv = llama_spec("flash", tmp_path / "m.gguf", 1234, tmp_path / "log", options).argv
    pairs = dict(zip(argv[4::2], argv[5::2], strict=True))
    assert pairs == {
        "--model": str(tmp_path / "m.gguf"),
        "--port": "1234",
        "--alias": "flash",
        "--context": "1024",
        "--slots": "3",
        "--threads": "5",
        "--cache-mib": "7",
    }


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "llama server: cannot read the model: .*No such file"),
        (b"PK\3\4", r"llama server: .*m\.gguf is not a GGUF file"),
        # llama.cpp may end the process before we have our say; then the words are its own.
        (
            b"GGUF" + bytes(1000),
            (
                r"(llama server: cannot serve .*m\.gguf on 127\.0\.0\.1:\d+, see above"
                r"|error loading model: .*m\.gguf)"
            ),
        ),
    ],
    ids=["missing", "other", "corrupt"],
)
async def test_a_file_that_cannot_be_served_is_named(
    bench: Bench, tmp_path: Path, content: bytes | None, complaint: str
):
    model = tmp_path / "m.gguf"
    if content is not None:
        model.write_bytes(content)
    engine = bench.engine(llama_spec("flash", model, free_port(), tmp_path / "llama.log"))
    with pytest.raises(EngineFailed, match=rf"(?s)llama server of flash exited with code 1; .*{complaint}"):
        await engine.start()
    assert engine.status.pid is None


@pytest.fixture
def smollm2() -> Path:
    return ModelStore(Settings.from_env().models_dir).path(SMOLLM2.name)


def _ask(port: int) -> dict[str, object]:
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 4}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        msgspec.json.encode(body),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return msgspec.json.decode(answer.read(), type=dict[str, object])


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.read()


@pytest.mark.real_model
async def test_a_real_model_answers_under_its_name_before_and_after_a_kill(
    bench: Bench, tmp_path: Path, smollm2: Path
):
    port = free_port()
    spec = llama_spec("flash", smollm2, port, tmp_path / "llama.log", LlamaOptions(context=512, slots=2))
    engine = bench.engine(spec)
    await engine.start()
    assert (await asyncio.to_thread(_ask, port))["model"] == "flash"
    slots = msgspec.json.decode(await asyncio.to_thread(_get, port, "/slots"), type=list[dict[str, object]])
    assert [slot["n_ctx"] for slot in slots] == [512, 512]
    assert b"llamacpp:prompt_tokens_total" in await asyncio.to_thread(_get, port, "/metrics")

    assert engine.status.pid is not None
    os.kill(engine.status.pid, signal.SIGKILL)
    await engine.wait_for(lambda status: status.restarts == 1 and status.state is EngineState.READY)
    assert (await asyncio.to_thread(_ask, port))["model"] == "flash"


@pytest.mark.real_model
async def test_a_real_server_ends_with_its_input_where_the_kernel_ties_nothing(
    bench: Bench, tmp_path: Path, smollm2: Path
):
    spec = llama_spec("flash", smollm2, free_port(), tmp_path / "llama.log")
    process = await asyncio.create_subprocess_exec(
        *spec.argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    async with asyncio.timeout(60):
        while not await spec.probe():
            assert is_alive(process.pid)
        process.stdin.close()
        assert await process.wait() == 0


@pytest.mark.real_model
async def test_a_real_server_dies_with_a_parent_that_is_killed(bench: Bench, tmp_path: Path, smollm2: Path):
    spec = llama_spec("flash", smollm2, bench.port, tmp_path / "llama.log")
    program = Path(__file__).with_name("fake_gateway.py")
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program),
        str(bench.port),
        str(tmp_path / "orphan.log"),
        *spec.argv,
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(pid), "the engine to die with its parent")
