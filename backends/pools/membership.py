"""Replicas that come and go: found by DNS or by Kubernetes, taken in, and drained when they leave.

One that is no longer found gets nothing new; what is on it ends in peace, and then it is forgotten. A
question that is not answered changes nothing: a name server that is away takes no replica out, the health
of each does that.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit, urlunsplit

import msgspec

from backends.fleet import Fleet, Member
from backends.http_client import HttpPool
from backends.http_connection import HttpError
from backends.types import Discovery, Pool, Replica

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Between two looks."""

ANSWER_SECONDS: Final = 5.0
"""For how long an answer is waited for."""

MAX_SLICES: Final = 8 * 1024 * 1024
"""Most bytes of an answer of Kubernetes."""

KUBERNETES: Final = "https://kubernetes.default.svc"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the authority of the cluster's certificates."""


class NotAnswered(Exception):
    """Who is there is not known now."""


class Source(Protocol):
    """Knows which addresses a name stands for."""

    async def addresses(self) -> frozenset[str]:
        """Return base URLs of the replicas that are there and do not leave.

        Raises:
            NotAnswered: It is not known.
        """
        ...


class DnsSource:
    """All addresses of a name, as a headless service of Kubernetes or Consul has them."""

    def __init__(self, url: str) -> None:
        """Look up the host of `url`."""
        self._parts = urlsplit(url)

    async def addresses(self) -> frozenset[str]:
        """Ask the system's resolver; see `Source.addresses`."""
        host, port = self._parts.hostname or "", self._parts.port or 80
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            raise NotAnswered(f"{host} cannot be looked up: {error or 'no answer'}") from error
        return frozenset(self._url(str(address[0]), port) for _, _, _, _, address in found)

    def _url(self, address: str, port: int) -> str:
        return _with_host(self._parts.geturl(), address, port)


class _Conditions(msgspec.Struct):
    ready: bool | None = None
    terminating: bool | None = None


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class _Slice(msgspec.Struct):
    endpoints: list[_Endpoint] | None = None


class _Slices(msgspec.Struct):
    """A list of `discovery.k8s.io/v1` EndpointSlice, as far as it is read."""

    items: list[_Slice] = []


class KubernetesSource:
    """The endpoints of a service, by Kubernetes' API: it also knows which pods are about to end."""

    def __init__(self, url: str, *, api: str = KUBERNETES, account: Path = ACCOUNT) -> None:
        """Look for the service that `url` names: http://SERVICE.NAMESPACE[.svc...]:PORT.

        Args:
            url: The port is that of the pods.
            api: Base URL of the API.
            account: Folder with the files `token` and `ca.crt`; without them nothing is shown or trusted.
        """
        self._url = url
        host = urlsplit(url).hostname or ""
        self._service, self._namespace = host.split(".")[:2]
        self._api = api
        self._account = account
        self._pool: HttpPool | None = None

    async def addresses(self) -> frozenset[str]:
        """Ask for the slices of the service; see `Source.addresses`."""
        path = (
            f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices"
            f"?labelSelector=kubernetes.io%2Fservice-name%3D{self._service}"
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                token = await asyncio.to_thread(self._token)  # it is renewed every hour
                pool = self._pool = self._pool or await asyncio.to_thread(self._connect)
                response = await pool.request("GET", path, headers=token)
                try:
                    body = await response.read_all(MAX_SLICES)
                finally:
                    response.close()
            if response.status != 200:
                raise NotAnswered(
                    f"Kubernetes answered {response.status} for {self._service}: {_hint(response.status)}"
                )
            slices = msgspec.json.decode(body, type=_Slices)
        except (HttpError, OSError, TimeoutError, msgspec.DecodeError) as error:
            raise NotAnswered(
                f"Kubernetes does not tell the endpoints of {self._service}: {error}"
            ) from error
        port = urlsplit(self._url).port or 80
        return frozenset(
            _with_host(self._url, address, port)
            for each in slices.items
            for endpoint in each.endpoints or ()
            if endpoint.conditions.ready is not False and not endpoint.conditions.terminating
            for address in endpoint.addresses[:1]  # they are the same pod
        )

    def _token(self) -> list[tuple[str, str]]:
        file = self._account / "token"
        return [("authorization", f"Bearer {file.read_text('utf-8').strip()}")] if file.exists() else []

    def _connect(self) -> HttpPool:
        authority = self._account / "ca.crt"
        tls = ssl.create_default_context(cafile=str(authority)) if authority.exists() else None
        return HttpPool(self._api, headers={"accept": "application/json"}, max_idle=1, tls=tls)


def _hint(status: int) -> str:
    if status in {401, 403}:
        return "let the pod's service account get and list endpointslices"
    return "see the API server's log"


def _with_host(url: str, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return urlunsplit(urlsplit(url)._replace(netloc=f"{shown}:{port}"))


def _at(url: str, template: Replica, name: str) -> Replica:
    """Return the replica that was found at a URL: its events come from the same host."""
    host = urlsplit(url).hostname or ""
    events, replay = (
        address and _with_host(address, host, urlsplit(address).port or 0)
        for address in (template.kv_events, template.kv_replay)
    )
    return replace(template, name=name, target=url, kv_events=events, kv_replay=replay)


def make_source(discovery: Discovery) -> Source:
    """Return who is asked for the replicas of a discovery."""
    url = discovery.template.target
    return DnsSource(url) if discovery.kind == "dns" else KubernetesSource(url)


class _Watched:
    """A discovery at work, and the members that came of it, by their URL."""

    def __init__(self, model: str, pool: Pool, discovery: Discovery, source: Source) -> None:
        self.model = model
        self.pool = pool
        self.template = discovery.template
        self.source = source
        self.members: dict[str, Member] = {}

    def free_name(self) -> str:
        """Return the first name that nobody has: names are labels of metrics, and must not grow for ever."""
        taken = {member.replica.name for member in self.members.values()}
        number = 0
        while f"{self.template.name}-{number}" in taken:
            number += 1
        return f"{self.template.name}-{number}"


class Membership:
    """Keeps the members of pools as they are found."""

    def __init__(self, fleet: Fleet, *, make: Callable[[Discovery], Source] = make_source) -> None:
        """Watch every discovery of the fleet's pools; nothing is asked yet."""
        self._fleet = fleet
        self._watched = [
            _Watched(model, pool, discovery, make(discovery))
            for model, pools in fleet.pools.items()
            for pool in pools
            for discovery in pool.discoveries
        ]

    async def look(self) -> None:
        """Ask every source once, all at once, and follow what they say."""
        await asyncio.gather(*map(self._follow, self._watched))

    async def keep_looking(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def _follow(self, watched: _Watched) -> None:
        try:
            found = await watched.source.addresses()
        except NotAnswered as error:
            log.warning("%s: %s; its replicas stay as they are", watched.template.name, error)
            found = frozenset(url for url, member in watched.members.items() if not member.health.draining)
        for url in sorted(found - watched.members.keys()):
            replica = _at(url, watched.template, watched.free_name())
            watched.members[url] = self._fleet.join(watched.model, watched.pool, replica)
            log.info("%s is there, at %s", replica.name, url)
        for url, member in watched.members.items():
            member.health.draining = url not in found
        await self._forget(
            [url for url, m in watched.members.items() if m.health.draining and not m.in_flight], watched
        )

    async def _forget(self, urls: Sequence[str], watched: _Watched) -> None:
        for url in urls:
            member = watched.members.pop(url)
            await self._fleet.remove(watched.model, member)
            log.info("%s has left, from %s", member.replica.name, url)
