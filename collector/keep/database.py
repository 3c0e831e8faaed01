"""One database, SQLite or PostgreSQL: its connections, its transactions, its clock and its locks. All calls block."""

import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from zlib import crc32

from sqlalchemy import BigInteger, Connection, Engine, Table, create_engine, event, func, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql import ColumnElement

from collector.keep.store_files import refuse_shared
from collector.keep.tables import plain
from collector.keep.url import StorePlace
from shared.errors import InvalidSettings, UnhangError

_SQLITE_SECONDS = 30
"""How long one writer waits for another one."""
_OPENING_SECONDS = 3.0
_AGAIN_SECONDS = 0.02

_CONNECT_SECONDS = 5
_STATEMENT_OPTIONS = "-c statement_timeout=30000 -c lock_timeout=15000 -c idle_in_transaction_session_timeout=60000"
_MOST_CONNECTIONS = 8

_CLOCKS = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}


_INSERTS: dict[str, Callable[[Any], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class StoreTrouble(UnhangError):
    """The database failed, or did not answer in time."""


class Database:
    """The connections to one database."""

    def __init__(self, place: StorePlace) -> None:
        """Raises InvalidSettings where the driver is lacking. Connects when it is first used."""
        self.where = place.shown
        self.owner = f"{plain(socket.gethostname())[:200]}/{uuid.uuid4().hex}"
        """Who this collector is, among those that share the database."""
        self._engine = _engine(place)
        self._is_sqlite = place.file is not None
        self._writing = threading.Lock() if self._is_sqlite else nullcontext()
        self._writer = self._engine.execution_options(writes=True)
        self._connected: set[Any] = set()
        event.listen(self._engine, "connect", lambda connection, _: self._connected.add(connection))
        event.listen(self._engine, "close", lambda connection, _: self._connected.discard(connection))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that reads. Raises StoreTrouble."""
        with self._trouble(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction, committed at the end of the block. Raises StoreTrouble."""
        with self._trouble(), self._writing, self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close the connections; SQLite's write-ahead log is folded into its file.

        A thread that waits for a server's answer is woken: it could delay the exit of the process, perhaps forever.
        """
        self._engine.dispose()
        for connection in () if self._is_sqlite else tuple(self._connected):
            self._cut_off(connection)

    @property
    def now_ms(self) -> ColumnElement[int]:
        """Return the database's own time, Unix milliseconds, to be used in a statement: replicas' clocks may differ."""
        return literal_column(_CLOCKS[self._engine.dialect.name], BigInteger)

    def now(self, connection: Connection) -> int:
        """Return that time."""
        return int(connection.execute(select(self.now_ms)).scalar_one())

    def insert(self, table: Table) -> Any:
        """Return an insertion that may do something else where the row is there already."""
        return _INSERTS[self._engine.dialect.name](table)

    def lock(self, connection: Connection, name: str) -> None:
        """Wait until no other transaction holds this lock; it is let go at the end of the transaction.

        On SQLite a transaction that writes is alone in any case.
        """
        if not self._is_sqlite:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.execute(select(func.pg_advisory_xact_lock(_lock_number(name))))

    def try_lock(self, connection: Connection, name: str) -> bool:
        """Take the lock until the end of the transaction, unless another one holds it."""
        if self._is_sqlite:
            return True
        return bool(connection.execute(select(func.pg_try_advisory_xact_lock(_lock_number(name)))).scalar_one())

    def give_back_space(self) -> None:
        """Let SQLite's file shrink. Only `executescript` steps through this pragma, which frees a page per step."""
        if self._is_sqlite:
            with self._trouble(), self._writing, closing(self._engine.raw_connection()) as connection:
                connection.cursor().executescript("PRAGMA incremental_vacuum")

    def _cut_off(self, connection: Any) -> None:
        try:
            with socket.socket(fileno=os.dup(connection.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
        except (OSError, self._engine.dialect.loaded_dbapi.Error):
            pass  # it has been closed in the meantime

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreTrouble(
                f"the store {self.where} failed: {first_line(error)}", advice="see to the database; verdicts go on"
            ) from error


def create_private(file: Path) -> None:
    """Create the file and its directory, readable only by this user, because they hold stacks and logs.

    Raises InvalidSettings where others may write them already.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    refuse_shared(file)
    os.close(os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def first_line(error: BaseException) -> str:
    """Return what the driver said, in short."""
    cause = getattr(error, "orig", None) or error
    return (str(cause).splitlines() or [type(cause).__name__])[0][:200]


def _engine(place: StorePlace) -> Engine:
    if place.file is None:
        return _postgresql(place)
    engine = create_engine(place.url, connect_args={"timeout": _SQLITE_SECONDS})
    event.listen(engine, "connect", _tune_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql(place: StorePlace) -> Engine:
    """Return an engine that gives up within seconds, unless the URL sets its own limits."""
    ours = {
        "connect_timeout": _CONNECT_SECONDS,
        "options": _STATEMENT_OPTIONS,
        "application_name": "unhang collector",
        "tcp_user_timeout": 10_000,
    }
    try:
        return create_engine(
            place.url,
            connect_args={name: value for name, value in ours.items() if name not in place.url.query},
            pool_size=_MOST_CONNECTIONS,
            max_overflow=0,
            pool_timeout=_CONNECT_SECONDS,
            pool_pre_ping=True,
        )
    except ImportError as error:
        raise InvalidSettings(
            f"the store {place.shown} needs the driver psycopg", advice="pip install 'unhang[postgres]'"
        ) from error


def _tune_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin_sqlite`, also before a change of tables
    cursor = connection.cursor()
    for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        _set(cursor, pragma)
    cursor.close()


def _set(cursor: Any, pragma: str) -> None:
    """Set one, again where SQLite refuses it at once: while others open or close the file it waits for nobody here."""
    until = time.monotonic() + _OPENING_SECONDS
    while True:
        try:
            cursor.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_AGAIN_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    """Begin as a writer where one will write: a reader that becomes one later may be refused instead of waiting."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _lock_number(name: str) -> int:
    return crc32(f"unhang {name}".encode())
