"""Store of explorations in an SQLite file: tilings as they are found, points at the end.

A tiling is written as soon as its task ends, and replaces an equal one: an interrupted exploration continues where it
stopped, and tasks may be repeated. Points are those of the last completed exploration.
"""

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mavcg.accelerators.explore.tilings import SearchKey, TileTraffic
from mavcg.accelerators.plans.schedule_cache import fingerprint
from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.errors import MavcgError

APPLICATION_ID = 0x6D617665  # SQLite application id of exploration files
VERSION = 3
WAIT_S = 30.0  # seconds to wait for another process that writes

_TABLES = (
    "CREATE TABLE code (fingerprint TEXT PRIMARY KEY)",
    "CREATE TABLE layers (layer TEXT PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE tilings (layer TEXT NOT NULL, memory TEXT NOT NULL, arrays TEXT NOT NULL, input_bytes INTEGER, "
    "weight_bytes INTEGER, output_bytes INTEGER, tile TEXT, dataflow TEXT, PRIMARY KEY (layer, memory, arrays))",
    "CREATE TABLE simulations (simulation TEXT PRIMARY KEY, cycles INTEGER, ddr_bytes INTEGER, millijoules REAL)",
    "CREATE TABLE predictions (prediction TEXT PRIMARY KEY, rows TEXT NOT NULL)",
    "CREATE TABLE exploration (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE points (point INTEGER PRIMARY KEY, state TEXT NOT NULL, front INTEGER NOT NULL, "
    "machine TEXT NOT NULL, area REAL, latency REAL, energy REAL, traffic REAL, networks TEXT)",
)
_PUT_TILING = "INSERT OR REPLACE INTO tilings VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_POINT = "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
PointRow = tuple[int, str, int, str, float | None, float | None, float | None, float | None, str | None]
Row = tuple[Any, ...]


class ExplorationStore:
    """Tilings and points in a file, or in memory; a context manager."""

    def __init__(self, path: Path | None) -> None:
        """Open the file; None stores nothing on disk.

        Raises: MavcgError for another kind of file, or one that cannot be opened.
        """
        self.path = path
        self._layer_ids: dict[ConvLayer, str] = {}
        self._connection: sqlite3.Connection
        with self._errors():
            self._connection = sqlite3.connect(path or ":memory:", timeout=WAIT_S, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> "ExplorationStore":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def tilings(self) -> dict[tuple[str, str, str], Row]:
        """Return all rows of tilings by key (tiling_key)."""
        with self._errors():
            return {row[:3]: row[3:] for row in self._connection.execute("SELECT * FROM tilings")}

    def tiling_key(self, key: SearchKey) -> tuple[str, str, str]:
        """Return the key of a search in the store."""
        layer = self._layer_ids.get(key.layer)
        if layer is None:
            text = json.dumps(astuple(key.layer))
            layer = self._layer_ids[key.layer] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return layer, " ".join(map(str, key.memory)), " ".join(f"{name}{length}" for name, length in key.arrays)

    def put_tilings(self, entries: Mapping[SearchKey, TileTraffic | None]) -> None:
        """Store the results of searches. Raises: MavcgError for a full disk."""
        layers = {self.tiling_key(key)[0]: json.dumps(astuple(key.layer)) for key in entries}
        with self._writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO layers VALUES (?, ?)", layers.items())
            connection.executemany(_PUT_TILING, [(*self.tiling_key(k), *row_of(t)) for k, t in entries.items()])

    def simulations(self) -> dict[str, Row]:
        """Return all rows of simulations by key."""
        with self._errors():
            return {row[0]: row[1:] for row in self._connection.execute("SELECT * FROM simulations")}

    def put_simulations(self, entries: Mapping[str, Row]) -> None:
        """Store the results of simulations. Raises: MavcgError for a full disk."""
        with self._writing() as connection:
            rows = [(key, *row) for key, row in entries.items()]
            connection.executemany("INSERT OR REPLACE INTO simulations VALUES (?, ?, ?, ?)", rows)

    def predictions(self) -> dict[str, str]:
        """Return all predictions by key."""
        with self._errors():
            return dict(self._connection.execute("SELECT * FROM predictions").fetchall())

    def put_predictions(self, entries: Mapping[str, str]) -> None:
        """Store the results of predictions. Raises: MavcgError for a full disk."""
        with self._writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO predictions VALUES (?, ?)", entries.items())

    def put_points(self, request: Mapping[str, Any], points: Iterable[PointRow]) -> None:
        """Store an exploration's request and points, in place of the previous exploration's. Raises: MavcgError."""
        with self._writing() as connection:
            connection.execute("DELETE FROM exploration")
            connection.execute("DELETE FROM points")
            values = [(key, json.dumps(value)) for key, value in request.items()]
            connection.executemany("INSERT INTO exploration VALUES (?, ?)", values)
            connection.executemany(_PUT_POINT, points)

    def _prepare(self) -> None:
        with self._errors():
            self._connection.execute("PRAGMA synchronous = NORMAL")
            tables = self._connection.execute("SELECT name FROM sqlite_master").fetchall()
            application, version = (
                self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
        if tables and application != APPLICATION_ID:
            raise MavcgError(f"{self.path}: is a database of another application; name another file for -o")
        if tables and version != VERSION:
            raise MavcgError(
                f"{self.path}: has version {version}, but this mavcg writes version {VERSION}; name another file for -o"
            )
        with self._writing() as connection:
            if not tables:
                for table in _TABLES:
                    connection.execute(table)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            # Results of another version of the planner are dropped.
            if connection.execute("SELECT fingerprint FROM code").fetchall() != [(fingerprint(),)]:
                for table_name in ("code", "tilings", "layers", "simulations", "predictions", "points", "exploration"):
                    connection.execute(f"DELETE FROM {table_name}")
                connection.execute("INSERT INTO code VALUES (?)", (fingerprint(),))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has already rolled it back
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "full" in str(error) or "disk I/O" in str(error):
                raise MavcgError(
                    f"{self.path}: {error}; make room and run the same command again: the file's contents are kept"
                ) from None
            raise MavcgError(f"{self.path}: cannot be used ({error}); name another file for -o") from None
        except sqlite3.DatabaseError as error:
            raise MavcgError(f"{self.path}: is not a database of explorations ({error}); name another file") from None


def row_of(tiling: TileTraffic | None) -> Row:
    """Return a tiling's columns; all empty if no tiling fits."""
    if tiling is None:
        return (None, None, None, "", "")
    tile = " ".join(map(str, tiling.tile))
    return (tiling.input_bytes, tiling.weight_bytes, tiling.output_bytes, tile, tiling.dataflow)


def tiling_of(row: Row) -> TileTraffic | None:
    """Return the tiling of a row's columns; None if they are empty."""
    if row[0] is None:
        return None
    return TileTraffic(row[0], row[1], row[2], tuple(map(int, row[3].split())), row[4])
