"""The ledger: a record a request, durable before the client sees the end of its answer.

One thread writes. It takes all that has come in while the last commit ran and commits it together
(group commit), so that the cost of a disk flush is shared by the requests that wait for it.
SQLite by default, PostgreSQL by URL.
"""

import asyncio
import contextlib
import functools
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, cast

import msgspec
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    event,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from gateway.errors import LedgerUnavailable
from gateway.records import RequestRecord

log = logging.getLogger(__name__)

MAX_BATCH = 256
"""Most records a commit."""

MAX_WAITING = 50_000
"""Most records, a kilobyte or two each, that wait for a database that hangs; further ones go to the log."""

PATIENCE_SECONDS = 5.0
"""How long an answer's end waits for its record."""

SLOW = "The ledger is slow; the record is written when it can be."
PROBE_SECONDS = 2.0
NANO = Decimal(1_000_000_000)

metadata = MetaData()
requests_table = Table(
    "requests",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("tenant", String(64), nullable=False),
    Column("key_name", String(64), nullable=False),
    Column("endpoint", String(64), nullable=False),
    Column("model_requested", String(256), nullable=False),
    Column("model", String(64), nullable=False),
    Column("pool", String(64), nullable=False),
    Column("replica", String(256), nullable=False),
    Column("reason", String(512), nullable=False),
    Column("trace", JSON, nullable=False),
    Column("complexity", Float),
    Column("domain", String(64), nullable=False),
    Column("task", String(64), nullable=False),
    Column("classifier_version", String(64), nullable=False),
    Column("stream", Boolean, nullable=False),
    Column("status", String(16), nullable=False),
    Column("http_status", Integer, nullable=False),
    Column("error", String(64), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("usage_estimated", Boolean, nullable=False),
    Column("ttft_ms", Float),
    Column("total_ms", Float, nullable=False),
    Column("overhead_ms", Float, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False, comment="USD x 1e-9: exact, and quick to add up"),
    Index("requests_by_tenant", "tenant", "created_ms"),
)


class Ledger:
    """Writes and reads records."""

    def __init__(self, url: str, on_lost: Callable[[], None] = lambda: None) -> None:
        """Open the database and make its tables.

        Args:
            url: An SQLAlchemy URL; `postgresql://` is spoken with psycopg.
            on_lost: Called, on any thread, for each record that could not be written.

        Raises:
            LedgerUnavailable: It cannot be opened; the message names it, without its password.
        """
        self._engine, self._connection = _open(url)
        self._insert = functools.partial(_insert_statement, self._engine.dialect.paramstyle)
        self._on_lost = on_lost
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._patience = _Patience()
        self._thread = threading.Thread(target=self._write, name="ledger", daemon=True)
        self._thread.start()

    def record(self, record: RequestRecord) -> asyncio.Future[None]:
        """Hand a record to the writer.

        Returns:
            Done when the record is durable; fails with `LedgerUnavailable` when it could not be
            written, or `MAX_WAITING` others wait, and is then in the log, or when that takes longer
            than `PATIENCE_SECONDS`. Need not be awaited.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        entry = _Entry(record, future)
        if self._queue.qsize() >= MAX_WAITING:
            self._lose([entry], f"{MAX_WAITING} others wait for it")
            return future
        self._patience.watch(future)
        self._queue.put(entry)
        return future

    async def find(self, request_id: str, *, tenant: str) -> RequestRecord | None:
        """Return a record of `tenant`; None when it has no such request.

        Raises:
            LedgerUnavailable: The database cannot be read.
        """
        return await asyncio.to_thread(self._find, request_id, tenant)

    async def is_ready(self) -> bool:
        """Tell whether the database takes writes now; False when it does not say so within seconds."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.to_thread(self._try_to_write)
        except (SQLAlchemyError, TimeoutError):
            return False
        return True

    async def aclose(self) -> None:
        """Write what is still waiting, then close."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._engine.dispose()

    def _find(self, request_id: str, tenant: str) -> RequestRecord | None:
        query = select(requests_table).where(
            requests_table.c.id == request_id, requests_table.c.tenant == tenant
        )
        try:
            with self._engine.connect() as connection:
                row = connection.execute(query).mappings().one_or_none()
        except SQLAlchemyError as error:
            raise LedgerUnavailable(f"The ledger cannot be read: {_cause(error)}.") from error
        return None if row is None else _record(dict(row))

    def _try_to_write(self) -> None:
        """Change nothing, in the way of a change: it needs the same rights and locks."""
        with self._engine.begin() as connection:
            connection.execute(delete(requests_table).where(requests_table.c.id == ""))

    def _write(self) -> None:
        """Run the writer's thread: commit batch after batch until it is told to stop."""
        with self._connection as connection:
            running = True
            while running:
                batch = [self._queue.get()]
                while len(batch) < MAX_BATCH and not self._queue.empty():
                    batch.append(self._queue.get())
                running = None not in batch
                entries = [entry for entry in batch if entry is not None]
                if entries:
                    self._commit(connection, entries)

    def _commit(self, connection: Connection, entries: "Sequence[_Entry]", *, again: bool = True) -> None:
        """Write entries together; where one of them is bad, one by one, so that it spoils no other.

        Where the database dropped the connection, they are written once more, over a new one.
        """
        driver = self._engine.dialect.loaded_dbapi
        try:
            with connection.begin():
                self._execute(connection, self._insert(len(entries)), _values(entries))
        except Exception as error:  # noqa: BLE001 - whatever it is, the writer must live on
            if again and connection.invalidated:
                self._commit(connection, entries, again=False)
            elif len(entries) > 1 and isinstance(error, (driver.DataError, driver.IntegrityError)):
                for entry in entries:
                    self._commit(connection, [entry], again=again)
            else:
                self._lose(entries, _cause(error))
        else:
            _tell(entries, None)

    def _execute(self, connection: Connection, statement: str, values: tuple[object, ...]) -> None:
        """Have the driver run a statement; by way of SQLAlchemy that takes as long as two records more."""
        dialect, session = self._engine.dialect, connection.connection
        try:
            with contextlib.closing(session.cursor()) as cursor:
                cursor.execute(statement, values)
        except dialect.loaded_dbapi.Error as error:
            if dialect.is_disconnect(error, session, None):
                connection.invalidate()
            raise

    def _lose(self, entries: "Sequence[_Entry]", cause: str) -> None:
        """Put records that the database does not take into the log."""
        for entry in entries:
            text = record_json(entry.record).decode()
            log.error("The ledger did not take a record (%s): %s", cause, text)
            self._on_lost()
        _tell(entries, LedgerUnavailable(f"The ledger cannot be written: {cause}."))


class _Patience:
    """Fails what has waited too long. One timer serves all: who came first is late first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._armed = False

    def watch(self, future: asyncio.Future[None]) -> None:
        """Give a future `PATIENCE_SECONDS` from now."""
        self._forget_done()
        loop = future.get_loop()
        self._waiting.append((loop.time() + PATIENCE_SECONDS, future))
        if not self._armed:
            self._armed = True
            loop.call_later(PATIENCE_SECONDS, self._check, loop)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._forget_done()
        while self._waiting and self._waiting[0][0] <= loop.time():
            _, late = self._waiting.popleft()
            if not late.done():
                _fail(late, LedgerUnavailable(SLOW))
        self._armed = bool(self._waiting)
        if self._waiting:
            loop.call_at(self._waiting[0][0], self._check, loop)

    def _forget_done(self) -> None:
        while self._waiting and self._waiting[0][1].done():
            self._waiting.popleft()


class _Entry:
    """A record on its way, and who waits for it."""

    __slots__ = ("future", "loop", "record")

    def __init__(self, record: RequestRecord, future: asyncio.Future[None]) -> None:
        self.record = record
        self.future = future
        self.loop = future.get_loop()


def _tell(entries: Sequence[_Entry], error: LedgerUnavailable | None) -> None:
    """Wake those who wait, with one call into each event loop."""

    def wake(waiting: Sequence[_Entry]) -> None:
        for entry in waiting:
            if entry.future.done():
                continue
            if error is None:
                entry.future.set_result(None)
            else:
                _fail(entry.future, error)

    for loop in {entry.loop for entry in entries}:
        if not loop.is_closed():
            loop.call_soon_threadsafe(wake, [entry for entry in entries if entry.loop is loop])


def _fail(future: asyncio.Future[None], error: LedgerUnavailable) -> None:
    """Set an error, and look at it, so that nobody is warned of one that no one awaited."""
    future.set_exception(error)
    future.exception()


def _open(url: str) -> tuple[Engine, Connection]:
    """Return an engine whose tables are there, and the connection for the writer."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise LedgerUnavailable(
            "ledger.url is not a database URL, such as sqlite:///flashlane.db."
        ) from error
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    shown = parsed.render_as_string(hide_password=True)
    try:
        engine = create_engine(parsed, pool_pre_ping=parsed.drivername.startswith("postgresql"))
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
        metadata.create_all(engine)
        return engine, engine.connect()
    except (SQLAlchemyError, ImportError) as error:
        raise LedgerUnavailable(f"The ledger {shown} cannot be opened: {_cause(error)}.") from error


def _prepare_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:  # noqa: ANN401 - a DBAPI connection
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _cause(error: Exception) -> str:
    """Return what the database said, without the statement and its values."""
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


_FIELDS = RequestRecord.__struct_fields__
_COLUMNS = tuple(column.name for column in requests_table.columns)
_TRACE, _COST, _ASKED = (_FIELDS.index(name) for name in ("trace", "cost_usd", "model_requested"))
_fields_of = attrgetter(*_FIELDS)


@functools.lru_cache(maxsize=MAX_BATCH)
def _insert_statement(paramstyle: str, rows: int) -> str:
    """Return one INSERT for so many rows, in the driver's own words.

    One statement is one step of the database: with a step a row, the writer's thread and the event
    loop would hand the interpreter's lock back and forth for every record.
    """
    row = f"({', '.join(['?' if paramstyle == 'qmark' else '%s'] * len(_COLUMNS))})"
    names = ", ".join(_COLUMNS)
    return f"INSERT INTO requests ({names}) VALUES {', '.join([row] * rows)}"  # noqa: S608 - names of our own


def _values(entries: Sequence[_Entry]) -> tuple[object, ...]:
    """Return the values of records, row by row: fields and columns stand in the same order."""
    values: list[object] = []
    for entry in entries:
        record = entry.record
        row = list(_fields_of(record))
        row[_TRACE] = msgspec.json.encode(record.trace).decode()
        row[_COST] = int(record.cost_usd * NANO)
        row[_ASKED] = record.model_requested.replace("\0", "\ufffd")  # PostgreSQL takes no NUL
        values += row
    return tuple(values)


def _record(row: dict[str, Any]) -> RequestRecord:
    row["trace"] = tuple(cast("list[str]", row["trace"]))
    row["cost_usd"] = Decimal(row.pop("cost_nano_usd")) / NANO
    return RequestRecord(**row)


def record_json(record: RequestRecord) -> bytes:
    """Return a record as JSON; money as a decimal string."""
    return msgspec.json.encode(msgspec.structs.asdict(record) | {"cost_usd": f"{record.cost_usd:.9f}"})
