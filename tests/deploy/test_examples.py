"""The examples load, and show nothing that this version does not act on."""

from decimal import Decimal
from pathlib import Path

import pytest

from backends.models.catalogue import CATALOGUE
from backends.types import EngineFlavour, ReplicaKind, Thinking
from gateway.config import load_config
from gateway.runtime import known_names
from policies.key_files import create_key
from policies.tenant_file import parse_tenant_file
from policies.tenants import TenantBook

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGS = sorted(EXAMPLES.glob("*/*.yaml"))
SECRETS = {"DEEPSEEK_API_KEY": "secret", "FLASHLANE_ENGINE_KEY": "secret"}
TENANTS = sorted(EXAMPLES.glob("*/tenants/*.yaml"))


def name_of(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def test_the_three_kinds_of_set_up_are_there():
    assert {path.parent.name for path in CONFIGS} == {"local", "deepseek-api", "self-hosted-vllm"}
    for folder in {path.parent for path in CONFIGS}:
        assert (folder / "README.md").is_file()
        assert (folder / "flashlane.yaml").is_file()


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
class TestConfiguration:
    def test_it_is_valid_and_acted_on_in_full(self, path: Path):
        assert load_config(path).not_enforced() == []

    def test_its_pools_can_be_made(self, path: Path):
        config = load_config(path)
        urls = {engine.replica: "http://127.0.0.1:1" for engine in config.embedded()}
        pools = config.pools(SECRETS, urls)
        assert set(pools) == {"flash", "standard"}
        assert all(pool.replicas for model in pools.values() for pool in model)

    def test_both_models_have_prices(self, path: Path):
        prices = load_config(path).prices()
        for model in ("flash", "standard"):
            assert prices[model].output > Decimal(0)
            assert prices[model].hit <= prices[model].miss <= prices[model].output

    def test_its_tenants_can_be_served(self, path: Path):
        config = load_config(path)
        assert config.tenants is not None
        assert "acme" in TenantBook(config.tenants, known_names(config)).names()


@pytest.mark.parametrize("path", TENANTS, ids=name_of)
class TestTenant:
    def test_it_is_valid_and_acted_on_in_full(self, path: Path):
        assert parse_tenant_file(path).not_enforced() == []

    def test_it_ships_no_key(self, path: Path):
        assert parse_tenant_file(path).keys == []

    def test_it_takes_a_key(self, path: Path, tmp_path: Path):
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        tenant = parse_tenant_file(copy).tenant
        key = create_key(tmp_path, tenant, "web")
        names = known_names(load_config(path.parents[1] / "flashlane.yaml"))
        assert TenantBook(tmp_path, names).identify(key).tenant.name == tenant
        assert "# " in copy.read_text("utf-8")


def test_the_local_example_runs_models_that_can_be_pulled():
    engines = load_config(EXAMPLES / "local" / "flashlane.yaml").embedded()
    assert [engine.source for engine in engines] == [model.name for model in CATALOGUE]


def test_the_deepseek_example_reaches_both_models_through_litellm_with_one_key():
    config = load_config(EXAMPLES / "deepseek-api" / "flashlane.yaml")
    pools = config.pools({"DEEPSEEK_API_KEY": "secret"}, {})
    replicas = [replica for model in pools.values() for pool in model for replica in pool.replicas]
    assert [(replica.kind, replica.upstream_model) for replica in replicas] == [
        (ReplicaKind.LITELLM, "deepseek/deepseek-flash"),
        (ReplicaKind.LITELLM, "deepseek/deepseek-v4-pro"),
    ]


def test_the_two_pools_are_of_vllm_engines():
    config = load_config(EXAMPLES / "self-hosted-vllm" / "two-pools.yaml")
    flash = config.pools(SECRETS, {})["flash"]
    assert [pool.name for pool in flash] == ["latency", "throughput"]
    assert {replica.flavour for pool in flash for replica in pool.replicas} == {EngineFlavour.VLLM}


@pytest.mark.parametrize(
    "name", ["deepseek-api/flashlane", "self-hosted-vllm/flashlane", "self-hosted-vllm/two-pools"]
)
def test_a_flash_of_deepseeks_is_told_how_to_think(name: str):
    config = load_config(EXAMPLES / f"{name}.yaml")
    assert {pool.thinking for pool in config.pools(SECRETS, {})["flash"]} == {Thinking.DEEPSEEK}


@pytest.mark.parametrize("readme", sorted(EXAMPLES.glob("*/README.md")), ids=name_of)
def test_a_readme_names_files_that_are_there(readme: Path):
    words = readme.read_text("utf-8").replace("`", " ").split()
    named = [word for word in words if word.startswith("examples/")]
    assert [word for word in named if not (EXAMPLES.parent / word).exists()] == []
