"""MiniMalloc's published memory planning problems, solved by `mavcg.memory`: nodes, CPU seconds, peak, lower bound.

python -m bench.arena FOLDER [--record]   the CSV files of a folder; their capacity is the second part of their name
python -m bench.arena --fetch FOLDER      download them first (github.com/google/minimalloc, Apache License 2.0)
"""

import argparse
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench import record
from mavcg.memory.instance_file import read_instance, solve_instance
from mavcg.memory.placement_search import LiveBuffer, SearchLimits, live_peak

URL = "https://raw.githubusercontent.com/google/minimalloc/main/benchmarks/challenging"
CAPACITY = 1048576
NAMES = tuple(f"{letter}.{CAPACITY}.csv" for letter in "ABCDEFGHIJK")
NODES = 400_000


def main() -> None:
    """Solve each file of the folder, at its capacity and then for the least memory; print, and record if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.fetch:
        fetch(options.folder)
    paths = sorted(options.folder.glob("*.csv"))
    if not paths:
        parser.error(f"{options.folder}: has no .csv file; give --fetch to download them")
    rows = [solve(path) for path in paths]
    print("instance  buffers  capacity  live peak  at capacity: peak, nodes, CPU s   least: peak, bound, nodes, CPU s")
    for row in rows:
        fitting, least = row["at_capacity"], row["least"]
        print(
            f"{row['name']:8} {row['buffers']:8} {row['capacity']:9} {row['live_peak']:10}"
            f" {fitting['peak']:12} {fitting['nodes']:7} {fitting['cpu_s']:6.2f}"
            f" {least['peak']:14} {least['lower_bound']:8} {least['nodes']:8} {least['cpu_s']:6.2f}"
        )
    if options.record:
        head = record.facts("measured", "bench.arena FOLDER --record")
        record.write("arena", head | {"rows": rows})


def solve(path: Path) -> dict[str, Any]:
    """Solve one file. Its capacity, in bytes, is the number in its name, as in A.1048576.csv."""
    buffers = read_instance(path)
    capacity = int(path.stem.split(".")[1])
    return {
        "name": path.stem.split(".")[0],
        "buffers": len(buffers),
        "capacity": capacity,
        "live_peak": live_peak(list(buffers.values())),
        "at_capacity": timed(buffers, SearchLimits(NODES, None, capacity)),
        "least": timed(buffers, SearchLimits(NODES)),
    }


def timed(buffers: dict[str, LiveBuffer], limits: SearchLimits) -> dict[str, Any]:
    """Return the solution and the CPU seconds of this process alone: compiling the search is not counted."""
    started = time.process_time()
    solution = solve_instance(buffers, limits)
    return {
        "peak": solution.peak,
        "lower_bound": solution.lower_bound,
        "optimal": solution.optimal,
        "nodes": solution.nodes,
        "cpu_s": round(time.process_time() - started, 3),
    }


def fetch(folder: Path) -> None:
    """Download the published problems."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        with urlopen(f"{URL}/{name}") as answer:
            (folder / name).write_bytes(answer.read())


if __name__ == "__main__":
    main()
