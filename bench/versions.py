"""Each kernel on this machine: the generic version, this core's version, and other compilers' code.

All libraries are loaded into one process and take turns, in another order every round, on one CPU.
"""

import ctypes
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.programs import PROGRAMS, Program, build
from bench.record import facts, write
from mavcg.program.perf_runs import this_machine
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_tool, zig_command

ROUNDS = 15
LEAST_SECONDS = 0.004  # of one timing: as many calls as it takes
BASELINE = "gcc -O3"


@dataclass(frozen=True)
class Kernel:
    """One function.

    work: description of its work. prepare: takes a library, returns a call with its arguments and the array that it
    fills.
    """

    program: str
    function: str
    work: str
    prepare: Callable[[ctypes.CDLL], tuple[Callable[[], object], np.ndarray]]


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _gemm_f32(library: ctypes.CDLL) -> tuple[Callable[[], object], np.ndarray]:
    numbers = np.random.default_rng(1)
    a, b = (numbers.uniform(-1, 1, shape).astype(np.float32) for shape in ((196, 128), (128, 64)))
    bias, c = numbers.uniform(-1, 1, 64).astype(np.float32), np.zeros((196, 64), np.float32)
    arguments = (
        196,
        64,
        128,
        _address(a),
        _address(b),
        _address(bias),
        ctypes.c_float(-9),
        ctypes.c_float(9),
        _address(c),
    )
    return lambda: (library.gemm_f32(*arguments), a, b, bias), c


class _Requantize(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("a_zero", "c_zero", "multiplier", "shift", "low", "high")]


def _gemm_s8(library: ctypes.CDLL) -> tuple[Callable[[], object], np.ndarray]:
    numbers = np.random.default_rng(2)
    a, b = (numbers.integers(-128, 128, size, np.int8) for size in (196 * 128, 128 * 64))
    bias, c = numbers.integers(-999, 999, 64, np.int32), np.zeros((196, 64), np.int8)
    packed, by = np.zeros_like(b), _Requantize(-5, 3, 1500000000, -8, -128, 127)
    library.pack_s8(128, 64, _address(b), _address(packed))
    arguments = (196, 64, 128, _address(a), _address(packed), _address(bias), ctypes.byref(by), _address(c))
    return lambda: (library.gemm_s8(*arguments), a, packed, bias, by), c


def _depthwise_f32(library: ctypes.CDLL) -> tuple[Callable[[], object], np.ndarray]:
    numbers = np.random.default_rng(3)
    image, filter_, bias = (numbers.uniform(-1, 1, n).astype(np.float32) for n in (28 * 28 * 64, 9 * 64, 64))
    out = np.zeros((28, 28, 64), np.float32)
    low, high = ctypes.c_float(0), ctypes.c_float(6)
    arguments = (28, 28, 64, 1, _address(image), _address(filter_), _address(bias), low, high, _address(out))
    return lambda: (library.depthwise_f32(*arguments), image, filter_, bias), out


def _eigen(library: ctypes.CDLL) -> tuple[Callable[[], object], np.ndarray]:
    numbers = np.random.default_rng(4)
    left, right, bias = (numbers.uniform(-1, 1, n).astype(np.float32) for n in (64 * 128, 128 * 196, 64))
    out = np.zeros(64 * 196, np.float32)
    sizes, low, high = (0, 64, 196, 128), ctypes.c_float(-9), ctypes.c_float(9)
    arguments = (*sizes, _address(left), _address(right), _address(bias), low, high, _address(out))
    return lambda: (library.eigen_gemm_f32(*arguments), left, right, bias), out


KERNELS = (
    Kernel("edge_app", "gemm_f32", "196 x 64 x 128", _gemm_f32),
    Kernel("edge_app", "gemm_s8", "196 x 64 x 128", _gemm_s8),
    Kernel("edge_app", "depthwise_f32", "28 x 28 x 64, 3 x 3", _depthwise_f32),
    Kernel("eigen_app", "eigen_gemm_f32", "64 x 196 x 128", _eigen),
)


def build_libraries(program: Program, cores: Sequence[str], folder: Path) -> dict[str, Path]:
    """Way -> library of the program's kernels (its main left out)."""
    sources = tuple(s for s in program.sources if s.parent.name == "ops" or s.name.endswith("_gemm.cpp"))
    kernels = Program(program.name, program.what, sources, program.flags, program.hot)
    multi = folder / f"{program.name}-mavcg.so"
    build(kernels, ",".join(cores), multi, "--target", host_target().zig_name)
    made: dict[str, Path] = {}
    for label in ("generic", *cores):  # copies: one path is loaded once, and chooses once
        made[f"mavcg {label}"] = Path(shutil.copy(multi, folder / f"{program.name}-{label}.so"))
    tool, gnu = ("c++", "g++") if any(s.suffix == ".cpp" for s in sources) else ("cc", "gcc")
    zig = [*zig_command(tool), "-target", host_target().zig_name, *PLAIN_CODE_FLAGS]
    compilers = {"clang -O3 (zig)": [*zig, "-UNDEBUG"]}
    gcc = shutil.which(gnu)
    if gcc:
        compilers |= {BASELINE: [gcc], "gcc -O3 -march=native": [gcc, "-march=native"]}
    for label, command in compilers.items():
        made[label] = folder / f"{program.name}-{len(made)}.so"
        options = [*program.flags, "-UNDEBUG", "-fPIC", "-shared", *map(str, sources), "-o", str(made[label])]
        run_tool([*command, *options], f"building {program.name} by {label}")
    return made


def load(label: str, path: Path) -> ctypes.CDLL:
    """Open a library; a library of mavcg treats every CPU as the core that its label names."""
    os.environ.pop("MAVCG_CPU_MAP", None)
    if label.startswith("mavcg "):
        os.environ["MAVCG_CPU_MAP"] = f"*={label.removeprefix('mavcg ')}"
    return ctypes.CDLL(str(path))


def time_kernel(kernel: Kernel, libraries: Mapping[str, ctypes.CDLL]) -> dict[str, Any]:
    """Return medians over the rounds, and of each round's ratio to the baseline and to the generic version."""
    calls, results = {}, {}
    for label, library in libraries.items():
        calls[label], results[label] = kernel.prepare(library)
        calls[label]()
    repeats = max(1, round(LEAST_SECONDS / min(_seconds(call, 20) for call in calls.values())))
    rounds: dict[str, list[float]] = {label: [] for label in calls}
    labels = list(calls)
    for number in range(ROUNDS):
        for label in labels[number % len(labels) :] + labels[: number % len(labels)]:
            rounds[label].append(_seconds(calls[label], repeats) * 1e6)
    reference = results["mavcg generic"].tobytes()
    rows = {}
    for label, values in rounds.items():
        low, median, high = statistics.quantiles(values, n=4)
        rows[label] = {"median_us": round(median, 2), "iqr_us": round(high - low, 2)}
        rows[label]["same_bits_as_generic"] = results[label].tobytes() == reference
        for name, base in (("generic", "mavcg generic"), ("gcc_O3", BASELINE)):
            if base in rounds:
                ratios = [b / value for b, value in zip(rounds[base], values, strict=True)]
                rows[label][f"speed_over_{name}"] = round(statistics.median(ratios), 3)
    return {"kernel": kernel.function, "work": kernel.work, "calls_a_timing": repeats, "ways": rows}


def _seconds(call: Callable[[], object], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


def main() -> None:
    """Measure, and write bench/results/versions.json."""
    cores = sorted({cpu.core for cpu in this_machine() if cpu.core})
    if not cores:
        print(
            "bench.versions: this machine's core is not known to mavcg: only its generic version is timed",
            file=sys.stderr,
        )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS:
            kernels = [kernel for kernel in KERNELS if kernel.program == program.name]
            if not kernels or not program.is_here:
                continue
            libraries = {
                label: load(label, path) for label, path in build_libraries(program, cores, Path(folder)).items()
            }
            rows += [time_kernel(kernel, libraries) for kernel in kernels]
    for row in rows:
        own = [row["ways"][f"mavcg {core}"]["same_bits_as_generic"] for core in cores]
        if not all(own):
            sys.exit(f"bench.versions: {row['kernel']}: the versions differ in their results; that is a fault of mavcg")
    print(write("versions", facts("measured", "bench.versions") | {"rounds": ROUNDS, "cores": cores, "rows": rows}))


if __name__ == "__main__":
    main()
