"""The threads of a pipeline by themselves, with kernels in C: cancels, shutdowns, forks, faults, sanitizers."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.graph import TensorType
from mavcg.runtime.amalgamation import SOURCES, write_unit
from mavcg.runtime.application_text import ApplicationProgram, PlacedNetwork, application_header, application_tables
from mavcg.runtime.coreset import table_text
from mavcg.runtime.kernel_versions import versions_of
from mavcg.runtime.model_build import constants_object
from mavcg.runtime.model_header import constants_symbol, network_symbol
from mavcg.runtime.model_text import EngineOptions, tables_text
from mavcg.runtime.needs import compiler_needs
from mavcg.specs.model_program import OperandAddress, Program, ProgramStage, ProgramStep, ProgramTensor, RingBuffer
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_tool
from tests.machine import needs_two_cpus
from tests.runtime.engine.conftest import (
    ARENA_HALF,
    CONSTANTS,
    HERE,
    KERNELS,
    LAYERS,
    LENGTH,
    ROWS,
    SCRATCH,
    TWO_CORES,
)

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]
TSAN = ("-fsanitize=thread",)
ASAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STAGES, INTACT = 3, 4  # as in pipeline_driver.c; a row of `intact` gives the CPU to others once


def staged(cores: Sequence[str] = ()) -> Program:
    """Layers that each need all of the one before, cut in three, with a nap in each stage; a layer of the first stage
    is read by the last. cores: of two stages, the first of which does the work of two."""
    x, ms = TensorType("f32", (1, LENGTH)), TensorType("i32", (1,))
    rings = tuple(
        RingBuffer(at * ARENA_HALF, ARENA_HALF, copies)
        for at, copies in ((2 * STAGES, 2), (2 * STAGES + 2, 2), (2 * STAGES + 4, 3))
    )
    side = OperandAddress("arena", rings[2].offset)
    at, steps, stages = OperandAddress("input", 0, 0), list[ProgramStep](), list[ProgramStage]()

    def chain(name: str, source: OperandAddress, target: OperandAddress) -> ProgramStep:
        places = (source, OperandAddress("constants", 64), target)
        return ProgramStep(name, "chain", "chain_1", places, LENGTH, 64, 2000)

    for stage in range(STAGES):
        first, each = len(steps), LAYERS // STAGES
        for number in range(each):
            to = OperandAddress("arena", (2 * stage + number % 2) * ARENA_HALF)
            if number == each - 1:
                last = stage == STAGES - 1
                to = OperandAddress("output", 0, 0) if last else OperandAddress("arena", rings[stage].offset)
            steps.append(chain(f"layer {stage}.{number}", at, to))
            at = to
        naps = (OperandAddress("input", 0, 1), OperandAddress("output", 4 * stage, 4))
        steps.append(ProgramStep(f"nap {stage}", "nap", "nap_1", naps, 1, 1 << 62, 1))
        if stage == 0:
            steps.append(chain("side", OperandAddress("input", 0, 0), side))
        if stage == STAGES - 1:
            steps.append(chain("side out", side, OperandAddress("output", 0, 1)))
            for output, kernel, rows in ((2, "modes_1", ROWS), (3, "intact_1", INTACT)):
                steps.append(ProgramStep(kernel, kernel, kernel, (OperandAddress("output", 0, output),), rows, 1, rows))
        stages.append(ProgramStage(first, len(steps)))
    if cores:
        double = ProgramStage(0, stages[1].end, (cores[0],), 1)
        stages = [double, replace(stages[2], cores=(cores[1],), threads=1)]
    outputs = {"y": x, "side": x, "modes": TensorType("u32", (ROWS,)), "intact": TensorType("u8", (INTACT,))}
    outputs["naps"] = TensorType("i32", (STAGES,))
    arena = rings[2].offset + 3 * ARENA_HALF
    return Program(
        "staged",
        (ProgramTensor("x", x), ProgramTensor("ms", ms)),
        tuple(ProgramTensor(name, tensor) for name, tensor in outputs.items()),
        tuple(steps),
        arena,
        SCRATCH,
        len(CONSTANTS),
        arena,
        stages=tuple(stages),
        rings=rings,
    )


@pytest.fixture(scope="module")
def build_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build_pipeline(flags, library_flags, cores): the driver with engine, application and selector, all by gcc."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    made: dict[object, Path] = {}

    def build_pipeline(
        flags: Sequence[str] = (), library_flags: Sequence[str] = (), cores: tuple[str, ...] = ()
    ) -> Path:
        key, program = (tuple(flags), tuple(library_flags), cores), staged(cores)
        if key in made:
            return made[key]
        folder = tmp_path_factory.mktemp("pipeline")
        used = [kernel for kernel in KERNELS if kernel != "who_1"]
        symbols = {f"{kernel}.{label}" for kernel in used for label in ("generic", "a", "b")}
        versions = {kernel: versions_of(kernel, dict.fromkeys(symbols, frozenset()), TWO_CORES) for kernel in used}
        needs = compiler_needs("x86_64_v3") if host_target().arch == "x86_64" else (0,) * 7
        placed = PlacedNetwork(program, 0, 0, frozenset([0]))
        application = ApplicationProgram("staged_app", (placed,), program.arena_bytes, SCRATCH)
        texts = {
            "mavcg_core_table.h": table_text(TWO_CORES, {}),
            "mavcg_model_tables.h": tables_text(
                program, TWO_CORES, versions, needs, EngineOptions(part=network_symbol("staged"), in_application=True)
            ),
            "mavcg_application_tables.h": application_tables(application),
            "staged_app.h": application_header(application),
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        constants = constants_object([CONSTANTS], constants_symbol(program), host_target(), folder / "constants.o")
        common = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-ffp-contract=off", "-frounding-math"]
        common += ["-Wall", "-Wextra", *flags, f"-I{folder}", f"-I{SOURCES}"]
        jobs = [(write_unit(unit, folder), unit, ["-Werror", *library_flags]) for unit in ("engine", "application")]
        jobs += [(write_unit("runtime", folder), "runtime", []), (HERE / "pipeline_driver.c", "driver", [])]
        for number, label in enumerate(("generic", "a", "b"), 1):
            jobs.append((HERE / "kernels.c", label, [f"-DVERSION={number}", f'-DLABEL="{label}"']))
        objects = [folder / f"{name}.o" for _, name, _ in jobs]
        for (source, name, more), out in zip(jobs, objects, strict=True):
            run_tool([*common, *more, "-c", str(source), "-o", str(out)], f"compiling {name}")
        linked = [*map(str, objects), str(constants)]
        run_tool([*common, *linked, "-lm", "-o", str(folder / "driver")], "linking the driver")
        made[key] = folder / "driver"
        return made[key]

    return build_pipeline


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "what",
    ["frames 1 400", "frames 2 100", "frames 4 50", "cancel 1", "shutdowns 2", "forks 1", "forks 3", "modes"],
)
def test_frames_cancels_shutdowns_and_forks(build_pipeline: Build, run: Run, what: str) -> None:
    assert run(build_pipeline(), *what.split()).stdout == "ok\n"


FAULTS = (
    "-Dposix_memalign=failing_memalign",
    "-Dcalloc=failing_calloc",
    "-Dmmap=failing_mmap",
    "-Dpthread_create=failing_create",
    "-Wno-implicit-function-declaration",
)


@pytest.mark.long
def test_a_system_without_memory_or_threads(build_pipeline: Build, run: Run) -> None:
    """Every allocation and every thread fails once: statuses say so, and nothing is left behind."""
    program = build_pipeline((*ASAN, "-DFAILING"), FAULTS)

    done = run(program, "failures", ASAN_OPTIONS="detect_leaks=1")
    assert done.stdout == "ok\n" and done.stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("what", ["frames 1 300", "frames 3 300", "cancel 2", "shutdowns 1", "shutdowns 3", "forks 2"])
def test_under_address_and_undefined_sanitizers(build_pipeline: Build, run: Run, what: str) -> None:
    done = run(build_pipeline((*ASAN, "-DFAILING"), FAULTS), *what.split(), ASAN_OPTIONS="detect_leaks=1")

    assert done.stdout == "ok\n" and done.stderr == ""


@pytest.mark.long
@pytest.mark.parametrize("what", ["frames 1 400", "frames 4 200", "cancel 1", "cancel 3", "shutdowns 2", "modes"])
def test_under_thread_sanitizer(build_pipeline: Build, run: Run, what: str) -> None:
    """It also sees stages that share a byte of their buffers."""
    done = run(build_pipeline(TSAN), *what.split(), TSAN_OPTIONS="halt_on_error=1")

    assert done.stdout == "ok\n" and "WARNING" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("flags", [(), TSAN], ids=["plain", "thread sanitizer"])
def test_a_thread_that_is_left_behind_is_seen(build_pipeline: Build, run: Run, flags: Sequence[str]) -> None:
    """shutdowns counts threads: one more than the engine ends is refused, also beside the sanitizer's own."""
    leaking = ("-Dpthread_create=leaking_create", "-Wno-implicit-function-declaration")
    program = build_pipeline((*flags, "-DLEAKING"), leaking)

    assert run(program, "leak", "2", "1000000").stdout == "ok\n"
    for number in ("0", "4", "20"):  # beside the first thread, and beside later ones
        done = run(program, "leak", "2", number, check=False)
        assert done.returncode == 3 and "not so: thread_count() == count" in done.stderr, (number, done)
        assert done.stderr.count("thread ") >= 2


@pytest.mark.long
@pytest.mark.parametrize("what", ["forks 1", "forks 3", "cancel 2"])
def test_a_kernel_that_clears_no_pages(build_pipeline: Build, run: Run, what: str) -> None:
    assert run(build_pipeline((), ("-DADVICE_WIPE_ON_FORK=999999",)), *what.split()).stdout == "ok\n"


@pytest.mark.long
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_ten_thousand_frames(build_pipeline: Build, run: Run, threads: str) -> None:
    """Each frame passes through every thread, and waits for the others' turns on a busy machine: it may last long."""
    assert run(build_pipeline(), "frames", threads, "10000", seconds=900).stdout == "ok\n"


@pytest.mark.long
@needs_two_cpus
@pytest.mark.parametrize(
    ("cpus", "first", "second"),
    [("0=a,1=b", "0", "1"), ("0=b,1=a", "1", "0"), ("all=b", "0", "1"), ("0=generic,1=b", "0", "1")],
)
def test_stages_run_on_the_cpus_that_were_predicted(
    build_pipeline: Build, run: Run, cpus: str, first: str, second: str
) -> None:
    """Else on an equal share of those that the process may use; on any where these are fewer than stages."""
    program = build_pipeline(cores=("a", "b"))
    expected = [f"mavcg-stage-0 {first}", f"mavcg-stage-1 {second}", "ok"]
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {0, 1})
        assert sorted(run(program, "places", MAVCG_CPU_MAP=cpus).stdout.splitlines()) == expected
        os.sched_setaffinity(0, {1})
        said = run(program, "places", MAVCG_CPU_MAP=cpus).stdout.splitlines()
        assert sorted(said) == ["mavcg-stage-0 1", "mavcg-stage-1 1", "ok"]
    finally:
        os.sched_setaffinity(0, before)
