"""Profiles of engines, and the commands that are made of them."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backends.engines.profiles import PROFILES, VllmProfile, profile_of
from backends.engines.vllm import MODULE, check_flags, vllm_command
from backends.errors import ProfileInvalid
from gateway.cli import app

VLLM = [name for name, profile in PROFILES.items() if isinstance(profile, VllmProfile)]


def flags(name: str, *settings: str) -> dict[str, str]:
    """Return the flags of a profile with their values."""
    profile = profile_of(name, settings)
    assert isinstance(profile, VllmProfile)
    python, module, program, *words = vllm_command(profile).argv
    assert (python, module, program) == ("python3", "-m", MODULE)
    return {flag: value for flag, _, value in (word.partition("=") for word in words)}


def test_flash_for_few_chats_speculates_and_reads_prompts_at_one_go():
    found = flags("flash-latency")
    assert json.loads(found["--speculative-config"]) == {
        "method": "dspark",
        "num_speculative_tokens": 5,
        "draft_sample_method": "probabilistic",
        "rejection_sample_method": "block",
        "enable_adaptive_verification": True,
    }
    assert "--no-enable-chunked-prefill" in found
    assert found["--max-num-batched-tokens"] == found["--max-model-len"] == "32768"


def test_flash_for_many_requests_does_not_speculate():
    found = flags("flash-throughput")
    assert "--speculative-config" not in found
    assert "--no-enable-chunked-prefill" not in found
    assert (found["--max-num-seqs"], found["--gpu-memory-utilization"]) == ("256", "0.85")


@pytest.mark.parametrize("name", ["flash-latency", "flash-throughput"])
def test_flash_is_told_its_words(name: str):
    found = flags(name)
    assert {found[f"--{key}"] for key in ("tokenizer-mode", "tool-call-parser", "reasoning-parser")} == {
        "deepseek_v41"
    }
    assert "--enable-auto-tool-choice" in found


@pytest.mark.parametrize("name", VLLM)
def test_every_server_tells_what_the_gateway_reads(name: str):
    found = flags(name)
    assert "--enable-prompt-tokens-details" in found
    assert found["--scheduling-policy"] == "priority"
    assert json.loads(found["--kv-events-config"])["enable_kv_cache_events"] is True


@pytest.mark.parametrize(
    ("host", "events", "replay"),
    [
        ("0.0.0.0", r"tcp://\*:5557", r"tcp://\*:5558"),
        ("10.0.0.1", r"tcp://\*:5557", r"tcp://10\.0\.0\.1:5558"),
        ("127.0.0.1", r"ipc:///.+/kv-events-5557", r"tcp://127\.0\.0\.1:5558"),
    ],
)
def test_events_are_published_where_vllm_listens_and_on_a_loopback_not_to_the_network(
    host: str, events: str, replay: str
):
    profile = profile_of("standard")
    assert isinstance(profile, VllmProfile)
    argv = vllm_command(profile, host=host).argv
    (config,) = (flag.partition("=")[2] for flag in argv if flag.startswith("--kv-events-config="))
    found = json.loads(config)
    assert re.fullmatch(events, found["endpoint"])
    assert re.fullmatch(replay, found["replay_endpoint"])


@pytest.mark.parametrize(("speculation", "layer"), [("ngram", "workqueue"), ("none", None)])
def test_what_drafts_on_a_cpu_leaves_the_threads_of_the_model_alone(speculation: str, layer: str | None):
    profile = profile_of("vllm-cpu", [f"speculation={speculation}"])
    assert isinstance(profile, VllmProfile)
    assert vllm_command(profile).env.get("NUMBA_THREADING_LAYER") == layer


@pytest.mark.parametrize(
    ("kv_dtype", "threshold"), [("auto", 0.3), ("bfloat16", 0.3), ("fp8", 0.2), ("nvfp4", 0.2)]
)
def test_a_quantised_cache_comes_with_its_rebuild_threshold(kv_dtype: str, threshold: float):
    config = json.loads(flags("flash-throughput", f"kv_dtype={kv_dtype}")["--kv-transfer-config"])
    extra = config["kv_connector_extra_config"]
    assert extra["gsm_rebuild_threshold"] == threshold
    assert (extra["spec_name"], extra["gsm_host_bytes"]) == ("GsmOffloadingSpec", 64 * 2**30)


def test_a_knob_changes_its_flag_and_nothing_else():
    before, after = flags("standard"), flags("standard", "max_num_seqs=32", "quantization=fp8")
    assert after == {**before, "--max-num-seqs": "32", "--quantization": "fp8"}


def test_a_preempted_sequence_may_be_kept_in_host_memory():
    assert flags("standard", "kv_offload=host", "offload_gib=20")["--kv-offloading-size"] == "20"


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("flash", "x=1", "there is no profile 'flash'; there are: flash-latency"),
        ("flash-latency", "max_num_seqs", "write KNOB=VALUE"),
        ("flash-latency", "max_seqs=1", "no knob 'max_seqs'; it has: model"),
        ("flash-latency", "name=x", "no knob 'name'"),
        ("flash-latency", "max_num_seqs=many", "max_num_seqs"),
        ("flash-latency", "speculation=eagle", "speculation"),
        ("flash-latency", "max_model_len=0", "max_model_len has to be stated"),
        ("flash-latency", "max_num_batched_tokens=2048", "it has to be 32768 or more"),
        ("standard", "gpu_memory_utilization=85", "a share in"),
        ("flash-latency", "block_size=100", "no multiple of block_size 100"),
        ("flash-latency", "gsm_disk=/cache", "gsm_disk and gsm_disk_gib go together"),
    ],
)
def test_a_wrong_knob_is_named(name: str, setting: str, words: str):
    with pytest.raises(ProfileInvalid, match=words):
        profile_of(name, [setting])


def test_the_command_is_printed_for_a_shell():
    result = CliRunner().invoke(app, ["engine", "vllm-cpu", "--print", "--port", "8123"])
    assert result.exit_code == 0
    assert result.stdout.startswith("PYTHONHASHSEED=0 \\\n")
    assert "--port=8123" in result.stdout
    assert "'--speculative-config={" in result.stdout


def test_profiles_are_listed():
    result = CliRunner().invoke(app, ["engine"])
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(PROFILES)


FAKE_ARGPARSE = """
import argparse
class FlexibleArgumentParser(argparse.ArgumentParser):
    pass
"""
FAKE_CLI = """
def make_arg_parser(parser):
    parser.add_argument("--model")
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8"])
    parser.add_argument("--speculative-config")
    return parser
"""
FAKE_SPECULATIVE = """
import dataclasses, typing
SpeculativeMethod = typing.Literal["ngram", typing.Literal["eagle"]]
@dataclasses.dataclass
class SpeculativeConfig:
    method: str = ""
    num_speculative_tokens: int = 0
"""


@pytest.fixture
def old_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that looks like an older vLLM, as far as its flags go."""
    files = {
        "utils/argparse_utils.py": FAKE_ARGPARSE,
        "entrypoints/openai/cli_args.py": FAKE_CLI,
        "config/speculative.py": FAKE_SPECULATIVE,
    }
    for name, text in files.items():
        file = tmp_path / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("old_vllm")
async def test_what_the_installed_vllm_does_not_take_is_told_by_flag():
    given = [
        "--model=m",
        "--max-num-seqs=many",
        "--kv-cache-dtype=fp4",
        "--kv-events-config={}",
        '--speculative-config={"method":"dspark"}',
    ]
    report = await check_flags(given, "python3")
    assert report.flags == 5
    assert {each.flag: each.trouble for each in report.troubles} == {
        "--max-num-seqs": "argument --max-num-seqs: invalid int value: 'many'",
        "--kv-cache-dtype": "argument --kv-cache-dtype: invalid choice: 'fp4' (choose from 'auto', 'fp8')",
        "--kv-events-config": "this version has no such flag",
        "--speculative-config": "this version has no method 'dspark'",
    }


async def test_an_environment_without_vllm_is_named():
    with pytest.raises(ProfileInvalid, match="has no vLLM whose flags can be read"):
        await check_flags(["--model=m"], "python3")


async def test_a_python_that_is_not_there_is_named():
    with pytest.raises(ProfileInvalid, match="there is no Python at '/nowhere/python'"):
        await check_flags(["--model=m"], "/nowhere/python")
