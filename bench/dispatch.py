"""Cost of choosing a version per call, over a direct call of it: `python bench/dispatch.py [--json FILE]`.

Two processes, one with rseq and one without it (as under glibc before 2.35, musl or Android); in each all ways take
turns in every round. The dispatcher is the C form of the generated one (runtime/csrc/mavcg_runtime.h).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mavcg.core import Core
from mavcg.runtime.build import SOURCES, runtime_object
from mavcg.runtime.coreset import CoreSet
from mavcg.target import host_target
from mavcg.toolchain import PLAIN_CODE_FLAGS, run_zig

HERE = Path(__file__).resolve().parent
WORDS = {
    "direct": "direct call of the version",
    "dispatched": "dispatcher in line",
    "runtime_select": "the runtime's select, called each time",
    "system_call": "getcpu system call each time",
    "trapping_register": "CPUID 1AH each time" if platform.machine() == "x86_64" else "mrs MIDR_EL1 each time",
}


def build(folder: Path) -> Path:
    """Compile dispatch.c with a runtime of two cores, which MAVCG_CPU_MAP tells apart."""
    target = host_target()
    cpu = "x86-64" if target.arch == "x86_64" else "generic"
    cores = CoreSet(tuple(Core(name, target.arch, "out", cpu, "for the benchmark") for name in ("a", "b")))
    runtime = runtime_object(cores, {}, target, folder)
    out = folder / "dispatch"
    # Aligned: else where a function happens to start costs more than what is measured.
    flags = [*PLAIN_CODE_FLAGS, "-std=gnu11", "-O2", "-falign-functions=64", "-falign-loops=64"]
    flags += ["-target", target.zig_name, f"-DSET={cores.tag}", f"-I{SOURCES}"]
    run_zig("cc", [*flags, str(HERE / "dispatch.c"), str(runtime), "-o", str(out)], "building the benchmark")
    return out


@dataclass(frozen=True)
class Way:
    """Nanoseconds per call; over_direct_ns: median of the differences to the direct call of the same round."""

    median_ns: float
    iqr_ns: float
    over_direct_ns: float


@dataclass(frozen=True)
class Run:
    """One process; ways by their names in WORDS."""

    rseq: bool
    rounds: int
    ways: dict[str, Way]


def measure(program: Path, rounds: int, use_rseq: bool) -> Run:
    """Time all ways in one process."""
    environment = os.environ | {"MAVCG_CPU_MAP": "0=a,*=b", "GLIBC_TUNABLES": f"glibc.pthread.rseq={int(use_rseq)}"}
    environment.pop("MAVCG_TRACE", None)
    done = subprocess.run([program, str(rounds)], env=environment, capture_output=True, text=True, check=True)
    words = [line.split() for line in done.stdout.splitlines()]
    times = {way: [float(value) for name, value in words if name == way] for way in WORDS}
    ways: dict[str, Way] = {}
    for way, values in times.items():
        low, median, high = statistics.quantiles(values, n=4)
        over = statistics.median(value - direct for value, direct in zip(values, times["direct"], strict=True))
        ways[way] = Way(round(median, 3), round(high - low, 3), round(over, 3))
    return Run(["rseq", "1"] in words, rounds, ways)


def machine() -> dict[str, str]:
    """What a reader must know to judge the figures."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [
        line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(("model name", "Hardware"))
    ]
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "processor": models[0] if models else platform.machine(),
        "cpus": str(os.cpu_count()),
        "governor": governor.read_text().strip() if governor.exists() else "not shown",
        "virtual": "yes" if "hypervisor" in text else "not known",
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
    }


def show(about: dict[str, str], runs: list[Run]) -> None:
    where = f"{about['processor']}, {about['cpus']} CPUs, virtual: {about['virtual']}, {about['libc']}"
    table = Table(title=f"Measured, ns per call: median (IQR) of {runs[0].rounds} interleaved rounds\n{where}")
    table.add_column("way")
    for run in runs:
        table.add_column("with rseq" if run.rseq else "without rseq", justify="right")
        table.add_column("over direct", justify="right")
    for way, words in WORDS.items():
        cells = [words]
        for run in runs:
            row = run.ways[way]
            cells += [f"{row.median_ns:.2f} ({row.iqr_ns:.2f})", f"{row.over_direct_ns:+.2f}"]
        table.add_row(*cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        runs = [measure(program, options.rounds, use_rseq) for use_rseq in (True, False)]
    about = machine()
    show(about, runs)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        unfinished = options.json.with_suffix(".part")
        record = {"kind": "measured", "command": "python bench/dispatch.py", "machine": about}
        unfinished.write_text(json.dumps(record | {"runs": [asdict(run) for run in runs]}, indent=2) + "\n")
        os.replace(unfinished, options.json)


if __name__ == "__main__":
    main()
