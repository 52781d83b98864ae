"""`flashlane classifier`."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from classifier.features import FEATURE_NAMES
from classifier.model import Classifier
from gateway.cli.classifier import app


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
