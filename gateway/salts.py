"""What keeps the cached prefixes of tenants apart: a salt that nobody can work out from a tenant's name.

An engine that mixes the salt into the names of its blocks gives no tenant what another has computed, so that
the time to the first token tells nothing of others' prompts (CVE-2025-46570). It is an HMAC under a secret of
the operator's: who can talk to an engine directly must not be able to guess it.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from tempfile import NamedTemporaryFile

from backends.types import EngineFlavour, Replica
from policies.types import Tenant

SECRET_BYTES = 32


class Salts:
    """Salts under one secret."""

    def __init__(self, secret: bytes) -> None:
        """Take the secret; all gateways over the same engines have the same."""
        self._secret = secret
        self._known: dict[str, str] = {}

    def of(self, tenant: Tenant, replica: Replica) -> str | None:
        """Return the salt of a tenant's requests; None where it shares, or the engine has no such field."""
        if tenant.shared_cache or replica.flavour is not EngineFlavour.VLLM:
            return None
        return self.of_name(tenant.name)

    def of_name(self, tenant: str) -> str:
        """Return the salt of the tenant of this name, which does not share."""
        salt = self._known.get(tenant)
        if salt is None:
            digest = hmac.new(self._secret, tenant.encode(), hashlib.sha256)
            salt = self._known[tenant] = digest.hexdigest()[:32]
        return salt


def kept_secret(path: Path) -> bytes:
    """Return the secret of a file, which is made the first time; whoever else does so gets the same.

    Raises:
        OSError: It can be neither read nor made.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".tmp", delete=False) as new:
        new.write(secrets.token_bytes(SECRET_BYTES))  # readable by its owner alone
    try:
        os.link(new.name, path)
    except FileExistsError:
        pass
    finally:
        Path(new.name).unlink()
    return path.read_bytes()
