"""Make and revoke API keys: edits of a tenant's file. A running gateway reads it again by itself."""

from pathlib import Path
from typing import Any

from policies.errors import TenantFileInvalid, UnknownKey
from policies.keys import hash_key, make_key
from policies.tenant_file import check_tenant
from policies.tenants import files_of
from policies.yaml_file import read_for_edit, write_yaml


def create_key(folder: Path, tenant: str, name: str, *, replace: bool = False) -> str:
    """Add a key to a tenant; a tenant that is not there yet gets a file with the defaults.

    Args:
        folder: Of the tenants' files; made when it is not there.
        tenant: Name of the tenant.
        name: Name of the key, for records and for revoking it.
        replace: Whether a key of this name may be there; it is valid no longer.

    Returns:
        The key. It is kept nowhere: only its hash is.

    Raises:
        TenantFileInvalid: A file of the folder is wrong, a name is not allowed, or the tenant has such a key.
    """
    path = _file_of(folder, tenant)
    data: dict[str, Any] = {"tenant": tenant} if path is None else read_for_edit(path)
    path = path or folder / f"{tenant}.yaml"
    entries: list[dict[str, Any]] = data.setdefault("keys", [])
    if any(entry["name"] == name for entry in entries) and not replace:
        raise TenantFileInvalid(
            f"Tenant {tenant!r} already has a key {name!r}. Take another name, or revoke it first: "
            f"flashlane keys revoke --tenant {tenant} --name {name}"
        )
    _drop(entries, name)
    key = make_key()
    entries.append({"name": name, "sha256": hash_key(key)})
    _write_checked(path, data)
    return key


def revoke_key(folder: Path, tenant: str, name: str) -> None:
    """Take a key from a tenant.

    Raises:
        UnknownKey: There is no such tenant or key.
        TenantFileInvalid: A file of the folder is wrong.
    """
    path = _file_of(folder, tenant)
    if path is None:
        raise UnknownKey(f"There is no tenant {tenant!r} in {folder}.")
    data = read_for_edit(path)
    if not _drop(data.get("keys", []), name):
        raise UnknownKey(f"Tenant {tenant!r} has no key {name!r}.")
    _write_checked(path, data)


def _drop(entries: list[dict[str, Any]], name: str) -> bool:
    at = [index for index, entry in enumerate(entries) if entry["name"] == name]
    for index in reversed(at):
        del entries[index]
    return bool(at)


def _file_of(folder: Path, tenant: str) -> Path | None:
    if not folder.is_dir():
        return None
    return next((path for path, file in files_of(folder) if file.tenant == tenant), None)


def _write_checked(path: Path, data: dict[str, Any]) -> None:
    """Write a tenant's file, but only one that a gateway would take."""
    check_tenant(data, path)
    write_yaml(path, data)
