"""Measure the time of building models: `python -m bench.model_build [MODEL ...] [--json]`.

Each model is built for a board with four core types' versions, and for this machine, as a process of its own with
nothing kept of earlier builds but Python's compiled modules, which an installation has; seconds of wall clock and of
CPU (all processes of the build). Other programs on the machine make the first longer, and less so the second. Then, of
the library for this machine, in a fresh process: its first run against the median of later ones. Without names it takes
what has bounds, and writes bench/results/model_build.json.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.models import model_path, shapes_of
from bench.record import facts, write
from bench.records import ROOT
from bench.tables.markdown import table

BOARD = "exynos9820"
# Of wall clock, on two quiet cores: for the board, for this machine.
MOST_SECONDS = {"resnet50-random": (30.0, 8.0), "mobilenet_v2": (15.0, 5.0)}
MOST_BESIDE_WEIGHTS = 1_500_000  # bytes of the library
MOST_FIRST = 2.0  # times a later run
JOBS = 2
LATER_RUNS = 15
FIRST = """
import json, sys, time
import numpy as np
import mavcg
with mavcg.load(sys.argv[1]) as model:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(t.dtype) for t in model.inputs]
    ms = []
    for _ in range(int(sys.argv[2])):
        start = time.perf_counter_ns()
        model.run(*arrays)
        ms.append((time.perf_counter_ns() - start) / 1e6)
print(json.dumps(ms))
"""


def build(name: str, board: str, out: Path) -> dict[str, Any]:
    """Run `mavcg build` for a model without any cache; returns its JSON with wall_s and cpu_s."""
    model = model_path(name)
    command = [sys.executable, "-m", "mavcg.cli", "build", str(model), "--board", board, "-o", str(out), "--json"]
    command += ["--jobs", str(JOBS)]
    for tensor, dims in shapes_of(name).items():
        command += ["--shape", f"{tensor}={'x'.join(map(str, dims))}"]
    with tempfile.TemporaryDirectory() as cache:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(command, env=_environment() | {"MAVCG_CACHE": cache}, cwd=ROOT, stdout=subprocess.PIPE)
        wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    done.check_returncode()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    document: dict[str, Any] = json.loads(done.stdout)
    return document | {"wall_s": round(wall, 1), "cpu_s": round(cpu, 1)}


def _environment() -> dict[str, str]:
    """Return this process's environment variables, with Python's bytecode cache enabled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def compile_modules() -> None:
    """Compile mavcg's modules to bytecode, as pip does at installation."""
    folders = [str(folder) for folder in (ROOT / "mavcg", *(ROOT / "mavcg").iterdir()) if folder.is_dir()]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], env=_environment(), cwd=ROOT, check=True)


def first_run(library: Path) -> dict[str, float]:
    """Return the milliseconds of the first run in a new process, and the median of later runs."""
    command = [sys.executable, "-c", FIRST, str(library), str(1 + LATER_RUNS)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    first, *later = json.loads(done.stdout)
    median = statistics.median(later)
    return {"first_ms": round(first, 3), "later_ms": round(median, 3), "first_over_later": round(first / median, 3)}


def measure(name: str) -> dict[str, Any]:
    """Return a model's row of the record."""
    with tempfile.TemporaryDirectory() as folder:
        built = build(name, BOARD, Path(folder) / "libmodel.so")
        host = build(name, "host", Path(folder) / "libhost.so")
        runs = first_run(Path(folder) / "libhost.so")
    kept = ("wall_s", "cpu_s", "library_bytes", "weight_bytes", "code_bytes", "kernels", "versions")
    on_host = {"host_wall_s": host["wall_s"], "host_cpu_s": host["cpu_s"]}
    load = {"load_average": round(os.getloadavg()[0], 1)}
    return {"model": name} | {key: built[key] for key in kept} | on_host | runs | load


def misses(row: Mapping[str, Any]) -> list[str]:
    """Return the bounds that a row exceeds."""
    most, most_on_host = MOST_SECONDS.get(row["model"], (30.0, 8.0))
    exceeded = [] if row["wall_s"] <= most and row["host_wall_s"] <= most_on_host else ["seconds"]
    exceeded += [] if row["library_bytes"] - row["weight_bytes"] <= MOST_BESIDE_WEIGHTS else ["bytes"]
    return exceeded + ([] if row["first_over_later"] <= MOST_FIRST else ["first run"])


def show(rows: list[dict[str, Any]]) -> str:
    """Print the table."""
    head = [
        "model",
        "wall s",
        "CPU s",
        "host wall s",
        "host CPU s",
        "weights MB",
        "rest of the library MB",
        "first / later run",
        "load",
        "misses",
    ]
    return table(
        head,
        [
            [
                row["model"],
                f"{row['wall_s']:.1f}",
                f"{row['cpu_s']:.1f}",
                f"{row['host_wall_s']:.1f}",
                f"{row['host_cpu_s']:.1f}",
                f"{row['weight_bytes'] / 1e6:.2f}",
                f"{(row['library_bytes'] - row['weight_bytes']) / 1e6:.2f}",
                f"{row['first_over_later']:.2f}",
                row["load_average"],
                ", ".join(misses(row)) or "none",
            ]
            for row in rows
        ],
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.model_build", description="What building models takes.")
    parser.add_argument("names", nargs="*", metavar="MODEL", help="as of bench.models; those with bounds where none")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    compile_modules()
    rows = [measure(name) for name in arguments.names or (*MOST_SECONDS, "squeezenet-random")]
    if not arguments.names:
        bounds = {"seconds": MOST_SECONDS, "bytes_beside_weights": MOST_BESIDE_WEIGHTS, "first_over_later": MOST_FIRST}
        write(
            "model_build",
            facts("measured", "bench.model_build")
            | {
                "board": BOARD,
                "jobs": JOBS,
                "bounds": bounds,
                "rows": rows,
            },
        )
    print(json.dumps(rows, indent=2) if arguments.json else show(rows))
    sys.exit(1 if any(map(misses, rows)) else 0)


if __name__ == "__main__":
    main()
