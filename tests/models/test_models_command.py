"""`flashlane models`."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from backends.errors import ModelUnavailable
from backends.models.types import ModelSource
from gateway.cli.models import app, pull_all
from tests.models.conftest import Depot


def test_the_list_tells_scripts_what_is_there(tmp_path: Path):
    result = CliRunner().invoke(app, ["list", "--json"], env={"FLASHLANE_MODELS": str(tmp_path)})
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert {row["name"] for row in rows} >= {"smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct"}
    assert {row["state"] for row in rows} == {"absent"}
    assert all(Path(row["file"]).parent == tmp_path for row in rows)


def test_the_list_is_a_table_for_people(tmp_path: Path):
    result = CliRunner().invoke(app, ["list"], env={"FLASHLANE_MODELS": str(tmp_path)})
    assert result.exit_code == 0
    assert "qwen2.5-coder-1.5b-instruct" in result.stdout
    assert "1,117 MB" in result.stdout


def test_an_unknown_name_is_one_clear_line_and_exit_code_1(tmp_path: Path):
    result = CliRunner().invoke(app, ["pull", "huge"], env={"FLASHLANE_MODELS": str(tmp_path)})
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is no model 'huge'; known are ")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_pull_shows_how_far_it_is_and_where_the_file_lies(depot: Depot, *, terminal: bool):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=terminal, width=120)
    pull_all(depot.store, ["tiny"], ModelSource.INDEX, console)
    assert f"tiny: {depot.target}" in shown.getvalue()
    if not terminal:
        assert "part 3 of 3" in shown.getvalue()


def test_models_before_one_that_fails_are_there(depot: Depot):
    with pytest.raises(ModelUnavailable, match="huge"):
        pull_all(depot.store, ["tiny", "huge"], ModelSource.INDEX, Console(file=io.StringIO()))
    assert depot.target.exists()
