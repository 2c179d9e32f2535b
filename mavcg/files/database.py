"""SQLite files of tables that several processes read and write at once: opened, brought up to date, errors in words."""

import contextlib
import errno
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from mavcg.errors import MavcgError
from mavcg.files.disk_space import with_room

MEMORY = Path(":memory:")  # tables in memory alone, by SQLite's name
WAIT_S = 30.0  # for another process that writes
_PRIMARY_CODE = 0xFF  # of SQLite's extended error codes


@dataclass(frozen=True)
class DatabaseKind:
    """A kind of database, which its header names.

    title: for errors, as "a database of costs". application_id: in the file's header: a file with another one is
    somebody else's. version: of the tables. tables: statements that create them. upgrades: version -> statement that
    makes the next version of it. another: remedy that names another file.
    """

    title: str
    application_id: int
    version: int
    tables: tuple[str, ...]
    upgrades: Mapping[int, str] = field(default_factory=dict)
    another: str = "name another file"


class Database:
    """An SQLite file of a kind, or memory; a context manager. Other processes see each transaction at once, or not."""

    def __init__(self, path: Path, kind: DatabaseKind) -> None:
        """Open the file, which is created if missing; MEMORY keeps the tables in memory.

        Raises: MavcgError for a file of another kind or version, or one that cannot be read and written.
        """
        self.path = path
        self._kind = kind
        self._connection: sqlite3.Connection
        try:
            self._connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        except sqlite3.Error as error:
            raise MavcgError(f"{path}: cannot be used as {kind.title} ({error}); {kind.another}") from None
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing is read or stored after this."""
        self._connection.close()

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query. Raises: MavcgError."""
        with self.errors():
            return self._connection.execute(query, tuple(values)).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction: all or nothing; other processes wait. Raises: MavcgError."""
        with self.errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of SQLite into MavcgError.

        Raises: MavcgError where SQLite refuses, or a row is none that mavcg wrote.
        """
        cannot = f"{self.path}: cannot be used as {self._kind.title}"
        try:
            yield
        except sqlite3.OperationalError as error:
            raise MavcgError(f"{cannot} ({self._reason(error)}") from None
        except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise MavcgError(f"{cannot} ({error}); delete it, or {self._kind.another}") from None

    def _prepare(self) -> None:
        """Create the tables, or make those of an earlier version this one's. Raises: MavcgError."""
        kind = self._kind
        self.rows("PRAGMA synchronous = NORMAL")  # a row is lost with the power at worst: it is computed again
        application, known = self._number("application_id"), self._number("user_version")
        tables = self.rows("SELECT name FROM sqlite_master")
        if tables and application != kind.application_id:
            raise MavcgError(f"{self.path}: is another application's database; {kind.another}")
        while tables and known in kind.upgrades:
            with self.transaction() as connection:
                if self._number("user_version") == known:  # else another process was first
                    connection.execute(kind.upgrades[known])
                    connection.execute(f"PRAGMA user_version = {known + 1}")
            known = self._number("user_version")
        if tables and known != kind.version:
            raise MavcgError(
                f"{self.path}: has version {known}, but this mavcg writes version {kind.version}; {kind.another}"
            )
        if not tables:
            with self.transaction() as connection:  # another process may do so meanwhile: it does the same
                for statement in kind.tables:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {kind.application_id}")
                connection.execute(f"PRAGMA user_version = {kind.version}")

    def _number(self, pragma: str) -> int:
        return int(self.rows(f"PRAGMA {pragma}")[0][0])

    def _reason(self, error: sqlite3.OperationalError) -> str:
        """Return the reason of an error, a closing parenthesis and the remedy."""
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_FULL:
            words = with_room(OSError(errno.ENOSPC, "the disk is full"), self.path)
        elif code & _PRIMARY_CODE == sqlite3.SQLITE_IOERR:  # a quota, or files that may not become larger
            words = "the disk takes no more"
        else:
            return f"{error}); {self._kind.another}"
        return f"{words}); make room, or {self._kind.another}; what is in the file is kept"
