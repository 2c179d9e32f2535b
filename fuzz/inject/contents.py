"""The content of a file that counts: all bytes, or the rows of a database, whose pages follow the order of writes."""

import sqlite3
import tempfile
from collections.abc import Collection
from pathlib import Path

# Columns that differ from run to run: when and how long.
_OF_THE_RUN = ("date", "time", "seconds", "made", "started", "ended")


def content_of(path: Path) -> bytes:
    """Return what must be the same in two runs: a file's bytes, or of a whole database its rows."""
    content = path.read_bytes()
    if path.suffix != ".sqlite":
        return content
    rows = rows_of(content)
    return content if rows is None else "\n".join(rows).encode()


def rows_of(content: bytes) -> list[str] | None:
    """Return the rows of a database, in order, without their dates; None where it is damaged."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as copy:
        copy.write(content)
        copy.flush()
        try:
            return _rows(Path(copy.name))
        except sqlite3.Error:
            return None


def _rows(path: Path) -> list[str] | None:
    with sqlite3.connect(path) as database:
        if database.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return None
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = []
        for table in tables:
            cursor = database.execute(f"SELECT * FROM {table}")  # noqa: S608 - the database's own names
            kept = [at for at, column in enumerate(cursor.description) if column[0] not in _OF_THE_RUN]
            rows += [f"{table}: {[row[at] for at in kept]}" for row in cursor]
        return sorted(rows)


def is_part(content: bytes, wholes: Collection[bytes]) -> bool:
    """Return whether a database's rows are among those of a whole one: what was measured before a failure is kept."""
    rows = set(content.decode(errors="replace").splitlines())
    return any(rows <= set(whole.decode(errors="replace").splitlines()) for whole in wholes)
