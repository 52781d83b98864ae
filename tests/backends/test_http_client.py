"""The pooled HTTP client, against servers that say on raw sockets what a test tells them to."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.probes import free_port
from backends.http_client import HttpPool, Origin
from backends.http_connection import HIGH_WATER, MAX_HEAD, Connection, HttpError
from tests.fakes.raw_server import Peer, always, once, pool_to, raw_server
from tests.support.waiting import until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LIMIT = 1 << 20


async def fetch(pool: HttpPool, *, timeout: float | None = 5, body: bytes = b"{}") -> tuple[int, bytes]:
    """Make one request; return its status and body."""
    response = await pool.request("POST", "/x", body=body, timeout=timeout)
    try:
        return response.status, await response.read_all(LIMIT)
    finally:
        response.close()


async def failure(pool: HttpPool, *, timeout: float | None = 5) -> HttpError:
    """Make one request that must fail; return the error."""
    with pytest.raises(HttpError) as caught:
        await fetch(pool, timeout=timeout)
    return caught.value


# Requests.


async def test_a_request_is_written_as_http_says():
    seen: list[bytes] = []

    async def play(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    async with pool_to(play, path="/base/") as (pool, server):
        response = await pool.request("POST", "/v1/x", headers=(("x-one", "2"),), body=b"body", timeout=5)
        response.close()
    lines = seen[0].decode().split("\r\n")
    host = server.url.removeprefix("http://")
    assert lines[0] == "POST /base/v1/x HTTP/1.1"
    assert set(lines[1:6]) == {
        f"host: {host}",
        "accept-encoding: identity",
        "x-fixed: 1",
        "x-one: 2",
        "content-length: 4",
    }
    assert lines[6:] == ["", "body"]


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\rb", "a\0b"])
async def test_a_header_cannot_smuggle_another(value: str):
    with pytest.raises(ValueError, match="line break"):
        HttpPool("http://127.0.0.1", headers={"authorization": value})
    async with pool_to(always(OK)) as (pool, server):
        with pytest.raises(ValueError, match="line break"):
            await pool.request("GET", "/", headers=(("traceparent", value),))
        with pytest.raises(ValueError, match="line break"):
            await pool.request("GET", "/", headers=(("x\r\ny", "1"),))
        assert not server.peers


@pytest.mark.parametrize(
    ("url", "origin", "authority"),
    [
        ("http://engine:8000", Origin("http", "engine", 8000, ""), "engine:8000"),
        ("http://engine/", Origin("http", "engine", 80, ""), "engine"),
        ("https://engine/a/b/", Origin("https", "engine", 443, "/a/b"), "engine"),
        ("https://engine:80", Origin("https", "engine", 80, ""), "engine:80"),
        ("http://[::1]:8000/v", Origin("http", "::1", 8000, "/v"), "[::1]:8000"),
    ],
)
def test_a_base_url_is_taken_apart(url: str, origin: Origin, authority: str):
    assert Origin.of(url) == origin
    assert Origin.of(url).authority == authority


async def test_an_address_of_ip_version_6_is_reached():
    seen: list[bytes] = []

    async def play(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    try:
        async with pool_to(play, host="::1") as (pool, server):
            assert await fetch(pool) == (200, b"ok")
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    assert f"host: {server.url.removeprefix('http://')}".encode() in seen[0]


# Bodies.


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (OK, (200, b"ok")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", (200, b"")),
        (CHUNKED + b"2\r\nab\r\n3;ext=1\r\ncde\r\n0\r\n\r\n", (200, b"abcde")),
        (CHUNKED + b"0\r\n\r\n", (200, b"")),
        (CHUNKED + b"1\r\na\r\n0\r\ntrailer: 1\r\n\r\n", (200, b"a")),
        (b"HTTP/1.1 100 Continue\r\nx: interim\r\n\r\n" + OK, (200, b"ok")),
        (b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK, (200, b"ok")),
    ],
)
async def test_a_body_is_read_however_it_is_framed(answer: bytes, expected: tuple[int, bytes]):
    async with pool_to(always(answer)) as (pool, server):
        for _ in range(3):
            assert await fetch(pool) == expected
        assert len(server.peers) == 1


async def test_a_body_without_a_length_ends_with_its_connection():
    async with pool_to(once(b"HTTP/1.0 200 OK\r\n\r\nall of it")) as (pool, server):
        assert await fetch(pool) == (200, b"all of it")
        assert await fetch(pool) == (200, b"all of it")
        assert len(server.peers) == 2


async def test_headers_of_an_interim_answer_are_not_those_of_the_answer():
    interim = b"HTTP/1.1 103 Early Hints\r\nx-a: 1\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nX-B: 2\r\nx-b: 3\r\ncontent-length: 0\r\n\r\n"
    async with pool_to(always(interim + answer)) as (pool, _):
        response = await pool.request("GET", "/", timeout=5)
        response.close()
    assert dict(response.headers) == {"x-b": "2, 3", "content-length": "0"}


async def test_trailers_change_no_header():
    async with pool_to(always(CHUNKED + b"0\r\nx-late: 1\r\n\r\n")) as (pool, _):
        response = await pool.request("GET", "/", timeout=5)
        assert await response.read_all(LIMIT) == b""
        response.close()
    assert dict(response.headers) == {"transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        CHUNKED + b"2\r\nok\r\n",
        CHUNKED + b"5\r\nok",
    ],
)
async def test_a_body_that_is_cut_is_an_error_after_what_came(answer: bytes):
    async with pool_to(once(answer)) as (pool, _):
        response = await pool.request("GET", "/", timeout=5)
        assert await response.read_some(5) == b"ok"
        with pytest.raises(HttpError, match="in the middle of the answer") as caught:
            await response.read_some(5)
        response.close()
        assert not caught.value.sent_nothing


async def test_a_connection_that_is_reset_is_an_error_even_where_the_body_has_no_length():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n\r\npart")
        await peer.request()
        peer.writer.transport.abort()

    async with pool_to(play) as (pool, server):
        response = await pool.request("GET", "/", timeout=5)
        assert await response.read_some(5) == b"part"
        sock = server.peers[0].writer.get_extra_info("socket")
        linger = bytes([1, 0, 0, 0, 0, 0, 0, 0])  # close with a reset
        sock.setsockopt(1, 13, linger)
        server.peers[0].writer.transport.abort()
        with pytest.raises(HttpError, match="middle"):
            await response.read_some(5)
        response.close()


async def test_an_answer_over_the_limit_is_refused():
    async with pool_to(always(OK)) as (pool, _):
        response = await pool.request("GET", "/", timeout=5)
        with pytest.raises(HttpError, match="longer than 1 bytes"):
            await response.read_all(1)
        response.close()


# What is no answer.


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_an_error_and_ends_the_connection(answer: bytes):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)
        await peer.gone()

    async with pool_to(play) as (pool, server):
        error = await failure(pool)
        assert "does not speak HTTP/1.1" in str(error)
        assert not error.sent_nothing
        await until(lambda: server.open == 0, "the connection to close")


@pytest.mark.parametrize("line", [b"x: " + b"a" * 100 + b"\r\n", b"a" * 1000])
async def test_headers_without_an_end_are_an_error(line: bytes):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n")
        for _ in range(4 * MAX_HEAD // len(line)):
            await peer.say(line)
        await peer.gone()

    async with pool_to(play) as (pool, server):
        assert "headers are too long" in str(await failure(pool))
        await until(lambda: server.open == 0, "the connection to close")


async def test_interim_answers_without_an_end_are_an_error():
    async def play(peer: Peer) -> None:
        await peer.request()
        while True:
            await peer.say(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    async with pool_to(play) as (pool, _):
        assert "headers are too long" in str(await failure(pool))


# Connections.


async def test_a_connection_is_kept_for_the_next_request():
    async with pool_to(always(OK)) as (pool, server):
        for _ in range(5):
            assert await fetch(pool) == (200, b"ok")
        assert len(server.peers) == 1


async def test_requests_at_the_same_time_have_a_connection_each():
    async with pool_to(always(OK)) as (pool, server):
        answers = await asyncio.gather(*(fetch(pool) for _ in range(10)))
        assert answers == [(200, b"ok")] * 10
        assert len(server.peers) == 10


async def test_no_more_than_so_many_connections_are_kept():
    async with raw_server(always(OK)) as server:
        pool = HttpPool(server.url, headers={}, max_idle=2)
        await asyncio.gather(*(fetch(pool) for _ in range(5)))
        await until(lambda: server.open == 2, "the others to close")
        pool.close()
        await until(lambda: server.open == 0, "all to close")


@pytest.mark.parametrize(
    "answer", [OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), b"HTTP/1.0" + OK[8:]]
)
async def test_a_connection_that_the_server_will_not_keep_is_not_kept(answer: bytes):
    async with pool_to(always(answer)) as (pool, server):
        for _ in range(3):
            assert await fetch(pool) == (200, b"ok")
        assert len(server.peers) == 3


async def test_a_kept_connection_that_the_server_closed_is_replaced():
    async with pool_to(once(OK)) as (pool, server):
        for _ in range(3):
            assert await fetch(pool) == (200, b"ok")
        assert len(server.peers) == 3


async def test_a_kept_connection_that_closes_on_the_request_is_replaced_once():
    async def play(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.say(OK)
            await peer.request()

    async with pool_to(play) as (pool, server):
        assert await fetch(pool) == (200, b"ok")
        error = await failure(pool)
        assert "before it answered" in str(error)
        assert len(server.peers) == 2  # the kept one, then a fresh one: no third


async def test_a_kept_connection_that_breaks_late_has_carried_the_request_and_is_not_replaced():
    async def play(peer: Peer) -> None:
        for _ in range(2):
            await peer.request()
            await peer.say(OK if not asked else b"")
            asked.append(peer.number)

    asked: list[int] = []
    async with raw_server(play) as server:
        pool = HttpPool(server.url, headers={}, stale_seconds=0.0)
        assert await fetch(pool) == (200, b"ok")
        await failure(pool)
        pool.close()
    assert asked == [1, 1]


@pytest.mark.parametrize("begun", [b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n", b"garbage\r\n\r\n"])
async def test_a_request_whose_answer_has_begun_is_never_sent_again(begun: bytes):
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        await peer.request()
        await peer.say(begun)

    async with pool_to(play) as (pool, server):
        await fetch(pool)
        error = await failure(pool)
        assert not error.sent_nothing
        assert len(server.peers) == 1


async def test_an_unfinished_answer_closes_its_connection():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n")
        await peer.gone()

    async with pool_to(play) as (pool, server):
        response = await pool.request("GET", "/", timeout=5)
        assert await response.read_some(5) == b"a"
        response.close()
        await until(lambda: server.open == 0, "the connection to close")
        assert await response.read_some(5) == b""


async def test_a_request_that_is_cancelled_closes_its_connection():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with pool_to(play) as (pool, server):
        task = asyncio.get_running_loop().create_task(fetch(pool, timeout=None))
        await until(lambda: server.open == 1, "the connection")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.open == 0, "the connection to close")


async def test_bytes_after_an_answer_belong_to_nobody_and_end_the_connection():
    smuggled = b"HTTP/1.1 500 Smuggled\r\nx-bad: 1\r\ncontent-length: 3\r\n\r\nbad"
    async with pool_to(always(OK + smuggled)) as (pool, server):
        response = await pool.request("GET", "/", timeout=5)
        assert (response.status, await response.read_all(LIMIT)) == (200, b"ok")
        assert dict(response.headers) == {"content-length": "2"}
        response.close()
        assert await fetch(pool) == (200, b"ok")
        assert len(server.peers) == 2


@pytest.mark.parametrize("late", [b"HTTP/1.1 408 Timeout\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 20", b"?"])
async def test_a_kept_connection_on_which_the_server_speaks_is_not_used_again(late: bytes):
    heard = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)
        if peer.number == 1:
            await heard.wait()
            await peer.say(late)
        while await peer.request():
            await peer.say(OK)

    async with pool_to(play) as (pool, server):
        assert await fetch(pool) == (200, b"ok")
        heard.set()
        other = HttpPool(server.url, headers={})
        for _ in range(20):  # round trips on another connection, while the words arrive
            await fetch(other)
        other.close()
        assert await fetch(pool) == (200, b"ok")
        assert len(server.peers) == 3


# Waiting.


async def test_a_slow_reader_stops_the_sender():
    size = 64 * 1024 * 1024

    async def play(peer: Peer) -> None:
        while request := await peer.request():
            if request.startswith(b"GET /big"):
                await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size))
            else:
                await peer.say(OK)

    async with pool_to(play) as (pool, server):
        big = await pool.request("GET", "/big", timeout=5)
        for _ in range(200):
            await fetch(pool)  # the loop turns, and nobody reads
        assert server.peers[0].writer.transport.get_write_buffer_size() > size // 2
        read, most = 0, 0
        while piece := await big.read_some(5):
            read, most = read + len(piece), max(most, len(piece))
        big.close()
        assert read == size
        assert most <= 2 * HIGH_WATER + 65536
        await fetch(pool)
        assert len(server.peers) == 2


async def test_a_head_that_does_not_come_in_time_cancels_the_exchange():
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 ")
        await peer.gone()

    async with pool_to(play) as (pool, server):
        with pytest.raises(TimeoutError):
            await fetch(pool, timeout=0.05)
        await until(lambda: server.open == 0, "the connection to close")


async def test_a_body_that_is_late_can_still_be_read():
    on = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED)
        await on.wait()
        await peer.say(b"1\r\na\r\n0\r\n\r\n")
        await peer.gone()

    async with pool_to(play) as (pool, _):
        response = await pool.request("GET", "/", timeout=5)
        with pytest.raises(TimeoutError):
            await response.read_some(0.02)
        with pytest.raises(TimeoutError):
            await response.wait(0.02)
        on.set()
        assert await response.read_all(LIMIT) == b"a"
        response.close()


async def test_a_deadline_holds_when_a_byte_comes_at_the_same_moment():
    loop = asyncio.get_running_loop()
    connection = Connection(loop)
    waiting = loop.create_task(connection.wait_head(0))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 ")  # wakes the waiter in the turn in which its time is up
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 5)


async def test_a_refused_connection_says_so_and_not_where():
    pool = HttpPool(f"http://127.0.0.1:{free_port()}", headers={})
    error = await failure(pool)
    assert str(error) == "cannot connect: Connection refused"
    assert error.sent_nothing


async def test_a_host_that_does_not_exist_is_told():
    pool = HttpPool("http://engine.invalid:8000", headers={})
    assert str(await failure(pool)) == "cannot connect: the name of the host is not known"


async def test_a_server_that_does_not_shake_hands_is_given_up():
    async def play(peer: Peer) -> None:
        await peer.gone()

    async with raw_server(play) as server:
        pool = HttpPool(server.url.replace("http", "https"), headers={}, connect_timeout=0.1)
        assert str(await failure(pool)) == "no connection within 0.1 s"
        await until(lambda: server.open == 0, "the connection to close")


# TLS.


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of our own for `localhost`, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    try:
        subprocess.run([*command, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_tls_is_spoken_with_a_server_that_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with raw_server(always(OK), tls=server_tls(certificate)) as server:
        pool = HttpPool(server.url.replace("127.0.0.1", "localhost"), headers={})
        for _ in range(3):
            assert await fetch(pool) == (200, b"ok")
        pool.close()
        assert len(server.peers) == 1
        await until(lambda: server.open == 0, "the connection to close")


async def test_a_certificate_that_is_not_trusted_is_refused_and_told(certificate: Path):
    async with raw_server(always(OK), tls=server_tls(certificate)) as server:
        pool = HttpPool(server.url.replace("127.0.0.1", "localhost"), headers={})
        assert "self-signed certificate" in str(await failure(pool))


# Any cut.


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Return an answer in pieces, and its body."""
    body = draw(st.binary(max_size=60))
    interim = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\nx: 1\r\n\r\n"]))
    if draw(st.booleans()):
        whole = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    else:
        at = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=4)))
        parts = [body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True)]
        whole = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts if p) + b"0\r\n\r\n"
    whole = interim + whole
    places = sorted(draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)], body


@given(cuts())
def test_an_answer_is_the_same_however_it_is_cut(cut: tuple[list[bytes], bytes]):
    pieces, body = cut

    async def read() -> bytes:
        connection = Connection(asyncio.get_running_loop())
        got: list[bytes] = []
        for piece in pieces:
            connection.data_received(piece)
            got.append(connection.take())
        await connection.wait_head(0)
        await connection.wait_body(0)
        assert connection.status == 200
        assert connection.complete
        assert connection.usable
        return b"".join(got)

    assert uvloop.run(read()) == body


async def test_a_connection_that_was_idle_for_long_is_not_used_again():
    async with raw_server(always(OK)) as server:
        for idle_seconds, connections in ((60.0, 1), (0.0, 1 + 2)):
            pool = HttpPool(server.url, headers={}, idle_seconds=idle_seconds)
            for _ in range(2):
                response = await pool.request("GET", "/")
                await response.read_all(100)
                response.close()
            pool.close()
            assert len(server.peers) == connections
