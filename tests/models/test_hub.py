"""A model file over HTTP, from a server of ours that can break off."""

import re
import threading
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from backends.errors import ModelCorrupt, ModelUnavailable
from backends.models.store import ModelStore
from backends.models.types import ModelSource, ModelState, PullProgress
from tests.models.conftest import Depot


@dataclass
class Hub:
    """A file server.

    Attributes:
        content: What it serves.
        ranges: Whether it knows Range requests.
        most: Bytes after which it breaks a connection off.
        status: Answers every request with this instead, unless it is 200.
        starts: First byte of each answer.
    """

    content: bytes
    ranges: bool = True
    most: int = 10**9
    status: int = 200
    starts: list[int] = field(default_factory=list[int])
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        if self.hub.status != 200:
            self.send_error(self.hub.status)
            return
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])
        start = int(asked[1]) if asked and self.hub.ranges else 0
        self.hub.starts.append(start)
        self.send_response(206 if self.hub.ranges else 200)
        self.send_header("Content-Length", str(len(self.hub.content) - start))
        self.end_headers()
        self.wfile.write(self.hub.content[start : start + self.hub.most])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""


@pytest.fixture
def hub(depot: Depot) -> Generator[Hub]:
    served = Hub(depot.content)
    handler = type("HubHandler", (Handler,), {"hub": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}/tiny.gguf"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield served
        server.shutdown()
        thread.join()


@pytest.fixture
def store(depot: Depot, hub: Hub) -> ModelStore:
    return replace(depot.store, catalogue=(replace(depot.model, hub_url=hub.url),))


def test_a_model_comes_from_a_hub_and_is_verified(depot: Depot, hub: Hub, store: ModelStore):
    steps: list[PullProgress] = []
    path = store.pull("tiny", ModelSource.HUB, steps.append)
    assert path.read_bytes() == depot.content
    assert store.state("tiny") is ModelState.READY
    assert depot.index.asked == []
    assert steps[-1].done == depot.model.size


def test_a_broken_connection_is_taken_up_where_it_broke(depot: Depot, hub: Hub, store: ModelStore):
    hub.most = 150_000
    assert store.pull("tiny", ModelSource.HUB).read_bytes() == depot.content
    assert hub.starts == [0, 150_000, 300_000, 450_000]


def test_a_pull_goes_on_from_what_an_earlier_one_left_whatever_its_source(
    depot: Depot, hub: Hub, store: ModelStore
):
    depot.partial.parent.mkdir(parents=True)
    depot.partial.write_bytes(depot.content[:123_456])
    store.pull("tiny", ModelSource.HUB)
    assert hub.starts == [123_456]
    assert depot.target.read_bytes() == depot.content


def test_a_hub_without_ranges_sends_all_of_it_again(depot: Depot, hub: Hub, store: ModelStore):
    hub.ranges = False
    depot.partial.parent.mkdir(parents=True)
    depot.partial.write_bytes(depot.content[:123_456])
    assert store.pull("tiny", ModelSource.HUB).read_bytes() == depot.content


def test_a_hub_without_ranges_that_always_breaks_off_is_given_up(hub: Hub, store: ModelStore):
    hub.ranges = False
    hub.most = 1000
    with pytest.raises(ModelUnavailable, match="the connection ended at 1000 of"):
        store.pull("tiny", ModelSource.HUB)
    assert len(hub.starts) == 2


def test_a_hub_that_refuses_is_quoted(hub: Hub, store: ModelStore):
    hub.status = 404
    with pytest.raises(ModelUnavailable, match="answers 404 Not Found"):
        store.pull("tiny", ModelSource.HUB)


def test_a_hub_that_is_not_there_is_named_and_what_came_is_kept(depot: Depot, hub: Hub, store: ModelStore):
    depot.partial.parent.mkdir(parents=True)
    depot.partial.write_bytes(depot.content[:1000])
    gone = replace(depot.model, hub_url="http://127.0.0.1:1/tiny.gguf")
    with pytest.raises(ModelUnavailable, match=r"cannot fetch http://127\.0\.0\.1:1/tiny\.gguf"):
        replace(store, catalogue=(gone,)).pull("tiny", ModelSource.HUB)
    assert depot.partial.stat().st_size == 1000


def test_other_bytes_are_thrown_away(depot: Depot, hub: Hub, store: ModelStore):
    hub.content = b"?" + depot.content[1:]
    with pytest.raises(
        ModelCorrupt, match=f"serves another file as Tiny Q4: expected sha256 {depot.model.sha256}"
    ):
        store.pull("tiny", ModelSource.HUB)
    assert store.state("tiny") is ModelState.ABSENT


def test_more_bytes_than_pinned_are_refused(depot: Depot, hub: Hub, store: ModelStore):
    hub.content = depot.content + b"?"
    with pytest.raises(ModelCorrupt, match="sends more than the pinned"):
        store.pull("tiny", ModelSource.HUB)


def test_a_model_that_no_hub_has_says_so(depot: Depot):
    with pytest.raises(ModelUnavailable, match="no model hub has tiny; use `--source index`"):
        depot.store.pull("tiny", ModelSource.HUB)
