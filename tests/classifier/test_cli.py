"""`flashlane classifier`."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from classifier.adapted_file import load_card
from classifier.features import FEATURE_NAMES
from classifier.model import Classifier
from gateway.cli import app as flashlane
from gateway.cli.classifier import app
from gateway.shared_gains import gains_key, read_gains
from policies.redis_client import connect
from tests.support.gateway import KEY, write_tenant


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_explain_says_where_a_prompt_goes_and_why():
    result = run("explain", "What is the capital of France?")
    assert result.exit_code == 0
    assert "flash" in result.stdout
    assert all(name in result.stdout for name in FEATURE_NAMES)


def test_explain_prints_json_for_scripts():
    result = run("explain", "Prove that sqrt(2) is irrational.", "--system", "Be brief.", "--json")
    found = json.loads(result.stdout)
    assert found["route"] == "standard"
    assert found["score"] > found["cut"]
    assert found["domain"] == "math"
    assert len(found["task"]) == 16
    assert found["features"]["prove"]["contribution"] > 0


def test_eval_prints_a_table(labelled: Path):
    result = run("eval", "--data", str(labelled))
    assert result.exit_code == 0
    assert all(word in result.stdout for word in ("alpha", "macro"))


def test_eval_prints_json_for_scripts(labelled: Path):
    found = json.loads(run("eval", "--data", str(labelled), "--json").stdout)
    assert set(found["sources"]) == {"alpha", "beta", "gamma"}
    assert {"apgr", "apgr_weighted", "cpt80", "weak_failure_auc", "length", "random"} <= set(found["macro"])


def test_eval_trains_without_each_source_when_asked_to(labelled: Path):
    assert "macro" in run("eval", "--data", str(labelled), "--loso").stdout


def test_eval_draws_the_curve(labelled: Path, tmp_path: Path):
    result = run("eval", "--data", str(labelled / "alpha.parquet"), "--plot", str(tmp_path / "curve.svg"))
    assert result.exit_code == 0
    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert drawn.count("<polyline") == 3


def test_eval_of_nothing_says_what_to_give():
    assert "--data" in run("eval").stderr
    assert "routellm" in run("eval", "--suite", "other", "somewhere").stderr


def test_eval_of_a_folder_without_routellm_files_is_one_clear_line(tmp_path: Path):
    result = run("eval", "--suite", "routellm", str(tmp_path))
    assert result.exit_code == 2
    assert "lm-sys/RouteLLM" in result.stderr


@pytest.fixture
def own_pairs(tmp_path: Path) -> Path:
    """Flash fails one of two tasks."""
    file = tmp_path / "pairs.jsonl"
    lines = [
        {
            "prompt": f"Do number {number}",
            "flash_score": float(number % 2 == 0 or number % 3 == 0),
            "standard_score": 1.0,
            "task": ("easy", "hard")[number % 2],
        }
        for number in range(120)
    ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return file


def test_adapting_makes_versions_that_are_listed_served_and_rolled_back(own_pairs: Path, tmp_path: Path):
    models = str(tmp_path / "models")
    first = run("adapt", "--pairs", str(own_pairs), "--out", models)
    assert first.exit_code == 0
    assert "APGR before" in first.stdout
    second = json.loads(run("adapt", "--pairs", str(own_pairs), "--out", models, "--json").stdout)
    assert second["number"] == 2
    assert second["report"]["after"]["value"] > second["report"]["before"]["value"]
    listed = json.loads(run("versions", models, "--json").stdout)
    assert listed["current"] == 2
    assert set(listed["versions"]) == {"1", "2"}
    assert run("versions", models).exit_code == 0
    assert "version 1" in run("rollback", models).stdout
    assert "no version before 1" in run("rollback", models).stderr
    shown = json.loads(run("explain", "Do it", "--model", models, "--task", "hard", "--json").stdout)
    assert set(shown["parts"]) == {"prior", "topic", "task"}
    assert shown["model_version"] == second["version"]


def test_pairs_that_say_nothing_are_refused_and_write_nothing(own_pairs: Path, tmp_path: Path):
    lines = own_pairs.read_text(encoding="utf-8").splitlines()[:20]
    own_pairs.write_text("\n".join(lines), encoding="utf-8")
    result = run("adapt", "--pairs", str(own_pairs), "--out", str(tmp_path / "models"))
    assert result.exit_code == 2
    assert "too few" in result.stderr
    assert not (tmp_path / "models").exists()


def test_the_figures_after_so_many_pairs_are_printed(labelled: Path):
    result = run("eval", "--data", str(labelled), "--adapt-curve", "--draws", "1", "--json")
    assert json.loads(result.stdout) == {"macro": {}}  # too few prompts in these sources


def test_train_writes_weights_that_load(labelled: Path, tmp_path: Path):
    result = run("train", "--data", str(labelled), "--out", str(tmp_path / "weights"))
    assert result.exit_code == 0
    assert Classifier.load(tmp_path / "weights").card.version in result.stdout


@pytest.mark.parametrize("command", [("eval",), ("train", "--out", "unused")])
def test_a_missing_folder_is_one_clear_line(tmp_path: Path, command: tuple[str, ...]):
    result = run(*command, "--data", str(tmp_path / "nowhere"))
    assert result.exit_code == 2
    assert result.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "nowhere" in result.stderr


@pytest.mark.parametrize(
    ("module", "package"), [("pyarrow", "pyarrow"), ("sklearn.linear_model", "scikit-learn")]
)
def test_a_package_that_is_not_installed_is_named_with_the_remedy(
    labelled: Path, monkeypatch: pytest.MonkeyPatch, module: str, package: str
):
    monkeypatch.setitem(sys.modules, module, None)  # makes importing it fail
    result = run("eval", "--data", str(labelled), "--loso")
    assert result.exit_code == 2
    assert f"{package} is not installed" in result.stderr
    assert "flashlane[train]" in result.stderr


def test_an_output_that_is_a_file_is_one_clear_line(labelled: Path, tmp_path: Path):
    (tmp_path / "taken").write_text("x")
    result = run("train", "--data", str(labelled), "--out", str(tmp_path / "taken"))
    assert result.exit_code == 2
    assert "taken" in result.stderr


CONFIG = """
models:
  flash: {served_name: a, pools: [{name: main, replicas: [{url: "http://127.0.0.1:9"}]}]}
  standard: {served_name: b, pools: [{name: main, replicas: [{url: "http://127.0.0.1:9"}]}]}
tenants: tenants
classifier: versions
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A gateway's configuration with the tenant acme, which allows a loss."""
    write_tenant(tmp_path / "tenants", "acme", KEY, {"routing": {"max_quality_loss": 0.1}})
    file = tmp_path / "flashlane.yaml"
    file.write_text(CONFIG)
    return file


def test_adapting_for_a_tenant_makes_the_version_that_its_gateway_serves(
    own_pairs: Path, config: Path, tmp_path: Path
):
    checked = CliRunner().invoke(flashlane, ["config", "check", str(config)])
    assert "not proven yet (no pairs), so standard_share 0.35 holds" in checked.stdout
    place = ("--tenant", "acme", "--config", str(config))
    adapted = run("adapt", "--pairs", str(own_pairs), *place, "--json")
    assert adapted.exit_code == 0, adapted.stderr
    card = load_card(tmp_path / "versions" / "acme" / "0001")
    assert card.models == "a+b"
    checked = CliRunner().invoke(flashlane, ["config", "check", str(config)])
    assert "proven with confidence 0.95 (120 pairs, " in checked.stdout
    model = ("--model", str(tmp_path / "versions" / "acme"))
    shown = run("explain", "Do it", *model, "--max-quality-loss", "0.1", "--json")
    assert "for a loss of 0.1 with confidence 0.95 (120 pairs" in json.loads(shown.stdout)["cut_rule"]
    shown = run("explain", "Do it", *model, "--max-quality-loss", "0.01")
    assert "as there is none for a loss of 0.01" in " ".join(shown.stdout.split())


def test_adapting_needs_a_folder_or_a_tenant_that_is_there(own_pairs: Path, config: Path):
    for place in ((), ("--tenant", "acme", "--out", "folder")):
        assert "either --tenant" in run("adapt", "--pairs", str(own_pairs), *place).stderr
    unknown = run("adapt", "--pairs", str(own_pairs), "--tenant", "acm", "--config", str(config))
    assert unknown.exit_code == 1
    assert "did you mean 'acme'?" in unknown.stderr


async def test_recorded_pairs_are_counted_under_the_version_that_is_served(
    own_pairs: Path, config: Path, redis_url: str
):
    await asyncio.to_thread(config.write_text, CONFIG + f"redis: {{url: '{redis_url}'}}\n")
    async with connect(redis_url) as redis:
        await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
        arguments = ("record", "--pairs", str(own_pairs), "--tenant", "acme", "--config", str(config))
        recorded = await asyncio.to_thread(run, *arguments, "--json")
        assert recorded.exit_code == 0, recorded.stderr
        found = json.loads(recorded.stdout)
        assert found["tasks"] == {"easy": 60, "hard": 60}
        gains = await read_gains(redis, gains_key("acme", "a+b", found["version"]))
    assert gains.tasks["hard"].pairs == 60
    assert gains.effect("hard") > 0.1 > gains.effect("easy")


def test_recording_without_a_gateway_or_without_tasks_is_one_clear_line(
    own_pairs: Path, config: Path, tmp_path: Path
):
    arguments = ("record", "--tenant", "acme", "--config", str(config), "--pairs")
    env = {"FLASHLANE_STATE": str(tmp_path / "state")}
    nowhere = CliRunner().invoke(app, [*arguments, str(own_pairs)], env=env)
    assert nowhere.exit_code == 1
    assert "none has run here" in nowhere.stderr
    (tmp_path / "state" / "valkey").mkdir(parents=True)
    (tmp_path / "state" / "valkey" / "url").write_text("redis://127.0.0.1:9/0")
    away = CliRunner().invoke(app, [*arguments, str(own_pairs)], env=env)
    assert away.exit_code == 1
    assert "nothing was counted" in away.stderr
    nameless = tmp_path / "nameless.jsonl"
    nameless.write_text('{"prompt": "Do it", "flash_score": 0.0, "standard_score": 1.0}\n')
    assert "no pair names its task" in CliRunner().invoke(app, [*arguments, str(nameless)], env=env).stderr
