"""Tenants' files: what is accepted, how faults are told, how keys come and go."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from policies.errors import TenantFileInvalid, UnknownKey
from policies.key_files import create_key, revoke_key
from policies.keys import hash_key
from policies.tenant_file import KnownNames, parse_tenant_file
from policies.tenants import TenantBook

WHOLE = f"""
# who this is
tenant: acme
priority: high
keys: [{{name: web, sha256: "{hash_key("sk-fl-old")}"}}]   # the site
routing:
  mode: auto
  standard_share: 0.35
  standard_domains: [legal, medical]
  standard_keywords: [Merger]
  sticky: conversation
  fallback: [standard]
limits: {{rpm: 600, tpm: 200000, concurrency: 32}}
budget: {{usd: "500", period: month, on_exhausted: reject}}
context: {{max_input_tokens: 65536, on_overflow: standard}}
output: {{max_tokens: 4096}}
cache: {{isolation: tenant}}
prefixes: [{{name: support, messages: [{{role: system, content: "..."}}]}}]
"""


NAMES = KnownNames(models=frozenset({"flash", "standard"}), domains=frozenset({"legal", "medical"}))


def write(folder: Path, text: str, name: str = "acme") -> Path:
    """Write a tenant's file."""
    file = folder / f"{name}.yaml"
    file.write_text(text, "utf-8")
    return file


def test_a_file_with_every_setting_is_read(tmp_path: Path):
    file = parse_tenant_file(write(tmp_path, WHOLE))
    tenant = file.to_tenant()
    assert tenant.routing.standard_domains == {"legal", "medical"}
    assert tenant.routing.standard_keywords == ("merger",)
    assert tenant.context.max_input_tokens == 65536
    assert tenant.max_output_tokens == 4096


def test_settings_that_are_read_and_not_acted_on_are_named(tmp_path: Path):
    idle = parse_tenant_file(write(tmp_path, WHOLE)).not_enforced()
    assert set(idle) == {"priority", "limits", "budget", "routing.sticky"}
    assert parse_tenant_file(write(tmp_path, "tenant: acme")).not_enforced() == []
    bounded = write(
        tmp_path, "tenant: acme\nrouting: {max_quality_loss: 0.02, confidence: 0.9, task_by: [key]}"
    )
    file = parse_tenant_file(bounded)
    assert file.not_enforced() == []
    routing = file.to_tenant().routing
    assert (routing.max_quality_loss, routing.confidence, routing.task_by) == (0.02, 0.9, {"key"})


@pytest.mark.parametrize("usd", ["0.01", '"0.01"', "500"])
def test_a_hash_in_capitals_and_money_as_a_number_are_taken(tmp_path: Path, usd: str):
    digest = hash_key("sk-fl-some")
    text = f"tenant: acme\nkeys: [{{name: web, sha256: {digest.upper()}}}]\nbudget: {{usd: {usd}}}"
    file = parse_tenant_file(write(tmp_path, text))
    assert file.keys[0].sha256 == digest
    assert file.budget is not None
    assert file.budget.usd == usd.strip('"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tenant: acme\nroutin: {}", "routin: unknown name 'routin'; did you mean 'routing'?"),
        ("tenant: acme\nrouting: {standard_shar: 1}", "did you mean 'standard_share'?"),
        ("tenant: acme\nrouting: {standard_share: 2}", "routing.standard_share: Input should be less than"),
        ("tenant: acme\nkeys: [{name: web, sha256: abc}]", "keys.0.sha256"),
        ("tenant: acme\nrouting: {task_by: [model]}", "routing.task_by.0: Input should be 'prompt', 'key'"),
        ("tenant: acme\nrouting: {task_by: []}", "routing.task_by: List should have at least 1 item"),
        ("tenant: acme\nrouting: {max_quality_loss: 1}", "routing.max_quality_loss: Input should be less"),
        ("tenant: Not A Name", "tenant: String should match"),
        ("routing: {}", "tenant: Field required"),
        ("- a\n- b", "expected a mapping"),
        ("tenant: [", "line 1"),
    ],
)
def test_a_fault_is_told_with_its_file_and_its_path(tmp_path: Path, text: str, words: str):
    file = write(tmp_path, text)
    with pytest.raises(TenantFileInvalid) as fault:
        parse_tenant_file(file)
    assert str(file) in str(fault.value)
    assert words in str(fault.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: [flsh]", "models: unknown name 'flsh'; did you mean 'flash'?"),
        ("routing: {fallback: [big]}", "routing.fallback: unknown name 'big'; known: flash, standard."),
        ("routing: {standard_domains: [leagl]}", "did you mean 'legal'?"),
        ("routing: {tokenizer: qwen}", "routing.tokenizer: unknown name 'qwen'; known: none."),
    ],
)
def test_a_name_that_nothing_has_is_refused(tmp_path: Path, text: str, words: str):
    file = write(tmp_path, f"tenant: acme\n{text}\n")
    with pytest.raises(TenantFileInvalid) as fault:
        TenantBook(tmp_path, NAMES)
    assert str(fault.value).startswith(f"{file}: ")
    assert words in str(fault.value)


def test_a_tokenizer_that_a_model_states_may_be_declared(tmp_path: Path):
    write(tmp_path, WHOLE.replace("routing:", "routing:\n  tokenizer: qwen"))
    book = TenantBook(tmp_path, replace(NAMES, tokenizers=frozenset({"qwen"})))
    assert book.identify("sk-fl-old").tenant.routing.tokenizer == "qwen"


def test_a_folder_without_tenants_is_refused_with_the_remedy(tmp_path: Path):
    with pytest.raises(TenantFileInvalid, match="flashlane keys create"):
        TenantBook(tmp_path, NAMES)
    with pytest.raises(TenantFileInvalid, match="nowhere"):
        TenantBook(tmp_path / "nowhere", NAMES)


def test_two_tenants_may_share_neither_a_name_nor_a_key(tmp_path: Path):
    write(tmp_path, WHOLE)
    write(tmp_path, WHOLE, "copy")
    with pytest.raises(TenantFileInvalid, match="already in another file"):
        TenantBook(tmp_path, NAMES)
    write(tmp_path, WHOLE.replace("tenant: acme", "tenant: other"), "copy")
    with pytest.raises(TenantFileInvalid, match="is also key"):
        TenantBook(tmp_path, NAMES)


def test_a_change_is_taken_whole_or_not_at_all(tmp_path: Path):
    file = write(tmp_path, WHOLE)
    book = TenantBook(tmp_path, NAMES)
    assert not book.reload()
    file.write_text(WHOLE + "nonsense: 1\n")
    with pytest.raises(TenantFileInvalid):
        book.reload()
    assert book.identify("sk-fl-old").tenant.name == "acme"
    file.write_text(WHOLE.replace("4096", "17"))
    assert book.reload()
    assert book.identify("sk-fl-old").tenant.max_output_tokens == 17


def test_a_key_is_made_used_and_revoked_and_only_its_hash_is_kept(tmp_path: Path):
    file = write(tmp_path, WHOLE)
    file.chmod(0o640)
    key = create_key(tmp_path, "acme", "batch")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert key not in file.read_text()
    assert "# the site" in file.read_text()
    caller = TenantBook(tmp_path, NAMES).identify(key)
    assert (caller.tenant.name, caller.key_name) == ("acme", "batch")
    revoke_key(tmp_path, "acme", "batch")
    with pytest.raises(UnknownKey):
        TenantBook(tmp_path, NAMES).identify(key)
    assert TenantBook(tmp_path, NAMES).identify("sk-fl-old")


def test_a_key_for_a_new_tenant_makes_its_file(tmp_path: Path):
    key = create_key(tmp_path / "tenants", "new", "web")
    assert TenantBook(tmp_path / "tenants", NAMES).identify(key).tenant.name == "new"
    assert [path.name for path in (tmp_path / "tenants").iterdir()] == ["new.yaml"]


def test_wrong_key_commands_change_nothing(tmp_path: Path):
    file = write(tmp_path, WHOLE)
    before = file.read_text()
    with pytest.raises(TenantFileInvalid, match="already has a key 'web'"):
        create_key(tmp_path, "acme", "web")
    with pytest.raises(TenantFileInvalid, match="name"):
        create_key(tmp_path, "acme", "Not A Name")
    with pytest.raises(UnknownKey, match="no key 'nothing'"):
        revoke_key(tmp_path, "acme", "nothing")
    with pytest.raises(UnknownKey, match="no tenant 'nobody'"):
        revoke_key(tmp_path, "nobody", "web")
    assert file.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["acme.yaml"]
