"""Seconds that `mavcg build` takes for three ARM cores and generic, as a process: `python -m bench.build_time`."""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.programs import PROGRAMS, Program, build
from bench.record import facts, write

CORES = "cortex-a55,cortex-a75,exynos-m4"
TARGET = "aarch64-linux-gnu.2.17"
JOBS = 2
ROUNDS = 3


def measure(program: Program, folder: Path) -> dict[str, Any]:
    """Return the seconds of one program's builds; the first one, which may fill ziglang's caches, is not counted."""
    seconds = []
    for _ in range(1 + ROUNDS):
        started = time.monotonic()
        report = build(program, CORES, folder / f"lib{program.name}.so", "--target", TARGET, "--jobs", str(JOBS))
        seconds.append(time.monotonic() - started)
    return {
        "program": program.name,
        "what": program.what,
        "sources": len(program.sources),
        "functions": len(report["functions"]),
        "versions": sum(len(function["versions"]) for function in report["functions"]),
        "median_s": round(statistics.median(seconds[1:]), 2),
        "all_s": [round(value, 2) for value in seconds[1:]],
    }


def main() -> None:
    """Measure, and write bench/results/build_time.json."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(program, Path(folder)) for program in PROGRAMS if program.is_here]
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    record = facts("measured", "bench.build_time") | {"target": TARGET, "cores": CORES.split(","), "jobs": JOBS}
    print(write("build_time", record | {"cpus_allowed": allowed, "rows": rows}))


if __name__ == "__main__":
    main()
