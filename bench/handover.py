"""Cost of sharing a step between two threads: `python -m bench.handover [--json]`.

The engine with kernels that do nothing but wait some time, in a library of 500 such steps of two rows each. With two
threads a step takes what one row takes, plus waking the other thread, taking chunks, and waiting for the end.
One thread and two are interleaved; the lower quartile of the rounds counts, as other programs only add.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import facts, parser_with_json, write
from bench.tables.catalogue import print_record
from mavcg.graph import TensorType
from mavcg.hardware.cost_fit import X86
from mavcg.objects.library import link_shared
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.loading import Model, load
from mavcg.runtime.model_build import build_model_objects
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

TURNS = (0, 200, 1000, 5000)  # of a row's loop, about a nanosecond or less each
STEPS, ROUNDS, RUNS = 500, 21, 3
KERNEL = """
#include <stdint.h>
void row_1(void *const *operands, int64_t begin, int64_t end, void *scratch) __asm__("row_1.generic");
void row_1(void *const *operands, int64_t begin, int64_t end, void *scratch) {
    (void)operands, (void)scratch;
    for (int64_t row = begin; row < end; row++)
        for (int64_t turn = 0; turn < TURNS; turn++) __asm__ volatile("" ::: "memory");
}
"""


def library(iterations: int, folder: Path) -> Path:
    """Build a library of steps of two rows; a row is a given number of iterations of an empty loop."""
    target, name = host_target(), f"rows{iterations}"
    source, kernel, out = folder / f"{name}.c", folder / f"{name}.o", folder / f"lib{name}.so"
    source.write_text(KERNEL)
    flags = ["-target", target.zig_name, "-O2", "-fPIC", f"-DTURNS={iterations}", "-c", str(source), "-o", str(kernel)]
    run_zig("cc", flags, "compiling a kernel")
    number = TensorType("f32", (1,))
    places = (OperandAddress("input", 0, 0), OperandAddress("output", 0, 0))
    steps = tuple(ProgramStep(f"step {i}", "row", "row_1", places, 2, 1, 2) for i in range(STEPS))
    tensors = (ProgramTensor("x", number),), (ProgramTensor("y", number),)
    program = Program(name, *tensors, steps, 64, 64, 64, 64)
    made = folder / name
    made.mkdir()
    link_shared(build_model_objects(program, bytes(64), [kernel], CoreSet(()), {}, target, made), out, target)
    return out


def step_ns(model: Model, x: Any) -> float:
    """Return a step's time in one run, in ns."""
    start = time.perf_counter_ns()
    model.run(x)
    return (time.perf_counter_ns() - start) / STEPS


def measure(rounds: int = ROUNDS) -> list[dict[str, float]]:
    """Return a row for each length of a row's loop: ns per step."""
    x, rows = np.zeros(1, np.float32), []
    with tempfile.TemporaryDirectory(prefix="mavcg-handover-") as folder:
        for iterations in TURNS:
            path = library(iterations, Path(folder))
            models = [load(path, threads=threads) for threads in (1, 2)]
            times: list[list[float]] = [[], []]
            for number in range(rounds):
                for which in (0, 1) if number % 2 else (1, 0):
                    step_ns(models[which], x)  # threads are awake
                    times[which].append(min(step_ns(models[which], x) for _ in range(RUNS)))
            one_ns, two_ns = (statistics.quantiles(t, n=4)[0] for t in times)
            rows.append(
                {
                    "row_ns": round(one_ns / 2, 1),
                    "one_ns": round(one_ns, 1),
                    "two_ns": round(two_ns, 1),
                    "beside_ns": round(two_ns - one_ns / 2, 1),
                }
            )
    return rows


def main() -> None:
    """Measure, print, and write bench/results/handover.json."""
    parser = parser_with_json(__doc__, "the record instead of a table")
    args = parser.parse_args()
    rows = measure()
    steps = fit_of_kind(X86).steps
    modelled = {"step_cycles": steps.step_cycles, "handover_cycles": steps.handover_cycles}
    record = {**facts("measured", "bench.handover"), "modelled": modelled, "rows": rows}
    write("handover", record)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print_record("handover", record)


if __name__ == "__main__":
    main()
