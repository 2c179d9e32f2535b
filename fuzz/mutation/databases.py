"""Mutations of SQLite files: rows, columns, tables and header numbers, by SQL; and bytes of pages."""

import contextlib
import random
import sqlite3

from fuzz.mutation import Mutate, mutator
from fuzz.mutation.trees import changed_tree

_HEADER = ("application_id", "user_version")


def database_mutator() -> Mutate:
    """Return a mutator of SQLite files."""
    return mutator(_with_change)


def _with_change(source: random.Random, data: bytes) -> bytes:
    if source.random() < 0.25:  # pages that SQLite itself finds damaged
        from bench.fuzz_mutations import words

        return words(source, data)
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        try:
            connection.deserialize(data)
            _change(source, connection)
            return connection.serialize()
        except (sqlite3.Error, OverflowError):  # also integers beyond 64 bits
            raise ValueError("not a database") from None


def _change(source: random.Random, connection: sqlite3.Connection) -> None:
    from bench.fuzz_mutations import NUMBERS

    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if not tables or source.random() < 0.1:
        connection.execute(f"PRAGMA {source.choice(_HEADER)} = {source.choice(NUMBERS) % (1 << 31)}")
        return
    table = source.choice(tables)
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    column, action = source.choice(columns), source.randrange(20)
    if action == 0:
        connection.execute(f'DROP TABLE "{table}"')
    elif action == 1:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "x{source.randrange(9)}"')
    elif action == 2:
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "y{source.randrange(9)}"')
    elif action == 3:
        connection.execute(f'DELETE FROM "{table}" WHERE rowid IN (SELECT rowid FROM "{table}" LIMIT 1)')
    else:
        _change_cell(source, connection, table, column)


def _change_cell(source: random.Random, connection: sqlite3.Connection, table: str, column: str) -> None:
    rows = connection.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
    if not rows:
        return
    rowid, value = source.choice(rows)
    words = ("f32", "i8", "warm", "cold", "measured", "{", '{"scenario":{}}', '{"conversion":[]}')
    (made,) = changed_tree(source, [value], words) or [None]
    if isinstance(made, list | dict):
        made = str(made).encode()
    connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?', (made, rowid))
