"""Cost per call of selecting a version, over a direct call of it: `python -m bench.dispatch [--json FILE | --record]`.

There are two processes, one with rseq and one without it (as under glibc before 2.35, musl or Android). In each, all
kinds of calls are interleaved. `generated` is a function that `mavcg build` versioned; the other kinds are written in C
around the same run-time selector.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.machine import machine
from bench.tables.programs import WORDS
from mavcg.files.whole_file import write_whole
from mavcg.profiles.load import cores_for
from mavcg.program.build_values import BuildRequest
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.program import build_program
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

HERE = Path(__file__).resolve().parent
# Two cores whose code any machine of today runs, so that MAVCG_CPU_MAP may name them.
CORES = ("haswell", "broadwell") if platform.machine() == "x86_64" else ("cortex-a53", "cortex-a57")
# What a kind's cost is compared with, where that is not `direct`.
BASELINE = {"generated": "direct_generated", "direct_generated": "direct_generated"}
# Comes out differently for the generic CPU: a library whose versions are all alike has no dispatcher.
POPCOUNT = """
unsigned long bench_popcount(unsigned long x) { return __builtin_popcountl(x) + x; }
"""


def build(folder: Path) -> Path:
    """Compile dispatch.c with a function that mavcg versioned, whose object contains the runtime."""
    target = host_target()
    cores = cores_for(CORES)
    source = folder / "popcount.c"
    source.write_text(POPCOUNT)
    unit = read_command(["cc", "-O2", "-c", str(source)], folder)
    assert isinstance(unit, CompileUnit)
    versioned = folder / "popcount.o"
    build_program(BuildRequest(versioned, target, cores, (HotSymbol("bench_popcount"),), (unit,)))
    out = folder / "dispatch"
    # Aligned: else where a function happens to start costs more than what is measured.
    flags = [*PLAIN_CODE_FLAGS, "-std=gnu11", "-O2", "-falign-functions=64", "-falign-loops=64"]
    flags += ["-target", target.zig_name, f"-DSET={_tag_of(versioned)}", f'-DCORE="{CORES[0]}"', f"-I{SOURCES}"]
    run_zig("cc", [*flags, str(HERE / "dispatch.c"), str(versioned), "-o", str(out)], "building the benchmark")
    return out


def _tag_of(versioned: Path) -> str:
    """Return the tag of an object's selector, which its symbols end in: it depends on what the versions need."""
    (tag,) = set(re.findall(rb"mavcg_select_([0-9a-f]+)", versioned.read_bytes()))
    return str(tag, "ascii")


@dataclass(frozen=True)
class CallTime:
    """Nanoseconds per call; over_direct_ns: median of the differences to the direct call of the same round."""

    median_ns: float
    iqr_ns: float
    over_direct_ns: float


@dataclass(frozen=True)
class Run:
    """Result of one process; ways: times of each kind of call, by its name in WORDS."""

    rseq: bool
    rounds: int
    ways: dict[str, CallTime]


def measure(program: Path, rounds: int, use_rseq: bool) -> Run:
    """Time all kinds of calls in one process."""
    environment = os.environ | {
        "MAVCG_CPU_MAP": f"*={CORES[0]}",
        "GLIBC_TUNABLES": f"glibc.pthread.rseq={int(use_rseq)}",
    }
    environment.pop("MAVCG_TRACE", None)
    command = ["taskset", "-c", "0", str(program), str(rounds)]  # CPU 0 is the first core of the map
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = [line.split() for line in done.stdout.splitlines()]
    times = {kind: [float(value) for name, value in words if name == kind] for kind in WORDS}
    ways: dict[str, CallTime] = {}
    for kind, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        over = statistics.median(
            value - direct for value, direct in zip(values, times[BASELINE.get(kind, "direct")], strict=True)
        )
        ways[kind] = CallTime(round(median, 3), round(high - low, 3), round(over, 3))
    return Run(["rseq", "1"] in words, rounds, ways)


def show(about: dict[str, str], runs: list[Run]) -> None:
    where = f"{about['processor']}, {about['cpus']} CPUs, virtual: {about['virtual']}, {about['libc']}"
    table = Table(title=f"Measured, ns per call: median (IQR) of {runs[0].rounds} interleaved rounds\n{where}")
    table.add_column("kind", no_wrap=True)
    for run in runs:
        table.add_column("with rseq" if run.rseq else "without rseq", justify="right")
        table.add_column("over direct", justify="right")
    for kind, words in WORDS.items():
        cells = [words]
        for run in runs:
            row = run.ways[kind]
            cells += [f"{row.median_ns:.2f} ({row.iqr_ns:.2f})", f"{row.over_direct_ns:+.2f}"]
        table.add_row(*cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--record", action="store_true", help="keep them as bench/results/dispatch.json")
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        runs = [measure(program, options.rounds, use_rseq) for use_rseq in (True, False)]
    about = machine()
    show(about, runs)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        record = {"kind": "measured", "command": "python -m bench.dispatch", "machine": about}
        write_whole(options.json, json.dumps(record | {"runs": [asdict(run) for run in runs]}, indent=2) + "\n")
    if options.record:
        from bench.record import facts, write  # which names the machine by this module

        write("dispatch", facts("measured", "bench.dispatch --record") | {"runs": [asdict(run) for run in runs]})


if __name__ == "__main__":
    main()
