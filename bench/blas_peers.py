"""mavcg's BLAS beside OpenBLAS, BLIS and MKL: `python -m bench.blas_peers`.

Square, tall, skinny and tiny products, f32 and f64, A as it is and transposed, one thread and two. Each library is a
process of its own, stopped while another is timed, because thread pools spin. They alternate in rotating order; each is
called from a compiled loop for some milliseconds, after one call that is not counted. A round's ratio is of
neighbouring times, and the median of these ratios counts. OpenBLAS is started with each core type whose kernels
this machine can run; the fastest one in geometric mean counts. All results are compared with NumPy's in double
precision, and the command fails if one differs. Long products get fewer rounds: the whole takes about five minutes on a
quiet machine with two CPUs.

--half: sbgemm and shgemm, beside MKL's products of bf16 and f16 with sums in f32 (the others have none), which use AMX
where the processor has it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.blas_libraries import BlasLibrary, blis, mkl, openblas, openblas_core_types, our_library
from bench.interleaved import Worker, bound, when_loaded
from bench.record import facts, write
from bench.records import ROOT
from bench.tables.catalogue import show_record
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import run_zig

# (M, N, K) by kind.
SHAPES: Mapping[str, tuple[tuple[int, int, int], ...]] = {
    "square": ((256, 256, 256), (384, 384, 384), (512, 512, 512), (1000, 1000, 1000), (1536, 1536, 1536)),
    "tall": ((4000, 64, 256), (64, 4000, 256), (96, 96, 8000)),
    "skinny": ((2000, 16, 500), (16, 2000, 500), (1000, 1000, 24), (3000, 5, 400)),
    "tiny": ((4, 4, 4), (8, 8, 8), (13, 17, 19), (16, 16, 16), (32, 32, 32), (64, 64, 64), (100, 100, 100)),
}
ROUNDS, TURN_SECONDS = 9, 0.008
LARGE_ROUNDS, LARGE_PRODUCT = 5, 8e8  # of products of so many multiply-adds: a turn of theirs is two calls, as long
CLOSE = {"s": 1e-5, "d": 1e-13, "sb": 1e-5, "sh": 1e-5}  # of the largest element, times the square root of the terms


HALF = ("sb", "sh")


@dataclass(frozen=True)
class Size:
    """The sizes of a product that is timed."""

    kind: str
    letter: str
    transa: bool
    m: int
    n: int
    k: int

    def line(self, calls: int) -> str:
        """The request to bench/blas_worker.py, one line."""
        fields = {name: getattr(self, name) for name in ("letter", "transa", "m", "n", "k")}
        return json.dumps({**fields, "calls": calls})

    def __str__(self) -> str:
        return f"{self.letter}gemm {'T' if self.transa else 'N'} {self.m},{self.n},{self.k}"


def start(library: BlasLibrary, calls: Path, threads: int) -> Worker:
    """Start a library's process and stop it (SIGSTOP). Raises: RuntimeError if the library cannot be loaded.

    NumPy's own OpenBLAS, which checks the results in every process, has one thread where it is not what is measured:
    its threads poll for some time, and would take a CPU from those of the library.
    """
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    given = {name: value.format(threads=threads) for name, value in library.environment.items()}
    process = subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "bench/blas_worker.py"),
            str(calls),
            str(library.path),
            library.prefix,
            library.suffix,
            str(int(library.wide)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**kept, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1", **given},
    )
    return when_loaded(Worker(library.name, process, threads))


def measure_size(workers: Sequence[Worker], size: Size, rounds: int, clock: str) -> dict[str, list[float]]:
    """Return the seconds of a call in each round, by library.

    Raises: SystemExit if results differ by more than rounding.
    """
    calls = {}
    for worker in workers:
        first = worker.ask(size.line(1))
        if not first["apart"] <= CLOSE[size.letter] * size.k**0.5:
            raise SystemExit(f"{worker.runtime} {size}: is {first['apart']:.2g} of the largest element off")
        calls[worker.runtime] = max(1, round(TURN_SECONDS / max(worker.ask(size.line(3))["wall_s"], 1e-9)))
    seconds: dict[str, list[float]] = {worker.runtime: [] for worker in workers}
    for number in range(min(rounds, LARGE_ROUNDS) if size.m * size.n * size.k >= LARGE_PRODUCT else rounds):
        bound(workers, number)
        at = number % len(workers)
        for worker in [*workers[at:], *workers[:at]]:
            seconds[worker.runtime].append(worker.ask(size.line(calls[worker.runtime]))[clock])
    return seconds


def row_of(size: Size, threads: int, seconds: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the row of a product: GFLOP/s by the median, and mavcg's speed over that of each other library."""
    work = 2.0 * size.m * size.n * size.k
    ours = seconds["mavcg"]
    return {
        "kind": size.kind,
        "letter": size.letter,
        "transa": size.transa,
        "m": size.m,
        "n": size.n,
        "k": size.k,
        "threads": threads,
        "gflops": {name: round(work / statistics.median(each) / 1e9, 2) for name, each in seconds.items()},
        "over": {
            name: round(statistics.median(theirs / mine for theirs, mine in zip(each, ours, strict=True)), 4)
            for name, each in seconds.items()
            if name != "mavcg"
        },
    }


def best_openblas(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the core type for which OpenBLAS does best against mavcg, in geometric mean; "" without OpenBLAS."""
    names: list[str] = [name for name in rows[0]["over"] if name.startswith("OpenBLAS")]
    return (
        "" if not names else min(names, key=lambda name: statistics.geometric_mean(row["over"][name] for row in rows))
    )


def with_fastest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add mavcg's speed over the fastest other library; of OpenBLAS only its best core type counts."""
    best = best_openblas(rows)
    completed = []
    for row in rows:
        peers = {name: over for name, over in row["over"].items() if name == best or not name.startswith("OpenBLAS")}
        fastest = min(peers, key=lambda name: peers[name])
        completed.append({**row, "fastest": fastest, "over_fastest": peers[fastest]})
    return completed


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return geometric means and least ratios, by number of threads and kind of product."""
    groups = []
    for threads in sorted({row["threads"] for row in rows}):
        for kind in (*SHAPES, "all"):
            some = [r["over_fastest"] for r in rows if r["threads"] == threads and kind in (r["kind"], "all")]
            if some:
                mean = round(statistics.geometric_mean(some), 4)
                groups.append(
                    {
                        "threads": threads,
                        "kind": kind,
                        "products": len(some),
                        "mean_over_fastest": mean,
                        "least_over_fastest": min(some),
                        "below_0.95": sum(each < 0.95 for each in some),
                    }
                )
    return groups


def measure(
    libraries: Sequence[BlasLibrary], sizes: Sequence[Size], threads: Sequence[int], rounds: int, clock: str
) -> list[dict[str, Any]]:
    """Return a row for each product and number of threads."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="mavcg-blas-") as folder:
        calls = Path(folder) / "calls.so"
        run_zig("cc", ["-O2", "-shared", "-fPIC", str(ROOT / "bench/blas_calls.c"), "-o", str(calls)], "compiling")
        for count in threads:
            workers = [start(library, calls, count) for library in libraries]
            try:
                for size in sizes:
                    rows.append(row_of(size, count, measure_size(workers, size, rounds, clock)))
                    best = max(rows[-1]["gflops"].values())
                    print(
                        f"{size}, {count} threads: {rows[-1]['gflops']['mavcg'] / best:.3f} of the best",
                        file=sys.stderr,
                    )
            finally:
                for worker in workers:
                    worker.end()
    return with_fastest(rows)


def main() -> None:
    """Measure, print, and write bench/results/blas_peers.json, with --half half_blas_peers.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="M,N,K: only these; nothing is recorded then")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", default="1,2", help="1, 2 or 1,2")
    parser.add_argument("--letters", default="sd")
    parser.add_argument("--half", action="store_true", help="products in half precision: sbgemm and shgemm")
    parser.add_argument("--cpu-time", action="store_true", help="compare processor time, on a machine others use")
    parser.add_argument("--json", action="store_true", help="print the record instead of a table")
    args = parser.parse_args()
    shapes_by_kind = (
        {"asked": tuple(tuple(map(int, text.split(","))) for text in args.shapes)} if args.shapes else SHAPES
    )
    sizes = [
        Size(kind, letter, transa, *shape)
        for letter in (HALF if args.half else args.letters)
        for kind, shapes in shapes_by_kind.items()
        for shape in shapes
        for transa in (False, True)
    ]
    threads = [int(text) for text in args.threads.split(",")]
    with tempfile.TemporaryDirectory(prefix="mavcg-blas-") as folder:
        libraries, missing = [our_library(Path(folder))], {}
        for name, make in (("MKL", mkl),) if args.half else (("BLIS", blis), ("MKL", mkl)):
            try:
                libraries.append(make())
            except MavcgError as error:
                missing[name] = str(error)
        libraries += [] if args.half else [openblas(core) for core in openblas_core_types()]
        if len(libraries) == 1:
            raise SystemExit(f"no other library: {'; '.join(missing.values())}")
        rows = measure(libraries, sizes, threads, args.rounds, "cpu_s" if args.cpu_time else "wall_s")
    record_name = "half_blas_peers" if args.half else "blas_peers"
    record = {
        **facts("measured", "bench.blas_peers --half" if args.half else "bench.blas_peers"),
        "rounds": args.rounds,
        "large_rounds": min(args.rounds, LARGE_ROUNDS),
        "clock": "processor time" if args.cpu_time else "wall clock",
        "peers": {library.name: library.version for library in libraries if library.name != "mavcg"},
        "missing": missing,
        "best_openblas": best_openblas(rows),
        "summary": summary(rows),
        "rows": rows,
    }
    if not args.shapes and not args.cpu_time and args.letters == "sd" and threads == [1, 2]:
        write(record_name, record)
    show_record(record_name, record, args.json)


if __name__ == "__main__":
    main()
