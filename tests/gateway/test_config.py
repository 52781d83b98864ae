"""`flashlane.yaml`: what is accepted, how faults are told, and what the rest of the program gets."""

import base64
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from backends.types import EngineFlavour, ReplicaKind, Thinking
from gateway.config import Config, load_config
from gateway.errors import ConfigInvalid
from gateway.runtime import known_names
from policies.tenant_file import TenantFile, parse_tenant_file
from policies.yaml_file import read_yaml

DESIGN = """
server:   {host: 127.0.0.1, port: 8080, workers: 1, admin_key_env: FLASHLANE_ADMIN_KEY}
redis:    {url: redis://127.0.0.1:6379/0}
ledger:   {url: sqlite:///flashlane.db}
models:
  flash:
    served_name: deepseek-v4.1-flash
    context: 1048576
    prices: {hit: "0.003", miss: "0.15", output: "0.60"}
    gsm: {group_size: 512, max_groups: 64, rebuild_threshold: 0.3}
    pools:
      - {name: latency, role: latency, speculation: true, max_concurrency: 8, replicas: [{url: "http://a:1"}]}
      - name: throughput
        role: throughput
        max_concurrency: 256
        replicas: [{url: "http://b:2", api_key_env: X}]
  standard:
    served_name: deepseek-v4-pro
    pools: [{name: main, replicas: [{litellm: "deepseek/deepseek-v4-pro", api_key_env: DEEPSEEK_API_KEY}]}]
tenants: policies/tenants/
"""

DESIGN_TENANT = """
tenant: acme
priority: high
keys: [{name: web, sha256: "%s"}]
routing:
  mode: auto
  standard_share: 0.35
  max_quality_loss: 0.02
  confidence: 0.95
  standard_domains: [legal, medical]
  standard_keywords: []
  sticky: conversation
  fallback: [standard]
limits: {rpm: 600, tpm: 200000, concurrency: 32}
budget: {usd: "500", period: month, on_exhausted: reject}
context: {max_input_tokens: 65536, on_overflow: standard}
output: {max_tokens: 4096}
cache: {isolation: tenant}
prefixes: [{name: support, messages: [{role: system, content: "..."}]}]
""" % ("0" * 64)

SMALL = """
models:
  flash: {served_name: a, pools: [{name: main, replicas: [{url: "http://a:1"}]}]}
  standard: {served_name: b, pools: [{name: main, replicas: [{url: "http://b:1"}]}]}
"""
KEYS = {"X": "sk-x", "DEEPSEEK_API_KEY": "sk-d"}


def written(folder: Path, text: str) -> Path:
    """Write a configuration."""
    file = folder / "flashlane.yaml"
    file.write_text(text, "utf-8")
    return file


def fault(folder: Path, text: str) -> str:
    """Return what is said of a configuration that must be refused."""
    with pytest.raises(ConfigInvalid) as caught:
        load_config(written(folder, text))
    for line in str(caught.value).splitlines():
        assert line.startswith(f"{folder / 'flashlane.yaml'}: ")
    return str(caught.value)


def test_the_designs_example_is_accepted_whole(tmp_path: Path):
    config = load_config(written(tmp_path, DESIGN))
    pools = config.pools(KEYS, {})
    assert [(pool.name, pool.role, pool.speculation, pool.max_concurrency) for pool in pools["flash"]] == [
        ("latency", "latency", True, 8),
        ("throughput", "throughput", False, 256),
    ]
    replica = pools["flash"][1].replicas[0]
    assert (replica.name, replica.target, replica.api_key) == ("flash/throughput/0", "http://b:2", "sk-x")
    remote = pools["standard"][0].replicas[0]
    assert (remote.kind, remote.upstream_model) == (ReplicaKind.LITELLM, "deepseek/deepseek-v4-pro")
    assert config.facts()["flash"].context == 1048576
    assert config.prices()["flash"].miss == Decimal("0.15")
    assert config.prices()["standard"].output == 0
    assert config.tenants == tmp_path / "policies/tenants"


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize("path", ["", "/openai"])
def test_a_url_means_the_same_with_and_without_v1(tmp_path: Path, path: str, end: str):
    config = load_config(written(tmp_path, SMALL.replace("http://a:1", f"http://a:1{path}{end}")))
    assert config.pools({}, {})["flash"][0].replicas[0].target == f"http://a:1{path}"


def test_a_login_in_a_url_is_cut_off_and_shown_nowhere(tmp_path: Path):
    config = load_config(written(tmp_path, SMALL.replace("http://a:1", "https://me:SECRET%4047@[::1]:9/v1")))
    replica = config.pools({}, {})["flash"][0].replicas[0]
    assert replica.target == "https://[::1]:9"
    assert base64.b64decode(replica.login or "") == b"me:SECRET@47"
    assert "SECRET" not in repr(config) + repr(replica)
    assert (replica.login or "") not in repr(replica)


def test_the_designs_tenant_is_accepted_whole(tmp_path: Path):
    tenant = parse_tenant_file(written(tmp_path, DESIGN_TENANT)).to_tenant()
    assert tenant.routing.standard_domains == {"legal", "medical"}
    assert tenant.routing.fallback == ("standard",)


def test_what_this_version_does_not_act_on_is_named(tmp_path: Path):
    assert set(load_config(written(tmp_path, DESIGN)).not_enforced()) == {
        "server.admin_key_env",
        "models.flash.gsm.max_groups",
        "models.flash.gsm.rebuild_threshold",
    }
    assert load_config(written(tmp_path, SMALL)).not_enforced() == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("models:", "modles:", ["modles: unknown", "did you mean 'models'?", "models: Field required"]),
        ("pools:", "poolz:", ["models.flash.poolz: unknown", "did you mean 'pools'?"]),
        ("replicas:", "replica:", ["models.flash.pools.0.replica: unknown", "did you mean 'replicas'?"]),
        ("url:", "ulr:", ["models.flash.pools.0.replicas.0.ulr: unknown", "did you mean 'url'?"]),
        ("{url:", "{zzz: 1, url:", ["replicas.0.zzz: unknown", "known: api_base, api_key_env, discover"]),
        (
            "{url:",
            '{discover: dns, kv_events: "tcp://b:5557", url:',
            ["with discover kv_events is tcp://a:PORT"],
        ),
        (
            "{url:",
            '{discover: dns, kv_events: "tcp://a:5557", kv_replay: "ipc:///a", url:',
            ["with discover kv_replay is tcp://a:PORT"],
        ),
        ("served_name: a", "served_name: ''", ["models.flash.served_name: String should have at least 1"]),
        ("http://a:1", "http://a:99999", ["models.flash.pools.0.replicas.0.url: ", "its port is no number"]),
        ("http://a:1", "http://a:one", ["models.flash.pools.0.replicas.0.url: ", "its port is no number"]),
        ("http://a:1", "a:1", ["models.flash.pools.0.replicas.0.url: String should match"]),
        ("http://a:1", "http://me@secret@a:1", ["models.flash.pools.0.replicas.0.url: String should match"]),
        ("name: main", "name: Main Pool", ["models.flash.pools.0.name: String should match"]),
        ('[{url: "http://a:1"}]', "[]", ["models.flash.pools.0.replicas: List should have at least 1"]),
        ('{url: "http://a:1"}', "{}", ["replicas.0: ", "exactly one of url, litellm, embedded; found none"]),
        ('{url: "http://a:1"', '{embedded: x, url: "http://a:1"', ["found url, embedded"]),
        ("standard:", "strong:", ["models must have 'flash' and 'standard'; 'standard' is missing"]),
        ("  standard:", "  auto:", ["'standard' is missing"]),
        ("models:", "server: {port: 70000}\nmodels:", ["server.port: Input should be less than"]),
        ("models:", "server: {workers: 2}\nmodels:", ["server.workers: Input should be 1"]),
        ("models:", "redis: {url: 'http://x'}\nmodels:", ["redis.url: String should match"]),
        ("models:", "redis: {}\nmodels:", ["redis: ", "give exactly one of url, url_env"]),
        ("models:", "ledger: {url: 'sqlite://', url_env: X}\nmodels:", ["give exactly one of url, url_env"]),
        ("models:", "ledger: {url: 'mysql://x'}\nmodels:", ["ledger.url: String should match"]),
        ("served_name: a", "served_name: a, context: 0", ["models.flash.context: Input should be greater"]),
        ("served_name: a", "served_name: a, prices: {hit: 1, miss: 1}", ["prices", "output", "required"]),
        ("served_name: a", "served_name: a, prices: {hit: -1, miss: 1, output: 1}", ["models.flash.prices"]),
        ("served_name: a", "served_name: a, capabilities: {image: true}", ["did you mean 'images'?"]),
        ("served_name: a", "served_name: a, capabilities: {images: 1.5}", ["flash.capabilities.images"]),
        ("served_name: a", "served_name: a, capabilities: {parts: [image_url]}", ["write `images: true`"]),
        ("served_name: a", "served_name: a, capabilities: {parts: [text]}", ["which every model takes"]),
        ("served_name: a", "served_name: a, tokenizer: ''", ["models.flash.tokenizer: String should have"]),
        ("models:", "models: {", ["is not valid YAML: line"]),
        ("models:", "models: 1\nmodels:", ["is not valid YAML: line"]),
    ],
)
def test_a_fault_is_told_with_its_path_and_a_guess(tmp_path: Path, old: str, new: str, words: list[str]):
    told = fault(tmp_path, SMALL.replace(old, new, 1))
    for word in words:
        assert word in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{url: "http://a:1"', '{api_key_env: sk-SECRET46, url: "http://a:1"'),
        ('{url: "http://a:1"', '{api_key: sk-SECRET46, url: "http://a:1"'),
        ('{url: "http://a:1"', '{url: "http://sk-SECRET46", url: "http://a:1"'),
        ("models:", "redis: {url_env: 'redis://:SECRET46@x'}\nmodels:"),
        ("models:", "server: {admin_key_env: sk-SECRET46}\nmodels:"),
    ],
)
def test_a_key_in_the_place_of_its_variables_name_is_not_repeated(tmp_path: Path, old: str, new: str):
    assert "SECRET" not in fault(tmp_path, SMALL.replace(old, new, 1))


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path):
    told = fault(tmp_path, SMALL.replace("served_name", "sreved_name").replace("models:", "x: 1\nmodels:"))
    assert {"x", "models.flash.sreved_name", "models.standard.sreved_name"} <= {
        line.split(": ")[1] for line in told.splitlines()
    }


@pytest.mark.parametrize("text", ["", "- a", "just words", "7"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str):
    assert "expected a mapping with the key 'models'" in fault(tmp_path, text)


def test_two_pools_of_one_name_are_refused(tmp_path: Path):
    pool = '{name: main, replicas: [{url: "http://a:1"}]}'
    told = fault(tmp_path, SMALL.replace(pool, f"{pool}, {pool}", 1))
    assert "models.flash: " in told
    assert "two pools are called 'main'" in told


def test_a_model_called_auto_is_refused(tmp_path: Path):
    extra = '  auto: {served_name: c, pools: [{name: main, replicas: [{url: "http://c:1"}]}]}\n'
    assert "may not define 'auto'" in fault(tmp_path, SMALL + extra)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path):
    with pytest.raises(ConfigInvalid, match=r"flashlane\.yaml: cannot be read"):
        load_config(tmp_path / "flashlane.yaml")
    (tmp_path / "flashlane.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigInvalid, match=r"flashlane\.yaml: cannot be read"):
        load_config(tmp_path / "flashlane.yaml")


def test_a_relative_folder_of_tenants_is_beside_the_file(tmp_path: Path):
    assert load_config(written(tmp_path, SMALL)).tenants is None
    assert load_config(written(tmp_path, SMALL + "tenants: t")).tenants == tmp_path / "t"
    assert load_config(written(tmp_path, SMALL + "tenants: /etc/t")).tenants == Path("/etc/t")


def test_a_url_may_come_from_a_variable(tmp_path: Path):
    config = load_config(written(tmp_path, "redis: {url_env: R}\nledger: {url_env: L}\n" + SMALL))
    assert config.redis is not None
    assert config.redis.resolve("redis", {"R": "redis://:pw@h/0"}) == "redis://:pw@h/0"
    with pytest.raises(ConfigInvalid, match=r"redis: the variable R is not set.*export R="):
        config.redis.resolve("redis", {"R": ""})


def test_a_key_that_is_not_set_is_named_with_its_replica(tmp_path: Path):
    config = load_config(written(tmp_path, DESIGN))
    with pytest.raises(ConfigInvalid, match=r"replica flash/throughput/0: the variable X is not set"):
        config.pools({}, {})


@pytest.mark.parametrize("key", ["sk-x\n", "sk-\u00e9", "sk\0"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(tmp_path: Path, key: str):
    config = load_config(written(tmp_path, DESIGN))
    with pytest.raises(
        ConfigInvalid, match=r"flash/throughput/0: the value of the variable X is no key"
    ) as told:
        config.pools({**KEYS, "X": key}, {})
    assert key not in str(told.value)


def test_a_key_is_shown_in_no_replica(tmp_path: Path):
    assert "sk-" not in repr(load_config(written(tmp_path, DESIGN)).pools(KEYS, {}))


def test_a_machine_is_priced_by_the_hour(tmp_path: Path):
    text = SMALL.replace("served_name: a", 'served_name: a, prices: {gpu_hour: "3.60", throughput: 2000}')
    prices = load_config(written(tmp_path, text)).prices()["flash"]
    # 3.60 USD an hour is 0.001 USD a second, for 2000 tokens: 0.50 USD per million.
    assert prices.hit == prices.miss == prices.output == Decimal("0.5")


def test_a_model_that_states_nothing_takes_text_and_tools_and_schemas(tmp_path: Path):
    facts = load_config(written(tmp_path, SMALL)).facts()["flash"]
    assert (facts.capabilities, facts.tokenizer) == ({"tools", "json_schema"}, None)


def test_a_model_has_the_capabilities_that_it_states(tmp_path: Path):
    stated = (
        "capabilities: {images: true, tools: false, parts: [hologram], outputs: [audio]}, tokenizer: qwen"
    )
    text = SMALL.replace("served_name: a", f"served_name: a, {stated}")
    config = load_config(written(tmp_path, text))
    facts = config.facts()["flash"]
    assert facts.capabilities == {"images", "json_schema", "parts:hologram", "outputs:audio"}
    assert facts.tokenizer == "qwen"
    assert known_names(config).tokenizers == {"qwen"}
    assert schema_faults(Config, read_yaml(written(tmp_path, text))) == []
    assert schema_faults(Config, read_yaml(written(tmp_path, text.replace("images", "image"))))


def test_embedded_engines_are_listed_and_get_their_address(tmp_path: Path):
    text = SMALL.replace('{url: "http://a:1"}', "{embedded: small, threads: 2}")
    config = load_config(written(tmp_path, text))
    (engine,) = config.embedded()
    assert (engine.replica, engine.source, engine.section.threads) == ("flash/main/0", "small", 2)
    replica = config.pools({}, {"flash/main/0": "http://127.0.0.1:5"})["flash"][0].replicas[0]
    assert (replica.target, replica.flavour) == ("http://127.0.0.1:5", EngineFlavour.LLAMA_CPP)


def test_a_model_beside_one_that_hands_out_its_reasoning_is_given_none(tmp_path: Path):
    def found(text: str) -> list[Thinking]:
        pools = load_config(written(tmp_path, text)).pools({}, {})
        return [pools[name][0].thinking for name in ("flash", "standard")]

    thinks = SMALL.replace("served_name: a", "served_name: a, thinking: deepseek")
    assert found(SMALL) == [Thinking.PASSTHROUGH, Thinking.PASSTHROUGH]
    assert found(thinks) == [Thinking.DEEPSEEK, Thinking.NONE]
    itself = thinks.replace("served_name: b", "served_name: b, thinking: passthrough")
    assert found(itself) == [Thinking.DEEPSEEK, Thinking.PASSTHROUGH]
    facts = load_config(written(tmp_path, thinks)).facts()
    assert [facts[name].thinks for name in ("flash", "standard")] == [True, False]


@pytest.mark.parametrize(
    ("name", "thinks"),
    [
        ("deepseek-v4.1-flash", True),
        ("deepseek-ai/DeepSeek-V4.1-Flash", True),
        ("deepseek-flash", True),
        ("DeepSeek-V3.1", True),
        ("DeepSeek-R1-Distill-Qwen-7B", False),
        ("DeepSeek-V3-0324", False),
    ],
)
def test_a_model_of_deepseek_is_known_by_its_name(tmp_path: Path, name: str, thinks: bool):
    config = load_config(written(tmp_path, SMALL.replace("served_name: a", f"served_name: {name}")))
    assert config.facts()["flash"].thinks is thinks
    provider = SMALL.replace('{url: "http://b:1"}', f"{{litellm: deepseek/{name}, api_key_env: K}}")
    assert load_config(written(tmp_path, provider)).facts()["standard"].thinks is thinks
    free = SMALL.replace("served_name: a", f"served_name: {name}, thinking: passthrough")
    assert not load_config(written(tmp_path, free)).facts()["flash"].thinks


def test_a_way_to_think_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path):
    said = fault(tmp_path, SMALL.replace("served_name: a", "served_name: a, thinking: often"))
    assert "models.flash.thinking" in said
    assert all(way in said for way in Thinking)


def schema_faults(model: type[Config | TenantFile], data: object) -> list[str]:
    """Return what the exported JSON Schema finds wrong."""
    schema = model.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator: Any = jsonschema.Draft202012Validator(schema)
    return [fault.message for fault in validator.iter_errors(data)]


def test_the_schema_takes_what_the_loader_takes(tmp_path: Path):
    for text in (DESIGN, SMALL):
        assert schema_faults(Config, read_yaml(written(tmp_path, text))) == []
    assert schema_faults(TenantFile, read_yaml(written(tmp_path, DESIGN_TENANT))) == []


def test_the_schema_refuses_a_typo(tmp_path: Path):
    assert schema_faults(Config, read_yaml(written(tmp_path, SMALL.replace("pools", "poolz", 1))))
    assert schema_faults(TenantFile, read_yaml(written(tmp_path, DESIGN_TENANT.replace("rpm", "rmp"))))
