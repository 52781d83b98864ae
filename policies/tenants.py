"""The tenants of a folder of YAML files, and how they change while the gateway runs."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from policies.errors import TenantFileInvalid
from policies.keys import KeyRing
from policies.tenant_file import KnownNames, TenantFile, parse_tenant_file
from policies.types import Caller, Tenant

log = logging.getLogger(__name__)


class TenantBook:
    """All tenants of a folder; a change on disk is taken whole or not at all."""

    def __init__(self, folder: Path, names: KnownNames) -> None:
        """Read the folder; its files may refer to `names`.

        Raises:
            TenantFileInvalid: The folder or one of its files is wrong.
        """
        self._folder = folder
        self._names = names
        self._seen = _fingerprint(folder)
        self._tenants, self._keys = _load(folder, names)

    def names(self) -> Sequence[str]:
        """Return the names of all tenants."""
        return list(self._tenants)

    def tenants(self) -> Sequence[Tenant]:
        """Return all tenants."""
        return list(self._tenants.values())

    def identify(self, key: str) -> Caller:
        """Return who an API key belongs to.

        Raises:
            UnknownKey: Nobody.
        """
        return self._keys.identify(key)

    def reload(self) -> bool:
        """Read the folder again if a file changed.

        Returns:
            Whether there was a change.

        Raises:
            TenantFileInvalid: The new state is wrong; the old one stays.
        """
        now = _fingerprint(self._folder)
        if now == self._seen:
            return False
        self._seen = now
        self._tenants, self._keys = _load(self._folder, self._names)
        return True

    async def keep_reloading(self, *, every: float = 1.0) -> None:
        """Look for changes for ever, every `every` seconds; a wrong file is logged and changes nothing."""
        while True:
            await asyncio.sleep(every)
            try:
                if await asyncio.to_thread(self.reload):
                    log.info("Tenants were read again from %s: %s", self._folder, ", ".join(self.names()))
            except TenantFileInvalid as error:
                log.error("Tenants stay as they were: %s", error)  # noqa: TRY400 - the trace says nothing more


def _fingerprint(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when a file of the folder does."""
    try:
        stats = [(path.name, path.stat()) for path in _files(folder)]
    except OSError as error:
        raise TenantFileInvalid(f"{folder}: cannot read the folder of tenants: {error}.") from error
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})


def _load(folder: Path, names: KnownNames) -> tuple[dict[str, Tenant], KeyRing]:
    tenants: dict[str, Tenant] = {}
    for path in _files(folder):
        file = parse_tenant_file(path)
        names.check(file, path)
        tenant = file.to_tenant()
        if tenant.name in tenants:
            raise TenantFileInvalid(
                f"{path}: tenant {tenant.name!r} is already in another file of this folder."
            )
        tenants[tenant.name] = tenant
    if not tenants:
        raise TenantFileInvalid(
            f"{folder}: there is no tenant in this folder, so nobody could call. "
            "Add one: flashlane keys create."
        )
    return tenants, KeyRing(tenants.values())


def files_of(folder: Path) -> list[tuple[Path, TenantFile]]:
    """Return the checked files of a folder, for the commands that edit or judge them.

    Raises:
        TenantFileInvalid: One of them is wrong.
    """
    return [(path, parse_tenant_file(path)) for path in _files(folder)]
