"""Explore 100,000 accelerators for five networks with several workers: `python -m bench.accelerators.explore`.

First one process explores, and the CPU time of every search is recorded. Then 1, 2 and 4 forked processes explore and
must produce the same database. Times with more workers are simulated: the tasks of each round are list scheduled
in the order in which they are sent, each search with its measured time. Assumed: the scheduler spends DISPATCH_S on
each task (Dask's own figure, "about one millisecond"), one after the other, and the sending process takes its measured
time between rounds.
"""

import heapq
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.record import facts, parser_with_json, write
from mavcg.accelerators.explore.exploration import PRUNED, TASK_SEARCHES, Exploration, explore
from mavcg.accelerators.explore.objectives import read_objectives
from mavcg.accelerators.explore.space_file import read_space
from mavcg.accelerators.explore.store import ExplorationStore
from mavcg.accelerators.explore.tilings import SearchKey
from mavcg.accelerators.explore.workload import Workload, workload_of
from mavcg.accelerators.plans.request import read_layers
from mavcg.graph.networks import NAMES
from mavcg.lab.jobs.engine import Engine, LocalEngine, tasks_of
from mavcg.lab.jobs.forked_engine import ForkedEngine

OBJECTIVES = "latency,area,energy"
WORKERS = (1, 2, 4)
SIMULATED = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)
DISPATCH_S = 1e-3  # distributed.dask.org, "Limitations": the scheduler adds about one millisecond of overhead per task
MOST_SECONDS = 600.0  # of CPU on two cores
KIB = (64, 128, 256, 512, 1024)
SPACE = f"""
[accelerator]
mem_size = {[[a, b, c] for a in KIB for b in KIB for c in KIB]}
pe_len = [[8, 8], [8, 16], [16, 8], [16, 16], [8, 32], [16, 32], [32, 16], [32, 32]]
pe_mapping = [[["IC"], ["OC"]], [["OC"], ["OW"]], [["OH"], ["OC"]], [["IC"], ["OW"]]]
bandwidth = [8, 16, 32, 64, 128]
frequency = [0.25, 0.5, 1, 1.5, 2]
"""


@dataclass
class TimingEngine(LocalEngine):
    """Searches in this process.

    rounds: CPU seconds of every search, by round; between: CPU seconds of everything else.
    """

    rounds: list[dict[SearchKey, float]] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    last: float = field(default_factory=time.process_time)

    def run(self, work: Any, items: Sequence[Any], most: int, keep: Any) -> None:
        """Apply the work to all items, one after the other."""
        self.between.append(time.process_time() - self.last)
        seconds = {}
        for task in tasks_of(items, most):
            results = []
            for item in task:
                start = time.process_time()
                results += work((item,))
                seconds[item] = time.process_time() - start
            keep(task, results)
        self.rounds.append(seconds)
        self.last = time.process_time()


def simulated_seconds(engine: TimingEngine, workers: int) -> float:
    """Return the seconds that an exploration would take with so many workers, by list scheduling of each round."""
    total = sum(engine.between)
    for seconds in engine.rounds:
        free = [0.0] * workers
        for number, task in enumerate(tasks_of(tuple(seconds), TASK_SEARCHES, workers), 1):
            start = max(heapq.heappop(free), number * DISPATCH_S)
            heapq.heappush(free, start + sum(seconds[key] for key in task))
        total += max(free)
    return total


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all its children that have ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


def content(path: Path) -> dict[str, list[Any]]:
    """Return all rows of a database, sorted."""
    with sqlite3.connect(path) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(database.execute(f"SELECT * FROM {table}")) for table in tables}


def explored(folder: Path, workload: Workload, engine: Engine, name: str) -> Exploration:
    """Explore the space with an engine; results go to a new database of this name."""
    (folder / "space.toml").write_text(SPACE)
    space = read_space(folder / "space.toml")
    with ExplorationStore(folder / name) as store:
        return explore(space, workload, read_objectives(OBJECTIVES, NAMES), engine, store)


def measure(folder: Path) -> dict[str, Any]:
    """Explore with one process, then with forked processes; simulate the other numbers of workers."""
    workload = workload_of({name: read_layers(name, {}, False) for name in NAMES})
    print("bench: one process", file=sys.stderr, flush=True)
    before, timing = cpu_seconds(), TimingEngine()
    result = explored(folder, workload, timing, "one.sqlite")
    timing.between.append(time.process_time() - timing.last)
    alone = cpu_seconds() - before
    expected = content(folder / "one.sqlite")
    rows = []
    for workers in WORKERS:
        print(f"bench: {workers} forked processes", file=sys.stderr, flush=True)
        before, start = cpu_seconds(), time.perf_counter()
        with ForkedEngine(workers) as engine:
            started = time.perf_counter()
            explored(folder, workload, engine, f"{workers}.sqlite")
            seconds = time.perf_counter() - started
        rows.append(
            {
                "workers": workers,
                "start_seconds": round(started - start, 1),
                "seconds": round(seconds, 1),
                "cpu_seconds": round(cpu_seconds() - before, 1),
                "load_average": round(os.getloadavg()[0], 1),
                "same_database": content(folder / f"{workers}.sqlite") == expected,
            }
        )
    searches = sum(map(len, timing.rounds))
    return {
        "points": result.space.points,
        "structures": result.space.structures,
        "networks": list(NAMES),
        "objectives": OBJECTIVES,
        "layers": len(workload.layers),
        "searches": searches,
        "searches_unshared": result.space.points * sum(sum(counts) for _, counts in workload.counts),
        "planned": result.planned_points,
        "pruned": result.count(PRUNED),
        "front": len(result.front),
        "rounds": len(timing.rounds),
        "one_process": {
            "cpu_seconds": round(alone, 1),
            "of_searches": round(sum(sum(seconds.values()) for seconds in timing.rounds), 1),
            "of_all_else": round(sum(timing.between), 1),
        },
        "dask": rows,
        "dispatch_seconds_assumed": DISPATCH_S,
        "simulated": [{"workers": n, "seconds": round(simulated_seconds(timing, n), 2)} for n in SIMULATED],
    }


def main() -> None:
    """Explore, print, write bench/results/explore.json; status 1 if a database differs or a bound is missed."""
    parser = parser_with_json(__doc__, "the record instead of tables")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = {**facts("measured", "bench.accelerators.explore"), **measure(Path(folder))}
    write("explore", record)
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        _print(record)
    if wrong := [row["workers"] for row in record["dask"] if not row["same_database"]]:
        sys.exit(f"bench: another database with {wrong[0]} workers")
    if record["one_process"]["cpu_seconds"] > 2 * MOST_SECONDS:
        sys.exit(f"bench: {record['one_process']['cpu_seconds']} CPU seconds; {2 * MOST_SECONDS} are allowed")


def _print(record: Mapping[str, Any]) -> None:
    console = Console()
    console.print(
        f"{record['points']} points ({record['structures']} structures) x {len(record['networks'])} networks: "
        f"{record['searches']} searches in {record['one_process']['cpu_seconds']} CPU s; {record['pruned']} points "
        f"left out, {record['front']} on the front"
    )
    table = Table("workers", "seconds", "CPU seconds", "load", "same database", box=None, title="Processes of Dask")
    for row in record["dask"]:
        table.add_row(*(str(row[k]) for k in ("workers", "seconds", "cpu_seconds", "load_average", "same_database")))
    console.print(table)
    table = Table("workers", "seconds", "speed-up", box=None, title="Simulated from measured costs of searches")
    first = record["simulated"][0]["seconds"]
    for row in record["simulated"]:
        table.add_row(str(row["workers"]), f"{row['seconds']:.2f}", f"{first / row['seconds']:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
