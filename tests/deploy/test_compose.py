"""compose.yaml: valid by the Compose specification, and of one mind with the configuration that it mounts."""

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import BaseModel, Field

from backends.types import ReplicaKind
from gateway.config import Config, load_config
from policies.yaml_file import read_for_edit, read_yaml, write_yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"
EXAMPLE = ROOT / "examples" / "self-hosted-vllm"
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([?-])([^}]*))?\}")


class HealthCheck(BaseModel):
    test: list[str]


class Service(BaseModel):
    image: str | None = None
    build: str | None = None
    command: list[str] = Field(default_factory=list[str])
    environment: dict[str, str] = Field(default_factory=dict[str, str])
    volumes: list[str] = Field(default_factory=list[str])
    ports: list[str] = Field(default_factory=list[str])
    depends_on: dict[str, dict[str, str]] | list[str] = Field(default_factory=list[str])
    healthcheck: HealthCheck | None = None

    def option(self, name: str) -> str | None:
        """Return the value of `--name=value` in the command, with the defaults of its variables."""
        prefix = f"--{name}="
        return next(
            (with_defaults(word).removeprefix(prefix) for word in self.command if word.startswith(prefix)),
            None,
        )


class Compose(BaseModel):
    services: dict[str, Service]
    volumes: dict[str, None]


def with_defaults(text: str) -> str:
    """Put the defaults in place of variables, and `secret` where there is none."""
    return VARIABLE.sub(lambda match: match[3] if match[2] == "-" else "secret", text)


@pytest.fixture(scope="module")
def compose() -> Compose:
    return Compose.model_validate(read_yaml(COMPOSE))


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(EXAMPLE / "flashlane.yaml")


def judge(file: Path) -> subprocess.CompletedProcess[str]:
    """Hold a file against the JSON Schema of the Compose specification."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_compose_yaml_follows_the_compose_specification():
    verdict = judge(COMPOSE)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [
        ("gateway", "imagee", "python"),
        ("redis", "ports", 6379),
        ("vllm-flash", "deploy", {"resources": {"reservations": {"devices": [{"count": "all"}]}}}),
        ("gateway", "depends_on", {"redis": {"condition": "service_happy"}}),
    ],
)
def test_a_broken_compose_file_is_refused(tmp_path: Path, service: str, key: str, value: object):
    broken = read_for_edit(COMPOSE)
    broken["services"][service][key] = value
    file = tmp_path / "compose.yaml"
    write_yaml(file, broken)
    verdict = judge(file)
    assert verdict.returncode == 1
    assert service in verdict.stdout


def test_every_part_is_there(compose: Compose):
    assert set(compose.services) == {
        "gateway",
        "redis",
        "postgres",
        "vllm-flash",
        "vllm-standard",
        "prometheus",
        "grafana",
    }


def test_no_secret_stands_in_the_file(compose: Compose):
    for service in compose.services.values():
        for name, value in service.environment.items():
            if re.search(r"PASSWORD|KEY|SECRET|TOKEN", name):
                assert re.fullmatch(r"\$\{[A-Z_]+(:\?[^}]+|:-)\}", value), name
            password = urlsplit(VARIABLE.sub("$", value)).password
            assert password in {None, "$"}, name


def test_what_must_be_set_is_explained(compose: Compose):
    needed = {match[1] for match in VARIABLE.finditer(COMPOSE.read_text("utf-8"))}
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    assert {name for name in needed if f"`{name}`" not in readme} == set()


def test_ports_are_published_to_this_machine_only(compose: Compose):
    ports = [with_defaults(port) for service in compose.services.values() for port in service.ports]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_every_image_has_a_tag(compose: Compose):
    for name, service in compose.services.items():
        assert (service.image is None) == (service.build is not None), name
        if service.image is not None:
            assert re.search(r":[\w.-]*\d[\w.-]*$", service.image), service.image


def test_what_is_mounted_is_there(compose: Compose):
    sources = [
        volume.partition(":")[0] for service in compose.services.values() for volume in service.volumes
    ]
    assert [source for source in sources if source.startswith(".") and not (ROOT / source).is_dir()] == []
    assert {source for source in sources if not source.startswith(".")} == set(compose.volumes)


def test_the_gateway_waits_until_its_state_is_healthy(compose: Compose):
    assert compose.services["gateway"].depends_on == {
        "redis": {"condition": "service_healthy"},
        "postgres": {"condition": "service_healthy"},
    }
    for name in ("redis", "postgres"):
        assert compose.services[name].healthcheck is not None


def test_the_gateway_serves_the_mounted_configuration_where_it_is_published(compose: Compose, config: Config):
    gateway = compose.services["gateway"]
    assert "./examples/self-hosted-vllm:/etc/flashlane:ro" in gateway.volumes
    assert gateway.command == ["flashlane", "serve", "--config", "/etc/flashlane/flashlane.yaml"]
    assert config.server.host == "0.0.0.0"
    assert [port.rpartition(":")[2] for port in gateway.ports] == [str(config.server.port)]
    assert gateway.healthcheck is not None
    assert f"http://127.0.0.1:{config.server.port}/health/readiness" in gateway.healthcheck.test[-1]


def test_the_mounted_configuration_finds_its_state_in_the_box(compose: Compose, config: Config):
    gateway = compose.services["gateway"]
    environment = {name: with_defaults(value) for name, value in gateway.environment.items()}
    assert config.redis is not None
    assert config.ledger is not None
    redis = urlsplit(config.redis.resolve("redis", environment))
    ledger = urlsplit(config.ledger.resolve("ledger", environment))
    postgres = compose.services["postgres"].environment
    assert redis.hostname == "redis"
    assert (ledger.hostname, ledger.username, ledger.path) == (
        "postgres",
        postgres["POSTGRES_USER"],
        f"/{postgres['POSTGRES_DB']}",
    )


def test_the_mounted_configuration_asks_the_engines_for_what_they_serve(compose: Compose, config: Config):
    environment = {
        name: with_defaults(value) for name, value in compose.services["gateway"].environment.items()
    }
    pools = config.pools(environment, {})
    replicas = [replica for model in pools.values() for pool in model for replica in pool.replicas]
    assert len(replicas) == 2
    for replica in replicas:
        assert replica.kind is ReplicaKind.OPENAI
        url = urlsplit(replica.target)
        assert url.port == 8000  # vLLM's own default
        engine = compose.services[str(url.hostname)]
        assert replica.upstream_model == engine.option("served-model-name")
        assert replica.api_key == with_defaults(engine.environment["VLLM_API_KEY"])
    context = compose.services["vllm-standard"].option("max-model-len")
    assert str(config.models["standard"].context) == context


def test_the_engines_do_not_share_a_gpu(compose: Compose):
    sets: list[set[str]] = []
    for name in ("vllm-flash", "vllm-standard"):
        engine = compose.services[name]
        gpus = with_defaults(engine.environment["CUDA_VISIBLE_DEVICES"]).split(",")
        assert str(len(gpus)) == engine.option("tensor-parallel-size")
        sets.append(set(gpus))
    assert sets[0].isdisjoint(sets[1])


def copied_by_dockerfile() -> list[str]:
    """Return what the Dockerfile copies from the repository."""
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from=" not in line]
    return [source for sources in copies for source in sources]


def ignored_by_docker(path: str) -> bool:
    """Tell what the last matching line of .dockerignore says of a path in the root."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if line and not line.startswith("#") and fnmatch(path, line.lstrip("!")):
            verdict = not line.startswith("!")
    return verdict


def test_the_image_gets_what_it_needs_and_nothing_else():
    sources = copied_by_dockerfile()
    assert sources
    assert [source for source in sources if not (ROOT / source).exists() or ignored_by_docker(source)] == []
    for path in (".git", ".env", ".venv", "tests", "examples", "flashlane.db"):
        assert ignored_by_docker(path), path


def test_the_image_holds_every_package_of_the_distribution():

    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(copied_by_dockerfile())
