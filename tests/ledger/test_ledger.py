"""The ledger, over SQLite and a real PostgreSQL: what is written, when, and what if it cannot be."""

import asyncio
import contextlib
import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, text

from gateway import ledger as ledger_module
from gateway.errors import LedgerUnavailable
from gateway.ledger import Ledger, record_json
from gateway.records import RequestRecord
from tests.support.records import make_record
from tests.support.waiting import until

EMPTY = {
    "complexity": None,
    "ttft_ms": None,
    "trace": (),
    "model": "",
    "reason": "",
    "cost_usd": Decimal(0),
    "status": "error",
}


async def open_ledger(url: str) -> Ledger:
    """Open a ledger, as the gateway does: in a thread."""
    return await asyncio.to_thread(Ledger, url)


@contextmanager
def commits() -> Generator[list[int]]:
    """Count the commits of all databases; one entry each."""
    seen: list[int] = []

    def note(_connection: object) -> None:
        seen.append(1)

    event.listen(Engine, "commit", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "commit", note)


async def test_a_record_is_read_back_as_it_was_written(ledger: Ledger):
    for record in (make_record(), make_record(**EMPTY)):
        await ledger.record(record)
        assert await ledger.find(record.id, tenant="acme") == record


async def test_a_record_is_its_tenants_alone(ledger: Ledger):
    record = make_record()
    await ledger.record(record)
    assert await ledger.find(record.id, tenant="umbrella") is None
    assert await ledger.find("req_0", tenant="acme") is None


async def test_records_outlive_the_ledger(ledger_url: str):
    record = make_record()
    first = await open_ledger(ledger_url)
    await first.record(record)
    await first.aclose()
    second = await open_ledger(ledger_url)
    assert await second.find(record.id, tenant="acme") == record
    await second.aclose()


async def test_records_that_come_together_share_commits(ledger: Ledger):
    records = [make_record() for _ in range(400)]
    with commits() as seen:
        await asyncio.gather(*map(ledger.record, records))
    assert 1 <= len(seen) <= 40
    assert all([await ledger.find(record.id, tenant="acme") for record in records[::40]])


async def test_closing_writes_what_still_waits(ledger_url: str):
    ledger = await open_ledger(ledger_url)
    records = [make_record() for _ in range(100)]
    waiting = [ledger.record(record) for record in records]
    await ledger.aclose()
    await asyncio.gather(*waiting)
    again = await open_ledger(ledger_url)
    assert await again.find(records[-1].id, tenant="acme") == records[-1]
    await again.aclose()


async def test_a_bad_record_spoils_no_other_of_its_batch(ledger: Ledger, caplog: pytest.LogCaptureFixture):
    twice = make_record()
    await ledger.record(twice)
    records = [make_record(), make_record(), twice, make_record(), make_record()]
    outcomes = await asyncio.gather(*map(ledger.record, records), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 2 + [LedgerUnavailable] + [
        type(None)
    ] * 2
    for record in records:
        assert await ledger.find(record.id, tenant="acme") == record
    assert [twice.id in line.getMessage() for line in caplog.records] == [True]


async def test_a_name_that_a_database_cannot_hold_spoils_nothing(ledger: Ledger):
    """PostgreSQL takes no NUL in a text; `model_requested` comes from the client."""
    records = [make_record(), make_record(model_requested="a\0b"), make_record()]
    outcomes = await asyncio.gather(*map(ledger.record, records), return_exceptions=True)
    assert (outcomes[0], outcomes[2]) == (None, None)
    assert await ledger.find(records[1].id, tenant="acme") is not None


async def test_an_answer_that_nobody_awaits_is_no_warning(ledger: Ledger, caplog: pytest.LogCaptureFixture):
    twice = make_record()
    await ledger.record(twice)
    ledger.record(twice)  # not awaited, and it fails
    ledger.record(make_record()).cancel()
    await ledger.record(make_record())
    assert await ledger.is_ready()


def test_money_is_exact_in_json():
    value = json.loads(record_json(make_record(cost_usd=Decimal("0.000000001"))))
    assert value["cost_usd"] == "0.000000001"
    assert value.keys() == set(RequestRecord.__struct_fields__)


KILLED = """
import asyncio, sys
sys.path.insert(0, {root!r})
from gateway.ledger import Ledger
from tests.support.records import make_record
from tests.support.waiting import until

async def main():
    ledger = Ledger({url!r})
    while True:
        records = [make_record() for _ in range(10)]
        await asyncio.gather(*map(ledger.record, records))
        for record in records:
            print(record.id, flush=True)

asyncio.run(main())
"""


async def test_a_record_that_was_promised_survives_the_death_of_its_process(tmp_path: Path):
    root = str(Path(__file__).parents[2])
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED.format(root=root, url=url), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    promised = [(await process.stdout.readline()).decode().strip() for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    promised += (await process.stdout.read()).decode().split()
    await process.wait()
    ledger = await open_ledger(url)
    assert len(promised) >= 50
    for request_id in promised:
        assert await ledger.find(request_id, tenant="acme") is not None, request_id
    await ledger.aclose()


async def test_a_full_database_fails_the_record_keeps_it_in_the_log_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = await open_ledger(url)

    def limit(pages: int) -> None:
        with ledger._connection.begin():  # pyright: ignore[reportPrivateUsage] - the writer's, idle now
            ledger._connection.execute(text(f"PRAGMA max_page_count={pages}"))  # pyright: ignore[reportPrivateUsage]

    limit(1)
    big = make_record(trace=("x" * 200_000,))
    with pytest.raises(LedgerUnavailable, match="full"):
        await ledger.record(big)
    assert big.id in caplog.text
    assert await ledger.is_ready()
    limit(100_000)
    await ledger.record(big)
    assert await ledger.find(big.id, tenant="acme") == big
    await ledger.aclose()


async def test_while_a_database_hangs_so_many_records_wait_and_the_rest_go_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ledger_module, "MAX_WAITING", 3)
    lost: list[int] = []
    ledger = await asyncio.to_thread(Ledger, f"sqlite:///{tmp_path / 'ledger.db'}", lambda: lost.append(1))
    records = [make_record() for _ in range(10)]
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        first = ledger.record(records[0])
        await until(ledger._queue.empty, "the writer to take it")  # pyright: ignore[reportPrivateUsage]
        kept, refused = [ledger.record(r) for r in records[1:4]], [ledger.record(r) for r in records[4:]]
        for outcome in refused:
            with pytest.raises(LedgerUnavailable, match="others wait"):
                await outcome
        other.rollback()
    await asyncio.gather(first, *kept)
    assert [record.id in caplog.text for record in records] == [False] * 4 + [True] * 6
    assert len(lost) == 6
    await ledger.aclose()


async def test_a_database_whose_table_is_gone_fails_the_record_and_is_not_ready(
    ledger_url: str, caplog: pytest.LogCaptureFixture
):
    ledger = await open_ledger(ledger_url)
    other = create_engine(ledger_url.replace("postgresql:", "postgresql+psycopg:"))
    with other.begin() as connection:
        connection.execute(text("ALTER TABLE requests RENAME TO away"))
    record = make_record()
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        await ledger.record(record)
    assert record.id in caplog.text
    assert "INSERT" not in caplog.text
    assert not await ledger.is_ready()
    with pytest.raises(LedgerUnavailable, match="cannot be read"):
        await ledger.find(record.id, tenant="acme")
    with other.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO requests"))
    other.dispose()
    await ledger.record(record)
    assert await ledger.is_ready()
    await ledger.aclose()


async def test_a_database_that_may_only_be_read_fails_the_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "ledger.db"
    await (await open_ledger(f"sqlite:///{file}")).aclose()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    try:
        ledger = await open_ledger(f"sqlite:///file:{file}?mode=ro&uri=true")
    except LedgerUnavailable as error:
        assert "readonly" in str(error)  # noqa: PT017 - either is right: refuse to open, or to write
        return
    record = make_record()
    with pytest.raises(LedgerUnavailable, match="readonly"):
        await ledger.record(record)
    assert record.id in caplog.text
    await ledger.aclose()


async def test_a_connection_that_the_database_dropped_loses_no_record(postgres_url: str):
    ledger = await open_ledger(postgres_url)
    await ledger.record(make_record(id="req_before"))
    admin = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with admin.begin() as connection:
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        )
        connection.execute(text("DELETE FROM requests"))
    admin.dispose()
    record = make_record()
    await ledger.record(record)
    assert await ledger.find(record.id, tenant="acme") == record
    await ledger.aclose()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:////nowhere/ledger.db", "sqlite:////nowhere/ledger.db"),
        ("postgresql://me:pa%40ss@127.0.0.1:9/x", "postgresql+psycopg://me:***@127.0.0.1:9/x"),
        ("postgresql+nothing://me:pa%40ss@127.0.0.1/x", "cannot be opened"),
        ("mysql://me:pa%40ss@127.0.0.1/x", "cannot be opened"),
        ("postgresql://me:pa%40ss@127.0.0.1:port/x", "not a database URL"),
        ("me:pa%40ss", "not a database URL"),
    ],
)
def test_a_database_that_cannot_be_opened_is_named_without_its_password(url: str, words: str):
    with pytest.raises(LedgerUnavailable) as caught:
        Ledger(url)
    assert words in str(caught.value)
    assert "pa%40ss" not in str(caught.value)
    assert "pa@ss" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_is_logged_of_a_record_that_is_kept(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    async def run() -> None:
        ledger = await open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
        await ledger.record(make_record())
        await ledger.aclose()

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert not caplog.records
