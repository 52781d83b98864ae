"""The command `flashlane`: what it prints, how it ends, and what it says of what is wrong."""

import json
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from backends.models.catalogue import CATALOGUE
from gateway.cli import app
from policies.keys import hash_key
from policies.tenant_file import parse_tenant_file
from policies.yaml_file import read_yaml
from tests.support.gateway import KEY, write_tenant

MODEL = CATALOGUE[0]
GOOD = """
server: {port: 0}
models:
  flash: {served_name: a, pools: [{name: main, replicas: [{url: "http://127.0.0.1:9"}]}]}
  standard: {served_name: b, pools: [{name: main, replicas: [{url: "http://127.0.0.1:9"}]}]}
tenants: tenants
"""
EMBEDDED = GOOD.replace('url: "http://127.0.0.1:9"', f"embedded: {MODEL.name}", 1)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A good configuration with one tenant."""
    write_tenant(tmp_path / "tenants", "acme", KEY, {})
    file = tmp_path / "flashlane.yaml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def taken_port() -> Generator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def flashlane(*arguments: object, state: Path | None = None) -> Result:
    """Run the command in this process, with folders of the test's own."""
    env = (
        {}
        if state is None
        else {"FLASHLANE_STATE": str(state / "state"), "FLASHLANE_MODELS": str(state / "models")}
    )
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", **env})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def refusal(*arguments: object, state: Path) -> str:
    """Run a command that must fail with status 1; return what it says on standard error."""
    result = flashlane(*arguments, state=state)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("flashlane: ")
    return result.stderr


# config


def test_a_good_configuration_is_valid(config: Path):
    result = flashlane("config", "check", config)
    assert (result.exit_code, result.stdout) == (0, f"{config}: is valid\n")


def test_what_is_read_and_not_acted_on_is_said(config: Path):
    config.write_text(GOOD.replace("{port: 0}", "{port: 0, admin_key_env: ADMIN}", 1))
    write_tenant(config.parent / "tenants", "acme", KEY, {"limits": {"rpm": 5}})
    lines = flashlane("config", "check", config).stdout.splitlines()
    assert any("server.admin_key_env: read, but" in line for line in lines)
    assert any("acme.yaml: limits: read, but" in line for line in lines)
    assert lines[-1] == f"{config}: is valid"


def test_a_typo_is_told_with_its_file_its_path_and_a_guess(config: Path):
    config.write_text(GOOD.replace("replicas", "replica", 1))
    told = refusal("config", "check", config, state=config.parent)
    assert f"{config}: models.flash.pools.0.replica: unknown" in told
    assert "did you mean 'replicas'?" in told


def test_a_typo_in_a_tenants_file_is_told_too(config: Path):
    file = config.parent / "tenants" / "acme.yaml"
    file.write_text("tenant: acme\nruoting: {}\n")
    told = refusal("config", "check", config, state=config.parent)
    assert f"{file}: ruoting: unknown" in told


def test_a_folder_of_tenants_that_is_missing_is_told(config: Path):
    config.write_text(GOOD.replace("tenants: tenants", "tenants: nowhere"))
    assert "nowhere" in refusal("config", "check", config, state=config.parent)


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    assert str(tmp_path / "no.yaml") in refusal("config", "check", tmp_path / "no.yaml", state=tmp_path)


@pytest.mark.parametrize("what", ["config", "tenant"])
def test_the_schema_is_json_that_takes_a_good_file(config: Path, what: str):
    result = flashlane("config", "schema", what)
    file = config if what == "config" else config.parent / "tenants" / "acme.yaml"
    jsonschema.validate(read_yaml(file), json.loads(result.stdout))


def test_a_schema_that_is_not_known_is_a_usage_error():
    result = flashlane("config", "schema", "nonsense")
    assert result.exit_code == 2
    assert "'nonsense' is neither 'config' nor 'tenant'" in result.stderr


# keys


def keys_of(file: Path) -> dict[str, str]:
    """Return the names and hashes of a tenant's keys."""
    return {key.name: key.sha256 for key in parse_tenant_file(file).keys}


def test_a_key_is_made_printed_once_listed_and_revoked(config: Path):
    made = flashlane("keys", "create", "--tenant", "acme", "--name", "ci", "-c", config)
    key = made.stdout.strip()
    assert keys_of(config.parent / "tenants" / "acme.yaml")["ci"] == hash_key(key)
    listed = flashlane("keys", "list", "-c", config, "--json").stdout
    assert json.loads(listed) == [{"tenant": "acme", "name": name} for name in ("web", "ci")]
    assert key not in listed
    assert hash_key(key) not in listed
    assert "ci" in flashlane("keys", "list", "-c", config).stdout
    gone = flashlane("keys", "revoke", "--tenant", "acme", "--name", "ci", "-c", config)
    assert "valid no longer" in gone.stdout
    assert keys_of(config.parent / "tenants" / "acme.yaml").keys() == {"web"}


def test_without_a_configuration_keys_are_those_of_the_state_folder(tmp_path: Path):
    assert json.loads(flashlane("keys", "list", "--json", state=tmp_path).stdout) == []
    key = flashlane("keys", "create", "--tenant", "new", "--name", "first", state=tmp_path).stdout.strip()
    assert keys_of(tmp_path / "state" / "tenants" / "new.yaml") == {"first": hash_key(key)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "--tenant", "acme", "--name", "web"], "already has a key 'web'"),
        (["create", "--tenant", "acme", "--name", "a b"], "keys.1.name"),
        (["create", "--tenant", "../evil", "--name", "x"], "tenant: String should match"),
        (["revoke", "--tenant", "acme", "--name", "nope"], "has no key 'nope'"),
        (["revoke", "--tenant", "nobody", "--name", "web"], "no tenant 'nobody'"),
    ],
)
def test_a_key_that_cannot_be_made_or_revoked_changes_nothing(config: Path, arguments: list[str], words: str):
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in config.parent.rglob("*") if path.is_file()}

    before = files()
    assert words in refusal("keys", *arguments, "-c", config, state=config.parent)
    assert files() == before


# serve


def state_of(folder: Path) -> list[str]:
    """Return the files that a gateway has made."""
    return [path.name for path in (folder / "state").rglob("*") if path.is_file()]


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_port_in_use_is_told_and_nothing_is_started(config: Path, taken_port: int, command: str):
    told = refusal(command, "-c", config, "--port", taken_port, state=config.parent)
    assert f"Cannot listen on 127.0.0.1:{taken_port}: Address already in use" in told
    assert "--port" in told
    assert state_of(config.parent) == []


def test_a_model_file_that_is_missing_is_told_with_the_remedy(config: Path):
    config.write_text(EMBEDDED)
    told = refusal("serve", "-c", config, state=config.parent)
    assert f"flashlane models pull {MODEL.name}" in told
    assert state_of(config.parent) == []


def test_a_model_file_that_is_corrupt_is_named(config: Path):
    config.write_text(EMBEDDED)
    file = config.parent / "models" / MODEL.file_name
    file.parent.mkdir()
    file.write_bytes(b"not a model")
    told = refusal("serve", "-c", config, state=config.parent)
    assert str(file) in told
    assert state_of(config.parent) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (MODEL.name, "huge", "there is no model 'huge'; known are "),
        ("pools:", "poolz:", "did you mean 'pools'?"),
        ("tenants: tenants", "tenants: nowhere", "nowhere"),
        ("embedded:", "api_key_env: NOT_SET_ANYWHERE, embedded:", "the variable NOT_SET_ANYWHERE is not set"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_started(config: Path, old: str, new: str, words: str):
    config.write_text(EMBEDDED.replace(old, new, 1))
    assert words in refusal("serve", "-c", config, state=config.parent)
    assert state_of(config.parent) == []


def test_a_ledger_that_cannot_be_opened_is_named(config: Path):
    config.write_text(f"ledger: {{url: 'sqlite:////nowhere/x.db'}}\n{GOOD}")
    told = refusal("serve", "-c", config, state=config.parent)
    assert "The ledger sqlite:////nowhere/x.db cannot be opened" in told
    assert state_of(config.parent) == []


def test_the_real_command_ends_with_one_line_and_no_trace(config: Path, taken_port: int):
    program = "import sys; from gateway.cli import app; app(prog_name='flashlane')"
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", "-c", str(config), "--port", str(taken_port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert str(taken_port) in done.stderr


# the rest


def test_a_command_that_does_not_exist_is_a_usage_error():
    result = flashlane("sevre")
    assert result.exit_code == 2
    assert "No such command 'sevre'" in result.stderr


def test_serve_needs_a_configuration():
    result = flashlane("serve")
    assert result.exit_code == 2
    assert "--config" in result.stderr


def test_help_lists_every_command():
    result = flashlane("--help")
    assert result.exit_code == 0
    for command in ("up", "serve", "models", "keys", "config", "classifier"):
        assert command in result.stdout
