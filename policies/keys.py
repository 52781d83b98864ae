"""API keys: made once, kept as a hash."""

import hashlib
import secrets
from collections.abc import Iterable

from policies.errors import TenantFileInvalid, UnknownKey
from policies.types import Caller, Tenant

PREFIX = "sk-fl-"


def make_key() -> str:
    """Return a new API key with 256 bits of chance."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """Return the SHA-256 of a key in hex: what is stored of it.

    A key has 256 random bits, so that no slow hash is needed to keep it from being guessed.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class KeyRing:
    """Finds the caller of an API key.

    The key is hashed before it is looked up: how long the look-up takes says something about the
    hash at most, and nothing about the key.
    """

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        """Take in the keys of all tenants.

        Raises:
            TenantFileInvalid: Two entries have the same key.
        """
        self._callers: dict[str, Caller] = {}
        for tenant in tenants:
            for key in tenant.keys:
                other = self._callers.get(key.sha256)
                if other is not None:
                    raise TenantFileInvalid(
                        f"Key {key.name!r} of tenant {tenant.name!r} is also key {other.key_name!r} of "
                        f"tenant {other.tenant.name!r}; give each its own: flashlane keys create."
                    )
                self._callers[key.sha256] = Caller(tenant, key.name)

    def identify(self, key: str) -> Caller:
        """Return who `key` belongs to.

        Raises:
            UnknownKey: Nobody.
        """
        caller = self._callers.get(hash_key(key))
        if caller is None:
            raise UnknownKey("The API key is not valid.")
        return caller
