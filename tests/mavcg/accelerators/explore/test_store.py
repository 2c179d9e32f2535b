"""The database of explorations: rows that no mavcg wrote are refused where they are read."""

import sqlite3
from pathlib import Path

import pytest

from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.errors import MavcgError


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("INSERT INTO tilings VALUES ('l', 'm', 'a', 1, 2, 3, '1 x', 'weights')", ExplorationStore.tilings),
        ("INSERT INTO tilings VALUES ('l', 'm', 'a', 1, 2, NULL, '1', 'weights')", ExplorationStore.tilings),
        ("INSERT INTO tilings VALUES ('l', 'm', 'a', 1, 2, 3, NULL, 'weights')", ExplorationStore.tilings),
        ("INSERT INTO simulations VALUES ('k', 'many', 2, 3.5)", ExplorationStore.simulations),
        ("INSERT INTO simulations VALUES ('k', 1, -2, 3.5)", ExplorationStore.simulations),
        ("INSERT INTO predictions VALUES ('k', x'00')", ExplorationStore.predictions),
        ("ALTER TABLE predictions ADD COLUMN more", ExplorationStore.predictions),
    ],
)
def test_rows_of_somebody_else(tmp_path: Path, statement: str, read: object) -> None:
    path = tmp_path / "results.sqlite"
    with ExplorationStore(path) as store:
        store.put_simulations({"good": (1, 2, 3.5), "none": (None, None, None)})
        store.put_predictions({"good": "[]"})
        assert (store.tilings(), store.simulations()["none"], store.predictions()) == ({}, (None,) * 3, {"good": "[]"})
    with sqlite3.connect(path) as raw:
        raw.execute(statement)
    with ExplorationStore(path) as store, pytest.raises(MavcgError, match="results.sqlite: cannot be used as .*name"):
        read(store)  # type: ignore[operator]
