"""`flashlane gsm show`: what engines and stores say, and what is said of those that say nothing."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backends.gsm import metric_names
from backends.gsm.engine.store import PageStore, StoredPage
from backends.gsm.errors import GsmNotShown
from backends.gsm.shown import read_shown
from gateway.cli import app
from tests.fakes.upstream import ScriptedUpstream, Talk

# As vLLM 0.32.0 with GSM writes it, a few lines of its own included.
PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="flash"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="flash"} 4000.0
vllm:prefix_cache_hits_total{engine="0",model_name="flash"} 1000.0
# HELP vllm:gsm_on 1 while GSM reuses prefixes, 0 when its settings stand in the way.
# TYPE vllm:gsm_on gauge
vllm:gsm_on{engine="0",model_name="flash"} 1.0
vllm:gsm_asked_tokens_total{engine="0",model_name="flash"} 3.0e+03
vllm:gsm_asked_tokens_created{engine="0",model_name="flash"} 1.7e+09
vllm:gsm_reused_tokens_total{engine="0",model_name="flash",tier="host"} 1024.0
vllm:gsm_reused_tokens_total{engine="0",model_name="flash",tier="disk"} 512.0
vllm:gsm_reused_heads_total{engine="0",model_name="flash"} 2.0
vllm:gsm_rebuilt_groups_total{engine="0",model_name="flash"} 3.0
vllm:gsm_evicted_pages_total{engine="0",model_name="flash",tier="host"} 40.0
vllm:gsm_refused_pages_total{engine="0",model_name="flash",tier="host",reason="no_room"} 5.0
vllm:gsm_refused_pages_total{engine="0",model_name="flash",tier="host",reason="behind"} 6.0
vllm:gsm_skipped_files_total{engine="0",model_name="flash",reason="corrupt"} 7.0
vllm:gsm_held_groups{engine="0",model_name="flash",tier="host"} 12.5
vllm:gsm_held_bytes{engine="0",model_name="flash",tier="host"} 5.0e+07
vllm:gsm_peak_bytes{engine="0",model_name="flash",tier="host"} 6.0e+07
vllm:gsm_held_groups{engine="0",model_name="flash",tier="disk"} 20.0
vllm:gsm_held_bytes{engine="0",model_name="flash",tier="disk"} 8.0e+07
vllm:gsm_peak_bytes{engine="0",model_name="flash",tier="disk"} 8.0e+07
vllm:gsm_pinned_pages{engine="0",model_name="flash"} 4.0
"""
WITHOUT_GSM = 'vllm:num_requests_running{engine="0",model_name="flash"} 0.0\n'


def show(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["gsm", "show", *map(str, arguments)], env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    return result


async def _no_request(talk: Talk) -> None:
    raise AssertionError(talk.request.path)


@contextmanager
def engine(page: str | None) -> Generator[str]:
    """Run an engine with this page of metrics in a thread, and return its URL."""
    loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    upstream = ScriptedUpstream(_no_request, metrics=page)

    async def serve() -> None:
        async with upstream:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield upstream.url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def unused_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_it_tells_a_person_what_an_engine_holds_reused_and_gave_up() -> None:
    with engine(PAGE) as url:
        told = show(f"{url}/v1")

    assert told.exit_code == 0
    for line in (
        f"{url}: GSM is on",
        "hit rate        51.2% of 3,000 tokens",
        "engine's cache  25.0% of prompt tokens",
        "reused          1,536 tokens; 2 heads",
        "pinned          4 pages",
        "skipped files   corrupt 7",
        "host            12.5 groups, 50.0 MB held, 60.0 MB at the most",
        "evicted 40 pages to make room",
        "refused pages: behind 6, no_room 5",
        "disk            20.0 groups, 80.0 MB held",
    ):
        assert line in told.output


def test_scripts_get_the_same_as_json() -> None:
    with engine(PAGE) as url:
        data = json.loads(show(url, "--json").output)

    (row,) = data["engines"]
    assert (row["url"], row["trouble"], data["stores"]) == (url, None, [])
    gsm = row["gsm"]
    assert (gsm["on"], gsm["asked_tokens"], gsm["reused_tokens"], gsm["pinned_pages"]) == (
        True,
        3000,
        1536,
        4,
    )
    assert gsm["hit_rate"] == pytest.approx(0.512)
    assert gsm["tiers"]["host"] == {
        "groups": 12.5,
        "held_bytes": 50_000_000,
        "peak_bytes": 60_000_000,
        "reused_tokens": 1024,
        "evicted_pages": 40,
        "refused_pages": {"behind": 6, "no_room": 5},
    }


def test_the_cores_of_one_server_are_added_up_and_one_that_is_off_shows() -> None:
    second = PAGE.replace('engine="0"', 'engine="1"').replace(
        'vllm:gsm_on{engine="1",model_name="flash"} 1.0', 'vllm:gsm_on{engine="1",model_name="flash"} 0.0'
    )
    shown = read_shown((PAGE + second).encode())

    assert (shown.on, shown.asked_tokens, shown.tiers["host"].groups) == (False, 6000, 25.0)


def test_every_metric_of_gsm_is_read() -> None:
    names = {
        value
        for value in vars(metric_names).values()
        if isinstance(value, str) and value.startswith("vllm:gsm_")
    }
    nothing = read_shown(b"vllm:gsm_on 1")
    for name in names - {metric_names.ON}:
        labels = '{tier="host",reason="x"} 1'
        held = f'{metric_names.HELD}{{tier="host"}} 0\n'
        page = f"{metric_names.ON} 1\n{held}{name}{labels}\n{name}_total{labels}\n"
        assert read_shown(page.encode()) != nothing, name
        assert read_shown(page.encode()) != read_shown(f"{metric_names.ON} 1\n{held}".encode()), name


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (WITHOUT_GSM, "runs without GSM; start it with --kv-transfer-config"),
        ("", "no page of metrics of an engine"),
        ("llamacpp:requests_processing 1\n", "no page of metrics of an engine"),
        ("vllm:gsm_on{ 1\nvllm:gsm_on NaN\nvllm:gsm_on x\n\x00\n", "no page of metrics of an engine"),
    ],
)
def test_an_engine_without_gsm_is_named_with_the_remedy(page: str, says: str) -> None:
    with engine(page) as url:
        told = show(url)

    assert told.exit_code == 1
    assert f"flashlane: {url}: it" in told.output
    assert says in told.output
    with pytest.raises(GsmNotShown):
        read_shown(page.encode())


def test_an_engine_that_is_down_is_named_and_the_others_are_shown() -> None:
    down = unused_url()
    with engine(PAGE) as url:
        told = show(down, url)

    assert told.exit_code == 1
    assert f"flashlane: {down}: no answer from {down}/metrics" in told.output
    assert f"{url}: GSM is on" in told.output


def test_a_url_that_is_none_is_refused() -> None:
    told = show("localhost:8000")
    assert (told.exit_code, "'localhost:8000' is no http(s)://HOST:PORT" in told.output) == (2, True)


def write_config(folder: Path, flash: str, standard: str) -> Path:
    file = folder / "flashlane.yaml"
    file.write_text(
        f"models:\n"
        f"  flash: {{served_name: a, pools: [{{name: main, replicas: [{flash}]}}]}}\n"
        f"  standard: {{served_name: b, pools: [{{name: main, replicas: [{standard}]}}]}}\n"
        f"tenants: tenants\n"
    )
    return file


def test_a_configuration_may_have_engines_without_gsm(tmp_path: Path) -> None:
    with engine(PAGE) as flash, engine(WITHOUT_GSM) as standard:
        file = write_config(tmp_path, f'{{url: "{flash}", engine: vllm}}', f'{{url: "{standard}"}}')
        told = show("--config", file)
        alone = show("--config", write_config(tmp_path, f'{{url: "{standard}"}}', f'{{url: "{standard}"}}'))

    assert told.exit_code == 0
    assert f"flash/main/0 ({flash}): GSM is on" in told.output
    assert "flashlane: standard/main/0: it runs without GSM" in told.output
    assert alone.exit_code == 1


def test_a_configuration_without_a_vllm_server_says_so(tmp_path: Path) -> None:
    other = '{url: "http://127.0.0.1:9", engine: llama.cpp}'
    told = show("--config", write_config(tmp_path, other, other))

    assert told.exit_code == 1
    assert "lists no vLLM server" in told.output


KEYS = [bytes([number]) * 36 for number in range(5)]
SIZE = 1000


def make_store(folder: Path) -> Callable[[bytes], Path]:
    """Write five pages, and return where each is."""
    store = PageStore(folder, SIZE, {"weights": "smollm2 1234", "kv_dtype": "float32", "vllm": "0.32.0"})
    for number, key in enumerate(KEYS):
        store.write(StoredPage(key, KEYS[number - 1] if number else None), memoryview(bytes(SIZE)))
    store.close()
    return lambda key: folder / key.hex()[:2] / f"{key.hex()}.page"


def test_a_store_on_disk_tells_what_it_is_for_and_which_files_are_damaged(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    raw = bytearray(path(KEYS[0]).read_bytes())
    raw[20] ^= 1
    path(KEYS[0]).write_bytes(raw)
    path(KEYS[1]).write_bytes(path(KEYS[1]).read_bytes()[:-1])
    path(KEYS[2]).rename(path(KEYS[3]).with_name("00.page"))
    (path(KEYS[3]).parent / "notes.txt").write_text("mine")
    (tmp_path / "aside" / "17").write_bytes(b"half")
    files = sorted(tmp_path.rglob("*"))

    told = show("--disk", tmp_path)
    (store,) = json.loads(show("--disk", tmp_path, "--json").output)["stores"]

    assert told.exit_code == 0
    for line in (
        f"{tmp_path}: a store of GSM",
        "weights         smollm2 1234",
        "holds           2 pages, 2.3 KB",
        "corrupt files   3 (",
        "foreign files   1 (",
        "unfinished      1 files",
    ):
        assert line in told.output
    assert store["pages"] == 2
    assert store["corrupt"] == sorted(
        map(str, (path(KEYS[0]), path(KEYS[1]), path(KEYS[3]).with_name("00.page")))
    )
    assert sorted(tmp_path.rglob("*")) == files, "looking changes nothing"


def test_a_store_that_an_engine_uses_can_be_looked_at(tmp_path: Path) -> None:
    store = PageStore(tmp_path, SIZE, {"weights": "w"})
    try:
        told = show("--disk", tmp_path)
    finally:
        store.close()
    assert (told.exit_code, "holds           0 pages, 0 bytes" in told.output) == (0, True)


def test_stores_of_data_parallel_ranks_are_shown_each(tmp_path: Path) -> None:
    for rank in (0, 1):
        make_store(tmp_path / f"dp{rank}")
    stores: list[Any] = json.loads(show("--disk", tmp_path, "--json").output)["stores"]
    assert [store["folder"] for store in stores] == [str(tmp_path / "dp0"), str(tmp_path / "dp1")]


def test_a_folder_that_is_no_store_is_named_with_the_remedy(tmp_path: Path) -> None:
    for folder, content, says in (
        ("none", None, "there is no such folder"),
        ("empty", "", "is no store of GSM, for it has no store.json; give the gsm_disk_path"),
        ("torn", "{", "is no description of a store"),
        ("list", "[]", "does not say what its pages are for"),
    ):
        place = tmp_path / folder
        if content is not None:
            place.mkdir()
        if content:
            (place / "store.json").write_text(content)
        told = show("--disk", place)
        assert told.exit_code == 1, folder
        assert told.output.startswith(f"flashlane: {place}"), told.output
        assert says in told.output
