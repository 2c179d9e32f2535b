"""Two threads on unequal cores: the time of a step over that of the ideal division. `python -m bench.unequal_cores`.

Two CPUs of this machine stand for a big and a little core: MAVCG_CPU_MAP says so, and the little core's version of the
kernel repeats the work of a row `ratio` times. The caller runs on one, the library's own thread on the other. The ideal
is the time if sharing the rows cost nothing: 1 / (1 / big alone + 1 / little alone), both measured in the same rounds.
The first step is not counted: the library's thread sleeps between runs, and the system's time to wake it has nothing to
do with sharing. That step must end with both threads at the same time, because a thread that waits for more than 50
microseconds sleeps again (engine_wait.c) and the next, counted step would wake it. Real layers of small images are
measured as well, with rows in parts and whole (bench/unequal_layers.py). The fastest rounds count, since other programs
only add time; on a machine that is never idle the figures mean nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import facts, write
from bench.unequal_layers import build_layers
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.hardware.core import Core
from mavcg.objects.library import link_shared
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.loading import Model, load
from mavcg.runtime.model_build import build_model_objects
from mavcg.runtime.timed_runs import profile_after_run
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

RATIOS = (1, 2, 3, 4, 6)
ROWS = (14, 28, 56, 112, 224)
TURNS = 20_000  # of the loop of a row: some 20 us
ROUNDS = 25
WAKING, WAKING_ROWS = "waking", 112  # the step that is not counted

KERNEL = """
#include <stdint.h>
void row_work(void *const *operands, int64_t begin, int64_t end, void *scratch) __asm__("row_work_1." LABEL);
void row_work(void *const *operands, int64_t begin, int64_t end, void *scratch) {
    uint32_t *out = operands[0];
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        uint32_t x = (uint32_t)i + 1;
        for (int time = 0; time < TIMES; time++) {
            x = (uint32_t)i + 1;
            for (int turn = 0; turn < TURNS; turn++) x ^= x << 13, x ^= x >> 17, x ^= x << 5;
            __asm__ volatile("" : "+r"(x));
        }
        out[i] = x;
    }
}
"""


def step_name(rows: int, weighted: bool) -> str:
    """Return the step's name in the library."""
    return f"{rows} rows, {'speeds known' if weighted else 'no speeds known'}"


def build(ratio: int, folder: Path) -> Path:
    """Build libraries with a step for each number of rows, with the cores' speeds and without."""
    target = host_target()
    cpu = "x86-64" if target.arch == "x86_64" else "generic"
    core_set = CoreSet(tuple(Core(name, target.arch, "out", cpu, "made up") for name in ("big", "little")))
    (folder / "kernel.c").write_text(KERNEL)
    objects = []
    for label, times in (("generic", 1), ("big", 1), ("little", ratio)):
        flags = ["-target", target.zig_name, "-O2", "-fPIC", f"-DTIMES={times}", f"-DTURNS={TURNS}"]
        arguments = [*flags, f'-DLABEL="{label}"', "-c", "kernel.c", "-o", f"{label}.o"]
        run_zig("cc", arguments, f"compiling the kernel for {label}", folder)
        objects.append(folder / f"{label}.o")
    speeds = (("big", 256 * ratio), ("little", 256))
    kinds = [(WAKING, WAKING_ROWS, True), *((step_name(r, known), r, known) for r in ROWS for known in (True, False))]
    steps = tuple(
        ProgramStep(
            name, "work", "row_work_1", (OperandAddress("output"),), rows, 1, rows * TURNS, speeds if known else ()
        )
        for name, rows, known in kinds
    )
    output = ProgramTensor("out", TensorType("u32", (max(ROWS),)))
    program = Program(f"unequal{ratio}", (), (output,), steps, 0, 0, 0, 0)
    made = build_model_objects(program, b"", objects, core_set, {}, target, folder / "objects")
    link_shared(made, folder / "libunequal.so", target)
    return folder / "libunequal.so"


def measure(library: Path, big: int, little: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds of each step by the threads that run it; in a process with MAVCG_CPU_MAP set."""
    with load(library) as alone, load(library, threads=2, pin=True) as both:
        os.sched_setaffinity(0, {big, little})
        rng = np.random.default_rng(1)
        inputs = [rng.standard_normal(tensor.shape).astype(np.float32) for tensor in both.inputs]
        both.run(*inputs)  # starts its thread, which ties itself to the second CPU
        runs = {"big_ms": (alone, min(big, little)), "little_ms": (alone, max(big, little))}
        runs["both_ms"] = (both, min(big, little))
        if big > little:  # the caller is on the little core
            runs["big_ms"], runs["little_ms"] = runs["little_ms"], runs["big_ms"]
        expected = alone.run(*inputs)[0].tobytes()
        step_ms: dict[str, dict[str, float]] = {}
        for _ in range(ROUNDS):
            for name, (model, cpu) in runs.items():
                os.sched_setaffinity(0, {cpu})
                for step in profile_after_run(model, inputs).steps:
                    if step.name == WAKING:
                        continue
                    at = step_ms.setdefault(step.name, {})
                    at[name] = min(at.get(name, float("inf")), step.ns / 1e6)
        _check(both, inputs, expected)
    return step_ms


def _check(model: Model, inputs: Sequence[Any], expected: bytes) -> None:
    if model.run(*inputs)[0].tobytes() != expected:
        raise MavcgError(f"{model.path}: another result with {model.threads} threads; the kernel's rows are not apart")


def rows_of(ratio: int, caller: str, step_ms: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Return a row of the record for each step."""
    lines = []
    for name, times in step_ms.items():
        ideal = 1 / (1 / times["big_ms"] + 1 / times["little_ms"])
        entry = {"ratio": ratio, "caller": caller, "step": name, **{k: round(v, 4) for k, v in times.items()}}
        lines.append(entry | {"ideal_ms": round(ideal, 4), "over_ideal": round(times["both_ms"] / ideal, 4)})
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure every ratio of speeds with the calling thread on either core; print and record."""
    if arguments:
        library_path, on_big, on_little = arguments
        print(json.dumps(measure(Path(library_path), int(on_big), int(on_little))))
        return 0
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        raise MavcgError("bench.unequal_cores: this process may use one CPU only; it takes two")
    lines: list[dict[str, Any]] = []
    for ratio in RATIOS:
        with tempfile.TemporaryDirectory(prefix="mavcg-unequal-") as scratch:
            libraries = [build(ratio, Path(scratch))]
            libraries += [build_layers(ratio, cut, WAKING, Path(scratch) / f"parts-{cut}") for cut in (True, False)]
            for caller, (big, little) in (("big", cpus), ("little", cpus[::-1])):
                environment = os.environ | {"MAVCG_CPU_MAP": f"{big}=big,{little}=little"}
                for library in libraries:
                    command = [sys.executable, "-m", "bench.unequal_cores", str(library), str(big), str(little)]
                    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                    new = rows_of(ratio, caller, json.loads(done.stdout))
                    lines += new
                    for line in new:
                        print(
                            f"1:{ratio} caller {caller:6} {line['step']:28} {line['both_ms']:8.3f} ms, ideal "
                            f"{line['ideal_ms']:8.3f} ms: {line['over_ideal']:.3f}"
                        )
    known = [line["over_ideal"] for line in lines if line["step"].endswith("rows, speeds known")]
    layers = [line["over_ideal"] for line in lines if line["step"].endswith("in parts")]
    record = {"row_turns": TURNS, "rounds": ROUNDS, "largest_over_ideal_known": max(known)}
    record |= {"largest_over_ideal_in_parts": max(layers), "steps": lines}
    print(f"speeds known: {np.median(known):.3f} of the ideal in the middle, {max(known):.3f} at most")
    print(f"layers in parts: {np.median(layers):.3f} of the ideal in the middle, {max(layers):.3f} at most")
    print(write("unequal_cores", facts("measured", "bench.unequal_cores") | record))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
