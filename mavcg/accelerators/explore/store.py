"""Store of explorations in an SQLite file: tilings as they are found, points at the end.

A tiling is written as soon as its task ends, and replaces an equal one: an interrupted exploration continues where it
stopped, and tasks may be repeated. Points are those of the last completed exploration.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mavcg.accelerators.explore.tilings import SearchKey, TileTraffic
from mavcg.accelerators.plans.schedule_cache import fingerprint
from mavcg.cost.layer import ConvLayer
from mavcg.files.database import MEMORY, Database, DatabaseKind

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
KIND = DatabaseKind(
    "a database of explorations", 0x6D617665, version=3, tables=_TABLES, another="name another file for -o"
)
_PUT_TILING = "INSERT OR REPLACE INTO tilings VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_POINT = "INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
PointRow = tuple[int, str, int, str, float | None, float | None, float | None, float | None, str | None]
Row = tuple[Any, ...]


class ExplorationStore(Database):
    """Tilings and points in a file, or in memory; a context manager."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, which is created if missing; None stores nothing on disk. Raises: MavcgError as Database."""
        super().__init__(path or MEMORY, KIND)
        self._layer_ids: dict[ConvLayer, str] = {}
        try:
            self._drop_results_of_other_code()
        except BaseException:
            self.close()
            raise

    def tilings(self) -> dict[tuple[str, str, str], Row]:
        """Return all rows of tilings by key (tiling_key). Raises: MavcgError for a row that is no tiling's."""
        with self.errors():
            rows = {row[:3]: row[3:] for row in self.rows("SELECT * FROM tilings")}
            for row in rows.values():
                _check_tiling(row)
            return rows

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
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO layers VALUES (?, ?)", layers.items())
            connection.executemany(_PUT_TILING, [(*self.tiling_key(k), *row_of(t)) for k, t in entries.items()])

    def simulations(self) -> dict[str, Row]:
        """Return all rows of simulations by key. Raises: MavcgError for a row that is no simulation's."""
        with self.errors():
            rows = {row[0]: row[1:] for row in self.rows("SELECT * FROM simulations")}
            for row in rows.values():
                _check_figures(row)
            return rows

    def put_simulations(self, entries: Mapping[str, Row]) -> None:
        """Store the results of simulations. Raises: MavcgError for a full disk."""
        with self.transaction() as connection:
            rows = [(key, *row) for key, row in entries.items()]
            connection.executemany("INSERT OR REPLACE INTO simulations VALUES (?, ?, ?, ?)", rows)

    def predictions(self) -> dict[str, str]:
        """Return all predictions by key. Raises: MavcgError for a row that is no prediction's."""
        with self.errors():
            predictions: dict[str, str] = dict(self.rows("SELECT * FROM predictions"))
            if not all(type(text) is str for text in predictions.values()):
                raise ValueError("a prediction that is no text")
            return predictions

    def put_predictions(self, entries: Mapping[str, str]) -> None:
        """Store the results of predictions. Raises: MavcgError for a full disk."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO predictions VALUES (?, ?)", entries.items())

    def put_points(self, request: Mapping[str, Any], points: Iterable[PointRow]) -> None:
        """Store an exploration's request and points, in place of the previous exploration's. Raises: MavcgError."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM exploration")
            connection.execute("DELETE FROM points")
            values = [(key, json.dumps(value)) for key, value in request.items()]
            connection.executemany("INSERT INTO exploration VALUES (?, ?)", values)
            connection.executemany(_PUT_POINT, points)

    def _drop_results_of_other_code(self) -> None:
        with self.transaction() as connection:
            if connection.execute("SELECT fingerprint FROM code").fetchall() != [(fingerprint(),)]:
                for table_name in ("code", "tilings", "layers", "simulations", "predictions", "points", "exploration"):
                    connection.execute(f"DELETE FROM {table_name}")
                connection.execute("INSERT INTO code VALUES (?)", (fingerprint(),))


def row_of(tiling: TileTraffic | None) -> Row:
    """Return a tiling's columns; all empty if no tiling fits."""
    if tiling is None:
        return (None, None, None, "", "")
    tile = " ".join(map(str, tiling.tile))
    return (tiling.input_bytes, tiling.weight_bytes, tiling.output_bytes, tile, tiling.dataflow)


def _check_tiling(row: Row) -> None:
    """Raise ValueError for a row that row_of did not make: a database may be somebody else's."""
    figures, texts = row[:3], row[3:]
    if [type(text) for text in texts] != [str, str] or not (
        figures == (None,) * 3 or all(type(figure) is int for figure in figures)
    ):
        raise ValueError(f"{row!r} is no tiling")
    tiling_of(row)


def _check_figures(row: Row) -> None:
    """Raise ValueError for a row that is not cycles, bytes and millijoules of a simulation, or empty."""
    if row != (None,) * 3 and not ([type(figure) for figure in row] == [int, int, float] and min(row) >= 0):
        raise ValueError(f"{row!r} are no figures of a simulation")


def tiling_of(row: Row) -> TileTraffic | None:
    """Return the tiling of a row's columns; None if they are empty."""
    if row[0] is None:
        return None
    return TileTraffic(row[0], row[1], row[2], tuple(map(int, row[3].split())), row[4])
