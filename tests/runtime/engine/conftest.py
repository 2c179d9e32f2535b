"""A small model whose kernels are written in C, so that the engine is tested by itself: kernels.c, driver.c."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.graph import TensorType
from mavcg.hardware.core import Core
from mavcg.objects.library import link_shared
from mavcg.runtime.amalgamation import SOURCES, write_unit
from mavcg.runtime.companions import write_companions
from mavcg.runtime.coreset import CoreSet, table_text
from mavcg.runtime.kernel_versions import versions_of
from mavcg.runtime.model_build import build_model_objects, constants_object
from mavcg.runtime.model_header import constants_symbol, header_text
from mavcg.runtime.model_text import EngineOptions, tables_text
from mavcg.runtime.needs import compiler_needs
from mavcg.specs.model_program import OperandAddress, PagedWeights, Program, ProgramStep, ProgramTensor, ThreadPlan
from mavcg.toolchain.target import Target, host_target
from mavcg.toolchain.zig import run_tool, run_zig

HERE = Path(__file__).parent
LENGTH, LAYERS, ROWS, NAPS, SCRATCH = 1000, 12, 96, 3, 4096  # as in kernels.c and driver.c
WEIGHTS = (np.arange(LENGTH) % 17 * 0.25).astype(np.float32)
ARENA_HALF = 4096
KERNELS = ("chain_1", "who_1", "modes_1", "intact_1", "nap_1", "spans_1")

Array = NDArray[np.float32]
Build = Callable[..., Path]


def exercise(name: str = "exercise", core_set: CoreSet | None = None, plans: tuple[ThreadPlan, ...] = ()) -> Program:
    """Layers that each need all of the one before; then rows that say who made them; then naps.

    The cores are as unlike as can be in some layers, somewhat unlike in others, and alike in the rest.
    """
    names = (core_set or TWO_CORES).names
    first, last = names[0], names[-1]
    speeds = (((first, 1), (last, 65535)), ((last, 256), (first, 700)), ())
    x, ms = TensorType("f32", (1, LENGTH)), TensorType("i32", (1,))
    halves = (OperandAddress("arena", 0), OperandAddress("arena", ARENA_HALF))
    chain = [OperandAddress("input", 0, 0), *(halves[i % 2] for i in range(LAYERS - 1)), OperandAddress("output", 0, 0)]
    steps = [
        ProgramStep(
            f"layer {i}",
            "chain",
            "chain_1",
            (chain[i], OperandAddress("constants", 64), chain[i + 1]),
            LENGTH,
            64,
            2000,
            speeds[i % len(speeds)],
            128 if i % 2 else 0,
        )
        for i in range(LAYERS)
    ]
    for output, kernel, grain in ((1, "who_1", 1), (2, "modes_1", 1), (3, "intact_1", 5)):
        steps.append(ProgramStep(kernel, kernel, kernel, (OperandAddress("output", 0, output),), ROWS, grain, ROWS))
    for nap in range(NAPS):
        places = (OperandAddress("input", 0, 1), OperandAddress("output", 4 * nap, 4))
        steps.append(ProgramStep(f"nap {nap}", "nap", "nap_1", places, 1, 1 << 62, 1))
    rows = {"who": ("i32", ROWS), "modes": ("u32", ROWS), "intact": ("u8", ROWS), "naps": ("i32", NAPS)}
    outputs = {"y": x} | {name: TensorType(dtype, (length,)) for name, (dtype, length) in rows.items()}
    return Program(
        name,
        (ProgramTensor('x "quoted"', x), ProgramTensor("ms", ms)),
        tuple(ProgramTensor(output, tensor) for output, tensor in outputs.items()),
        tuple(steps),
        2 * ARENA_HALF,
        SCRATCH,
        len(CONSTANTS),
        2 * ARENA_HALF,
        plans,
    )


CONSTANTS = bytes(64) + WEIGHTS.tobytes()


def expected(x: Array) -> Array:
    """y of exercise: halving is exact, so that each layer rounds once, in the sum."""
    for _ in range(LAYERS):
        x = x[..., ::-1] * np.float32(0.5) + WEIGHTS
    return x


def plain_core(name: str) -> Core:
    """A core of the host's architecture that needs nothing but its baseline and that nothing recognises."""
    arch = host_target().arch
    return Core(name, arch, "out", "x86-64" if arch == "x86_64" else "generic", "made up for a test")


TWO_CORES = CoreSet((plain_core("a"), plain_core("b")))


KERNEL_OBJECTS: dict[object, Path] = {}


def kernel_objects(
    core_set: CoreSet, target: Target, folder: Path, flags: Mapping[str, str] | None = None
) -> list[Path]:
    """kernels.c once per version, in `folder` or where it was compiled before. flags: by label, one more."""
    objects = []
    for number, label in enumerate(("generic", *core_set.names), 1):
        out = folder / f"kernels-{label}.o"
        more = [(flags or {})[label]] if label in (flags or {}) else []
        key = (number, label, target, *more)
        if key in KERNEL_OBJECTS:
            objects.append(KERNEL_OBJECTS[key])
            continue
        arguments = ["-target", target.zig_name, "-O2", "-fPIC", "-ffp-contract=off", "-fno-sanitize=all", *more]
        arguments += [f"-DVERSION={number}", f'-DLABEL="{label}"', "-c", str(HERE / "kernels.c"), "-o", str(out)]
        run_zig("cc", arguments, f"compiling kernels for {label}")
        KERNEL_OBJECTS[key] = out
        objects.append(out)
    return objects


@pytest.fixture(scope="session")
def build_driver(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build_driver(core_set, ...): driver.c with the objects that a model library is linked from."""
    made: dict[object, Path] = {}

    def build_driver(
        core_set: CoreSet = TWO_CORES,
        all_cores: Mapping[str, Core] | None = None,
        target: Target | None = None,
        kernel_flags: Mapping[str, str] | None = None,
    ) -> Path:
        target = target or host_target()
        key = (core_set.tag, target, tuple((kernel_flags or {}).items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("driver")
            kernels, program = kernel_objects(core_set, target, folder, kernel_flags), exercise(core_set=core_set)
            objects = build_model_objects(program, CONSTANTS, kernels, core_set, all_cores or {}, target, folder)
            write_companions(program, folder / "libexercise.so")
            arguments = ["-target", target.zig_name, *(["-static"] if "musl" in target.system else [])]
            arguments += ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-pthread", "-ffp-contract=off", "-fno-sanitize=all"]
            arguments += [f"-I{folder}", str(HERE / "driver.c"), *map(str, objects), "-o", str(folder / "driver")]
            run_zig("cc", arguments, "building the driver")
            made[key] = folder / "driver"
        return made[key]

    return build_driver


@pytest.fixture(scope="session")
def build_checked(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build_checked(flags): everything by gcc, for sanitizers and for faults put in by macros. program, driver: others
    than the exercise and its driver. pages: of constants, which are longer then."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    made: dict[object, Path] = {}
    parts: dict[object, Path] = {}  # objects that are the same for every program

    def build_checked(
        flags: Sequence[str] = (),
        engine_flags: Sequence[str] = (),
        plans: tuple[ThreadPlan, ...] = (),
        program: Program | None = None,
        driver: Path = HERE / "driver.c",
        pages: tuple[PagedWeights, ...] = (),
    ) -> Path:
        program = program or exercise(plans=plans)
        key = (tuple(flags), tuple(engine_flags), program, driver, pages)
        if key in made:
            return made[key]
        folder = tmp_path_factory.mktemp("checked")
        symbols = {f"{kernel}.{label}" for kernel in KERNELS for label in ("generic", "a", "b")}
        versions = {kernel: versions_of(kernel, dict.fromkeys(symbols, frozenset()), TWO_CORES) for kernel in KERNELS}
        needs = compiler_needs("x86_64_v3") if host_target().arch == "x86_64" else (0,) * 7
        (folder / "mavcg_core_table.h").write_text(table_text(TWO_CORES, {}))
        (folder / "mavcg_model_tables.h").write_text(
            tables_text(program, TWO_CORES, versions, needs, EngineOptions(pages=pages))
        )
        (folder / f"{program.name}.h").write_text(header_text(program))
        content = [CONSTANTS, bytes(max((page.end for page in pages), default=0))]
        constants = constants_object(content, constants_symbol(program), host_target(), folder / "constants.o")
        common = [
            "gcc",
            "-std=gnu11",
            "-D_GNU_SOURCE",
            "-O1",
            "-g",
            "-pthread",
            "-ffp-contract=off",
            "-Wall",
            "-Wextra",
        ]
        common += [*flags, f"-I{folder}", f"-I{SOURCES}"]
        jobs = [
            (write_unit("engine", folder), "engine.o", ["-Werror", *engine_flags]),
            (write_unit("runtime", folder), "runtime.o", []),
            (driver, "driver.o", []),
        ]
        for number, label in enumerate(("generic", "a", "b"), 1):
            jobs.append((HERE / "kernels.c", f"{label}.o", [f"-DVERSION={number}", f'-DLABEL="{label}"']))
        objects = []
        for source, name, more in jobs:
            part = (name, str(source) if name == "driver.o" else "", *flags, *more)
            if part not in parts or name == "engine.o":
                run_tool([*common, *more, "-c", str(source), "-o", str(folder / name)], f"compiling {name}")
                parts[part] = folder / name
            objects.append(str(parts[part]))
        run_tool([*common, *objects, str(constants), "-o", str(folder / "driver")], "linking the driver")
        made[key] = folder / "driver"
        return folder / "driver"

    return build_checked


@pytest.fixture(scope="session")
def build_library(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build_library(name): a model library with its companions, for this machine. plans: it chooses its threads by
    them. arena_bytes, scratch_bytes: instead of what it needs."""
    made: dict[object, Path] = {}

    def build_library(
        name: str = "exercise",
        target: Target | None = None,
        plans: tuple[ThreadPlan, ...] = (),
        arena_bytes: int = 2 * ARENA_HALF,
        scratch_bytes: int = SCRATCH,
        core_set: CoreSet = TWO_CORES,
    ) -> Path:
        target = target or host_target()
        key = name, target, plans, arena_bytes, scratch_bytes, core_set.tag
        if key not in made:
            folder = tmp_path_factory.mktemp("library")
            kernels = kernel_objects(core_set, target, folder)
            program = exercise(name, core_set, plans)
            program = replace(program, arena_bytes=arena_bytes, scratch_bytes=scratch_bytes)
            objects = build_model_objects(program, CONSTANTS, kernels, core_set, {}, target, folder / "objects")
            out = folder / f"lib{name}.so"
            link_shared(objects, out, target)
            write_companions(program, out)
            made[key] = out
        return made[key]

    return build_library
