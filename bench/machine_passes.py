"""Estimate kernels before and after the machine passes, by the models of the cores: `python -m bench.machine_passes`.

Everything but the seconds is a model's figure: no ARM core ran anything. The same sources give the same figures.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

from bench.asm_loops import COMPILED_FOR, TARGET, Loop, compile_to_assembly, cycles, forced, loops_of, tuned
from bench.record import facts, write
from bench.records import ROOT
from mavcg.assembly.schedule_store import KeptSchedules, open_schedules
from mavcg.hardware.timing import MissingFact
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.transforms.split_loads import split_loads
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

CORES = (
    "cortex-a53,cortex-a55-r0,cortex-a55,cortex-a57,cortex-a72,cortex-a75,cortex-a76,cortex-a510,cortex-x1,"
    "exynos-m3,exynos-m4,apple-firestorm"
).split(",")
LATENCIES = (2, 3, 4)
SOLVER_SECONDS = 8.0
TIMES = 3
LIBRARY_LOOPS = 16  # multiply-adds in one pass, at least: what is there for its arithmetic
_KERNELS = ROOT / "bench/kernels"
_LIBRARIES = ROOT / "examples/gemm_libraries"


@dataclass(frozen=True)
class Kernel:
    """A kernel of bench/kernels: its function and file, how it is written, flags, the extension that it needs."""

    name: str
    function: str
    what: str
    flags: tuple[str, ...] = ()
    needs: str = ""


_STEP = ("-DONE_STEP",)
KERNELS = (
    Kernel("fp32 8x8", "gemm_f32_8x8", "intrinsics; LLVM unrolls by 4"),
    Kernel("fp32 8x8, one step", "gemm_f32_8x8", "intrinsics, not unrolled", _STEP),
    Kernel("fp32 8x8, plain C", "gemm_f32_8x8_plain", "loops; LLVM vectorises them and unrolls by 2"),
    Kernel("fp32 8x12", "gemm_f32_8x12", "intrinsics; LLVM unrolls by 4"),
    Kernel("fp32 8x12, one step", "gemm_f32_8x12", "intrinsics, not unrolled", _STEP),
    Kernel("int8 8x12 dot", "gemm_s8_8x12_dot", "intrinsics; LLVM unrolls by 4", (), "dotprod"),
    Kernel("int8 8x12 dot, one step", "gemm_s8_8x12_dot", "intrinsics, not unrolled", _STEP, "dotprod"),
)
LIBRARIES = (
    ("Eigen", "eigen_gemm.cpp", Path("/usr/include/eigen3")),
    ("gemmlowp", "gemmlowp_gemm.cpp", Path("/usr/include/gemmlowp")),
)
TIMED = ("fp32 8x8", "fp32 8x12, one step", "fp32 8x12")


def main_loop_of(text: str, function: str) -> Loop:
    """Return the loop of a function that does most arithmetic per iteration."""
    return max((loop for loop in loops_of(text) if loop.function == function), key=_work)


def _work(loop: Loop) -> int:
    return max(loop.work.flops, loop.work.int_ops)


def kernel_on_core(kernel: Kernel, text: str, core: str) -> dict[str, Any]:
    """Return the operations per cycle of a kernel on a core.

    As compiled, with forced load splitting, after the core's passes.
    """
    kind = load_core(core)
    timing, loop = load_timing(kind), main_loop_of(text, kernel.function)
    try:
        before, as_two = cycles(loop.instrs, timing), False
    except MissingFact:  # of pairs: Apple's cores
        before, as_two = cycles(split_loads(loop.instrs, False, True).instrs, timing), True
    split_alone, split_scheduled = forced(loop, timing)
    report = tuned(text, timing, kind.policy).get((kernel.function, loop.label))
    after = report.cycles_after if report is not None and report.cycles_after is not None else before
    work = _work(loop)
    return {
        "kernel": kernel.name,
        "core": core,
        "order": timing.order,
        "can_run": kernel.needs in ("", *kind.extensions),
        "unit": "FLOP/cycle" if loop.work.flops >= loop.work.int_ops else "OP/cycle",
        "work": work,
        "policy": {name: getattr(kind.policy, name) for name in ("split", "unpair", "schedule")},
        "pairs_as_two_loads": as_two,
        "cycles_before": before,
        "cycles_after": after,
        "before": round(work / before, 3),
        "what_if_split": round(work / split_alone, 3),
        "what_if_split_scheduled": round(work / split_scheduled, 3),
        "after": round(work / after, 3),
        "splits": report.splits if report is not None else 0,
        "instructions_before": len(loop.instrs),
        "instructions_after": (
            report.instructions_after if report is not None and not report.unchanged_because else len(loop.instrs)
        ),
    }


def by_latency(kernel: Kernel, text: str, latency: int) -> dict[str, Any]:
    """Return the row of a kernel on a Cortex-A55 with another latency, in cycles, from `ldr x` to `ins`."""
    kind, loop = load_core("cortex-a55"), main_loop_of(text, kernel.function)
    timing = load_timing(kind).with_forward("ldr_x", "ins", "", latency)
    report = tuned(text, timing, kind.policy)[kernel.function, loop.label]
    after = report.cycles_after or cycles(loop.instrs, timing)
    alone, _ = forced(loop, timing)
    row = {"kernel": kernel.name, "ldr_x_to_ins": latency, "before": _work(loop) / cycles(loop.instrs, timing)}
    row |= {"split_alone": _work(loop) / alone, "after": _work(loop) / after}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}


def library(name: str, text: str, core: str) -> list[dict[str, Any]]:
    """Return the loops with most arithmetic of a library, before and after the passes.

    Its other functions are not tuned, to save time.
    """
    kind = load_core(core)
    timing = load_timing(kind)
    loops = [loop for loop in loops_of(text) if loop.multiply_adds >= LIBRARY_LOOPS]
    hot = {loop.function for loop in loops}
    reports = tuned(text, timing, kind.policy, skip=lambda function: "" if function in hot else "not asked for")
    rows = []
    for loop in loops:
        report = reports[loop.function, loop.label]
        before = cycles(loop.instrs, timing)
        after = report.cycles_after if report.cycles_after is not None else before
        rows.append(
            {
                "library": name,
                "core": core,
                "function": loop.function,
                "label": loop.label,
                "multiply_adds": loop.multiply_adds,
                "cycles_before": before,
                "cycles_after": after,
                "ratio": round(before / after, 3),
                "splits": report.splits,
                "scheduled_by": report.scheduled_by,
                "kept": report.unchanged_because,
            }
        )
    return sorted(rows, key=lambda row: -row["multiply_adds"])


def scheduling_seconds(kernel: Kernel, text: str) -> dict[str, Any]:
    """Return the CPU seconds, medians, of tuning one kernel's function for a Cortex-A55, all in this process."""
    kind = load_core("cortex-a55")
    timing = load_timing(kind)
    row: dict[str, Any] = {"kernel": kernel.name, "instructions": len(main_loop_of(text, kernel.function).instrs)}
    for scheduler, seconds, times in (("heuristic", 0.0, TIMES), ("solver", SOLVER_SECONDS, 1)):
        first: list[float] = []
        again: list[float] = []
        for _ in range(times):
            with tempfile.TemporaryDirectory() as folder:
                effort = SchedulingEffort(seconds, KeptSchedules(open_schedules({"MAVCG_CACHE": folder})))
                for taken in (first, again):
                    start = time.process_time()
                    reports = tuned(text, timing, kind.policy, effort)
                    taken.append(time.process_time() - start)
        report = reports[kernel.function, main_loop_of(text, kernel.function).label]
        row[scheduler] = {
            "cycles_after": report.cycles_after,
            "by": report.scheduled_by,
            "times": times,
            "first_s": round(statistics.median(first), 3),
            "from_cache_s": round(statistics.median(again), 3),
        }
    return row


def texts(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the assembly of the kernels and of the libraries whose headers are installed, by name."""
    kernels = {
        k.name: compile_to_assembly(_KERNELS / f"{k.function}.c", folder / f"{n}.s", k.flags)
        for n, k in enumerate(KERNELS)
    }
    libraries = {
        name: compile_to_assembly(_LIBRARIES / file, folder / f"{file}.s", ["-std=c++14", "-isystem", str(headers)])
        for name, file, headers in LIBRARIES
        if headers.is_dir()
    }
    return kernels, libraries


def _jobs(kernels: dict[str, str], libraries: dict[str, str]) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    for name, text in libraries.items():
        yield from (("libraries", library, (name, text, core)) for core in ("cortex-a55", "cortex-a53"))
    for kernel in KERNELS:
        yield from (("kernels", kernel_on_core, (kernel, kernels[kernel.name], core)) for core in CORES)
        yield from (("latencies", by_latency, (kernel, kernels[kernel.name], latency)) for latency in LATENCIES)


def main() -> None:
    """Model, time, and write bench/results/machine_passes.json."""
    record: dict[str, Any] = facts("modelled; seconds are measured", "bench.machine_passes")
    with tempfile.TemporaryDirectory() as folder:
        kernels, libraries = texts(Path(folder))
    # Seconds first, and alone: the rest takes every CPU.
    seconds = list(starmap(scheduling_seconds, [(k, kernels[k.name]) for k in KERNELS if k.name in TIMED]))
    jobs = list(_jobs(kernels, libraries))
    rows: dict[str, list[dict[str, Any]]] = {"kernels": [], "latencies": [], "libraries": []}
    with ProcessPoolExecutor(max(1, min(2, len(os.sched_getaffinity(0))))) as pool:
        started = [(table, pool.submit(work, *arguments)) for table, work, arguments in jobs]
        for table, job in started:
            rows_made = job.result()
            rows[table] += rows_made if isinstance(rows_made, list) else [rows_made]
    record |= {
        "target": TARGET,
        "compiled_for": COMPILED_FOR,
        "what": {k.name: k.what for k in KERNELS},
        "left_out": [name for name, _, headers in LIBRARIES if name not in libraries],
        "solver_seconds": SOLVER_SECONDS,
        **rows,
        "seconds": seconds,
    }
    print(write("machine_passes", record))


if __name__ == "__main__":
    main()
