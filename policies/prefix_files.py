"""Register prefixes: edits of a tenant's file. A running gateway reads it again by itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from policies.errors import TenantFileInvalid
from policies.tenant_file import PrefixSection, TenantFile, check_tenant
from policies.tenants import files_of
from policies.validation import unknown_name
from policies.volatile import Volatile, find_volatile, texts_of
from policies.yaml_file import read_for_edit, write_yaml


def add_prefix(folder: Path, tenant: str, prefix: Mapping[str, object], *, replace: bool = False) -> bool:
    """Add a prefix to a tenant.

    Args:
        folder: Of the tenants' files.
        tenant: Name of the tenant, which has to be there.
        prefix: As it stands in the file.
        replace: Whether a prefix of this name may be there, which then goes.

    Returns:
        Whether one of this name was there.

    Raises:
        TenantFileInvalid: There is no such tenant, a file of the folder or the prefix is wrong, or the tenant
            has a prefix of this name.
    """
    files = {file.tenant: path for path, file in files_of(folder)} if folder.is_dir() else {}
    if tenant not in files:
        raise TenantFileInvalid(f"{folder}: {unknown_name(tenant, files)}")
    path = files[tenant]
    data = read_for_edit(path)
    entries: list[dict[str, Any]] = data.setdefault("prefixes", [])
    at = [index for index, entry in enumerate(entries) if entry["name"] == prefix["name"]]
    if at and not replace:
        raise TenantFileInvalid(
            f"Tenant {tenant!r} already has a prefix {prefix['name']!r}. Take another name, or --replace it."
        )
    if at:
        entries[at[0]] = dict(prefix)
    else:
        entries.append(dict(prefix))
    check_tenant(data, path)
    write_yaml(path, data)
    return bool(at)


def volatile_in(prefix: PrefixSection) -> Volatile | None:
    """Return what seems to change from request to request near the head of a prefix."""
    return find_volatile(texts_of(prefix.messages, prefix.tools))


def volatile_prefixes(file: TenantFile) -> list[tuple[str, Volatile]]:
    """Return the prefixes of a tenant that can hardly be reused, by name, and why."""
    found = [(prefix.name, volatile_in(prefix)) for prefix in file.prefixes]
    return [(name, volatile) for name, volatile in found if volatile is not None]
