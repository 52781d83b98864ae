"""The body of a client's request, read field by field; what nobody reads travels on as it came."""

from collections.abc import Collection
from typing import Any, TypeVar

from msgspec import Raw

from gateway.errors import BodyInvalid
from gateway.requests.body import read_fields, read_json

T = TypeVar("T")


class Fields:
    """The top-level fields of a JSON body; a field that is read is taken out."""

    def __init__(self, body: bytes) -> None:
        """Cut a body into its fields.

        Raises:
            BodyInvalid: It is not a JSON object in UTF-8.
        """
        self._raw = read_fields(body)

    def take(self, name: str, kind: type[T]) -> T | None:
        """Take a field out; None when it is absent or null.

        Raises:
            BodyInvalid: It is of another type; the message has the path to what is wrong.
        """
        found: T | None = self.take_union(name, kind | None)
        return found

    def take_union(self, name: str, kind: object) -> Any:  # noqa: ANN401 - a union is no `type` to a type checker
        """Take a field out that may be of several types, None among them."""
        raw = self._raw.pop(name, None)
        return None if raw is None else read_json(raw, kind, name)

    def drop(self, names: Collection[str]) -> None:
        """Leave fields out that mean nothing to an engine."""
        for name in names:
            self._raw.pop(name, None)

    def seen(self, names: Collection[str]) -> dict[str, Raw]:
        """Return fields as they came, without taking them; those that are absent or null are left out."""
        return {
            name: self._raw[name]
            for name in names
            if name in self._raw and bytes(self._raw[name]).strip() != b"null"
        }

    def refuse(self, name: str, why: str) -> None:
        """Refuse a field that is neither absent, null, nor false.

        Raises:
            BodyInvalid: It is there.
        """
        if bytes(self._raw.pop(name, b"null")).strip() not in {b"null", b"false"}:
            raise BodyInvalid(why, param=name)

    def rest(self) -> dict[str, Raw]:
        """Return the fields that nobody took."""
        return dict(self._raw)
