"""A sweep of -mcpu=X: code of every core on every core, by clang, by mavcg and by gcc.

    python -m bench.mcpu_sweep [--record]            Arm: main loops of kernels, by the models of the cores
    python -m bench.mcpu_sweep --host [--record]     this machine: kernels run, x86 cores' versions, processor time

Arm: each kernel is compiled by clang (ziglang's) with -mcpu=X, by gcc where Debian's aarch64-linux-gnu-gcc-12 (or
-gcc) is on the path, else "not run"; mavcg's version is clang's with the machine passes that core X's profile asks for.
A figure is operations a cycle of the main loop on core Y by its model, over those of clang's -mcpu=generic on the same
core: what figure 2.2 of Park's thesis measures of whole networks. SVE is left out of versions: most cores lack it.
"""

import argparse
import ctypes
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.asm_loops import TARGET, cycles, loops_of
from bench.machine_passes import main_loop_of
from bench.record import facts, write
from bench.records import ROOT
from bench.versions import KERNELS as HOST_KERNELS
from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.timing import MissingFact
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.tune import tune
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig, zig_command

# Those of the thesis' two phones, and a newer core of each kind.
CORES = (
    "cortex-a53,cortex-a55,cortex-a75,exynos-m2,exynos-m3,exynos-m4,cortex-a72,cortex-a73,cortex-a76,cortex-a510,"
    "cortex-x1,apple-firestorm"
).split(",")
KERNELS = {
    "gemm_f32_8x8": ROOT / "bench/kernels/gemm_f32_8x8.c",
    "gemm_f32_8x8_plain": ROOT / "bench/kernels/gemm_f32_8x8_plain.c",
    "gemm_f32_8x12": ROOT / "bench/kernels/gemm_f32_8x12.c",
    "gemm_f32": ROOT / "examples/edge_app/ops/gemm_f32.c",
    "depthwise_f32": ROOT / "examples/edge_app/ops/depthwise_f32.c",
}
GCC = ("aarch64-linux-gnu-gcc-12", "aarch64-linux-gnu-gcc")
MARCH = {("clang", "x86-64"): "x86_64"}  # ziglang's spelling
X86 = ("haswell", "broadwell", "skylake", "znver1", "znver2", "znver3", "znver4")
NAME, HOST_NAME = "mcpu_sweep", "mcpu_sweep_host"
HOST_PROGRAM = "edge_app"
HOST_ROUNDS, LEAST_SECONDS = 15, 0.004
PAPER = {"exynos-m2 on exynos-m2": 1.126, "exynos-m2 on cortex-a53": 1 - 0.138}  # figure 2.2: speed over generic


def clang_assembly(source: Path, core: Core | None, folder: Path) -> str:
    """Return clang's assembly for a core; None: generic code."""
    cpu = core.llvm_cpu.replace("-", "_") if core else GENERIC
    sve = "-sve-sve2" if core and "sve" in " ".join(core.extensions) else ""
    tune_for = [f"-mtune={core.llvm_tune}"] if core and core.llvm_tune else []
    out = folder / "clang.s"
    flags = ["-target", TARGET, f"-mcpu={cpu}{sve}", *tune_for, "-O3", *PLAIN_CODE_FLAGS, "-DNDEBUG"]
    run_zig("cc", [*flags, "-S", str(source), "-o", str(out)], f"compiling {source.name} for {cpu}")
    return out.read_text()


def gcc_assembly(gcc: str, source: Path, cpu: str) -> str | None:
    """Return gcc's assembly; None if gcc does not know the CPU."""
    command = [gcc, "-O3", "-DNDEBUG", "-ffreestanding", f"-mcpu={cpu}", "-S", str(source), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    if "unknown value" in done.stderr:
        return None
    raise MavcgError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[0]}")


def mavcg_assembly(text: str, core: Core) -> str:
    """Return clang's assembly for a core after the machine passes that the core's profile enables."""
    policy = core.policy
    if not (policy.split or policy.unpair or policy.schedule):
        return text
    return tune(text, load_timing(core), policy, SchedulingEffort(), open_inline=True).text


def versions(kernel: str, source: Path, cores: Sequence[Core], gcc: str | None) -> Iterator[tuple[str, str, str]]:
    """Return (compiler, version, assembly) of a kernel, without CPUs that a compiler does not know."""
    with tempfile.TemporaryDirectory() as folder:
        for core in (None, *cores):
            name = core.name if core else GENERIC
            print(f"bench: {kernel} for {name}", file=sys.stderr, flush=True)
            text = clang_assembly(source, core, Path(folder))
            yield "clang", name, text
            if core:
                yield "mavcg", name, mavcg_assembly(text, core)
            made = gcc_assembly(gcc, source, name) if gcc else None
            if made is not None:
                yield "gcc", name, made


def rates(kernel: str, texts: Sequence[tuple[str, str, str]], cores: Sequence[Core]) -> list[dict[str, Any]]:
    """Return the operations per cycle of each version's main loop on each core.

    None if the core's facts do not suffice.
    """
    known: dict[tuple[str, ...], dict[str, float | None]] = {}
    rows: list[dict[str, Any]] = []
    timings = {core.name: load_timing(core) for core in cores}
    for compiler, version, text in texts:
        # The passes change loops into prologue, kernel and epilogue of the same function.
        loop = main_loop_of(text, kernel) if any(x.function == kernel for x in loops_of(text)) else None
        if loop is None:
            rows.append({"kernel": kernel, "compiler": compiler, "version": version, "why": "no loop of known code"})
            continue
        key = tuple(map(str, loop.instrs))
        if key not in known:
            known[key] = {}
            for core in cores:
                try:
                    known[key][core.name] = loop.work.flops / cycles(loop.instrs, timings[core.name])
                except MissingFact:
                    known[key][core.name] = None
        rows.append({"kernel": kernel, "compiler": compiler, "version": version, "flop_per_cycle": known[key]})
    return rows


def matrix(rows: Sequence[Mapping[str, Any]], cores: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Return compiler -> version -> core -> speed over clang's generic code.

    Geometric mean of the kernels that have both.
    """
    of = {(r["kernel"], r["compiler"], r["version"]): r.get("flop_per_cycle", {}) for r in rows}
    kernels = dict.fromkeys(r["kernel"] for r in rows)
    made: dict[str, dict[str, dict[str, float]]] = {}
    for compiler, version in dict.fromkeys((r["compiler"], r["version"]) for r in rows):
        line = {}
        for core in cores:
            ratios = []
            for kernel in kernels:
                mine, base = (of.get((kernel, *key), {}).get(core) for key in ((compiler, version), ("clang", GENERIC)))
                if mine and base:
                    ratios.append(mine / base)
            if len(ratios) == len(kernels):
                line[core] = round(statistics.geometric_mean(ratios), 4)
        made.setdefault(compiler, {})[version] = line
    return made


def sweep(names: Sequence[str]) -> dict[str, Any]:
    """Return the record's tables: all kernels, compilers and cores."""
    cores = [load_core(name) for name in names]
    gcc = next((path for path in map(shutil.which, GCC) if path), None)
    rows: list[dict[str, Any]] = []
    for kernel, source in KERNELS.items():
        rows += rates(kernel, list(versions(kernel, source, cores, gcc)), cores)
    gcc_text = subprocess.run([gcc, "--version"], capture_output=True, text=True).stdout if gcc else ""
    return {
        "cores": list(names),
        "kernels": list(KERNELS),
        "gcc": "".join(gcc_text.splitlines()[:1]) or f"not run: there is no {GCC[0]}",
        "paper": PAPER,
        "rows": rows,
        "speed_over_generic": matrix(rows, names),
    }


def host_versions(folder: Path) -> dict[str, Path]:
    """Build edge_app's kernels by clang and gcc, for plain x86-64 and for each core whose code runs here."""
    sources = sorted((ROOT / "examples/edge_app/ops").glob("*.c"))
    compilers = {"clang": zig_command("cc"), **({"gcc": [gcc]} if (gcc := shutil.which("gcc")) else {})}
    made = {}
    for compiler, command in compilers.items():
        for name in ("x86-64", *X86):
            library = folder / f"{compiler}-{name}.so"
            target = ["-target", host_target().zig_name] if compiler == "clang" else []
            march = f"-m{'cpu' if compiler == 'clang' else 'arch'}={MARCH.get((compiler, name), name)}"
            options = [*target, march, "-O3", "-ffp-contract=off", *PLAIN_CODE_FLAGS, "-fPIC", "-shared", "-DNDEBUG"]
            done = subprocess.run([*command, *options, *map(str, sources), "-o", str(library)], capture_output=True)
            # An older compiler does not know a new core.
            if done.returncode == 0 and runs_here(library):
                made[f"{compiler} {name}"] = library
    return made


def runs_here(library: Path) -> bool:
    """True if the library's kernels run, tried in a process of their own.

    This machine has all instructions of its code.
    """
    code = (
        "import ctypes, sys; from bench.mcpu_sweep import HOST_PROGRAM, HOST_KERNELS\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "prepared = [kernel.prepare(library) for kernel in HOST_KERNELS if kernel.program == HOST_PROGRAM]\n"
        "[call() for call, _ in prepared]"
    )
    done = subprocess.run([sys.executable, "-c", code, str(library)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode in (0, -signal.SIGILL):
        return done.returncode == 0
    raise MavcgError(f"bench.{NAME}: {library.name}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def measured(libraries: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return a row for each kernel: microseconds of CPU time by compiler, speed over clang's plain code; medians."""
    rows = []
    loaded = {compiler: ctypes.CDLL(str(path)) for compiler, path in libraries.items()}
    for kernel in HOST_KERNELS:
        if kernel.program != HOST_PROGRAM:
            continue
        prepared = {
            compiler: kernel.prepare(library) for compiler, library in loaded.items()
        }  # results are kept in memory
        calls = {compiler: call for compiler, (call, _) in prepared.items()}
        once = min(_cpu_seconds(call, 10) for call in calls.values())
        repeats = max(1, round(LEAST_SECONDS / max(once, 1e-7)))
        times: dict[str, list[float]] = {compiler: [] for compiler in calls}
        compilers = list(calls)
        for number in range(HOST_ROUNDS):
            for compiler in compilers[number % len(compilers) :] + compilers[: number % len(compilers)]:
                times[compiler].append(_cpu_seconds(calls[compiler], repeats) * 1e6)
        base = times["clang x86-64"]
        rows.append(
            {
                "kernel": kernel.function,
                "work": kernel.work,
                "ways": {
                    compiler: {
                        "median_us": round(statistics.median(values), 2),
                        "least_us": round(min(values), 2),
                        "speed_over_generic": round(min(base) / min(values), 3),
                    }
                    for compiler, values in times.items()
                },
            }
        )
    return rows


def _cpu_seconds(call: Any, repeats: int) -> float:
    started = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - started) / repeats


def show(body: Mapping[str, Any]) -> None:
    """Return the matrices as text."""
    print(f"gcc: {body['gcc']}")
    for compiler, lines in body["speed_over_generic"].items():
        print(f"{compiler}: speed over clang -mcpu=generic on the core of the column, modelled")
        print(" " * 17 + " ".join(f"{core[-11:]:>11}" for core in body["cores"]))
        for version, line in lines.items():
            print(f"{version:17}" + " ".join(f"{line.get(core, math.nan):11.3f}" for core in body["cores"]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", default=",".join(CORES), help="Arm cores, with commas")
    parser.add_argument("--host", action="store_true", help="x86: run on this machine")
    parser.add_argument("--record", action="store_true", help=f"into bench/results/{NAME}.json, or {HOST_NAME}.json")
    arguments = parser.parse_args()
    if arguments.host:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        with tempfile.TemporaryDirectory() as folder:
            rows = measured(host_versions(Path(folder)))
        print(json.dumps(rows, indent=2))
        if arguments.record:
            write(HOST_NAME, facts("measured", f"bench.{NAME} --host --record") | {"rounds": HOST_ROUNDS, "rows": rows})
        return
    body = sweep(arguments.cores.split(","))
    show(body)
    if arguments.record:
        write(NAME, facts("modelled", f"bench.{NAME} --record") | body)


if __name__ == "__main__":
    main()
