"""One exploration on any engine, with its database; an engine that kills forked workers."""

import multiprocessing
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mavcg.accelerators.explore.exploration import explore
from mavcg.accelerators.explore.objectives import read_objectives
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.workload import workload_of
from mavcg.lab.jobs.engine import Engine, LocalEngine
from mavcg.lab.jobs.forked_engine import ForkedEngine
from tests.mavcg.accelerators.explore.spaces import NETWORKS, WIDE, space_of


def content(path: Path) -> dict[str, list[Any]]:
    """All rows of a database, sorted."""
    with sqlite3.connect(path) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(database.execute(f"SELECT * FROM {table}")) for table in tables}


def explored_by(engine: Engine, folder: Path, name: str) -> dict[str, list[Any]]:
    """The database of an exploration of a wide space."""
    workload = workload_of(NETWORKS)
    with ExplorationStore(folder / name) as store:
        explore(space_of(folder, WIDE), workload, read_objectives("latency,area", workload.networks), engine, store)
    return content(folder / name)


class KillingEngine(LocalEngine):
    """Kills a worker, drawn at random, whenever a task's results have come."""

    def __init__(self, engine: ForkedEngine, kills: int) -> None:
        self.engine = engine
        self.kills = kills
        self.random = random.Random(5)

    def run(self, work: Any, items: Sequence[Any], most: int, found: Any) -> None:
        def then_kill(task: Sequence[Any], results: Any) -> None:
            found(task, results)
            if self.kills and (workers := multiprocessing.active_children()):
                self.kills -= 1
                self.random.choice(sorted(workers, key=lambda each: each.pid or 0)).kill()

        self.engine.run(work, items, most, then_kill)
