"""The selector as a program meets it: before main, per CPU, without rseq, in sandboxes, threads and libraries."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.hardware.core import Core, Midr
from mavcg.profiles.load import load_cores
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import Target, host_target
from tests.machine import needs_two_cpus
from tests.runtime.select_runs import ALDER_LAKE, BOARDS, NO_RSEQ, Done, lines

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

MAP = "0=a,1=b"


@needs_two_cpus
@pytest.mark.parametrize("environment", [{}, NO_RSEQ], ids=["rseq", "getcpu"])
def test_each_cpu_runs_its_version(build: Build, run: Run, two_cores: CoreSet, environment: dict[str, str]) -> None:
    seen = lines(run(build("which.c", two_cores), "0", "1", "0", MAVCG_CPU_MAP=MAP, **environment))

    assert seen["cpu0"] == "2" and seen["cpu1"] == "3"
    assert seen["early"] in "23" and seen["main"] in "23"  # also before main: whichever CPU that was


def test_switching_rseq_off_is_noticed(build: Build, run: Run, two_cores: CoreSet) -> None:
    program = build("which.c", two_cores)
    if lines(run(program))["rseq"] == "off":
        pytest.skip("this libc does not use rseq (glibc 2.35 and later does)")

    assert lines(run(program, **NO_RSEQ))["rseq"] == "off"


def test_unknown_cores_run_the_generic_version(build: Build, run: Run, two_cores: CoreSet) -> None:
    assert set(lines(run(build("which.c", two_cores), "0")).values()) - {"on", "off"} == {"1"}


@needs_two_cpus
def test_a_cpu_that_the_map_leaves_out_is_generic(build: Build, run: Run, two_cores: CoreSet) -> None:
    seen = lines(run(build("which.c", two_cores), "0", "1", MAVCG_CPU_MAP="1=b"))

    assert (seen["cpu0"], seen["cpu1"]) == ("1", "3")


@needs_two_cpus
@pytest.mark.parametrize("bad", ["1=c", "0=a,1=b,", "=a", "0", "0=a;1=b", "9999=a", "3-1=a", "x=a", "0=", "all"])
def test_a_bad_map_is_told_and_not_used(build: Build, run: Run, two_cores: CoreSet, bad: str) -> None:
    done = run(build("which.c", two_cores), "0", "1", MAVCG_CPU_MAP=bad)

    assert lines(done)["cpu0"] == lines(done)["cpu1"] == "1"
    (complaint,) = done.stderr.splitlines()
    assert complaint.startswith("mavcg: MAVCG_CPU_MAP: '") and "the whole map is ignored" in complaint
    assert complaint.endswith("cores: generic a b")


@needs_two_cpus
@pytest.mark.parametrize("environment", [{}, NO_RSEQ], ids=["rseq", "getcpu"])
def test_a_sandbox_without_getcpu_and_files(
    build_whole: Build, run: Run, two_cores: CoreSet, environment: dict[str, str]
) -> None:
    # By gcc: .preinit_array is its own business there, and the C library is the machine's.
    program = build_whole("sandbox.c", two_cores)
    seen = lines(run(program, "0", "1", MAVCG_CPU_MAP=MAP, DENY_GETCPU="1", DENY_FILES="1", **environment))
    # rseq needs no call; on x86 the C library finds the CPU without one, elsewhere only the generic version is left.
    versions = (seen["cpu0"].split()[0], seen["cpu1"].split()[0])
    assert versions in [("2", "3"), ("1", "1")] and (environment or versions == ("2", "3"))
    assert all(line.endswith("errno 1234") for line in seen.values())


def test_a_denied_getcpu_leaves_the_generic_version(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    flags = ["-Dsched_getcpu=no_such_function"]  # so that only the system call is left
    seen = lines(
        run(build_whole("sandbox.c", two_cores, flags=flags), "0", MAVCG_CPU_MAP="0=a", DENY_GETCPU="1", **NO_RSEQ)
    )

    assert seen["cpu0"] == "1 errno 1234"


def test_getcpu_by_system_call(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    flags = ["-Dsched_getcpu=no_such_function"]
    seen = lines(run(build_whole("sandbox.c", two_cores, flags=flags), "0", MAVCG_CPU_MAP="0=a", **NO_RSEQ))

    assert seen["cpu0"] == "2 errno 1234"


def test_one_core_type_asks_for_no_cpu(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    """Where all CPUs are alike the answer needs no getcpu: with it denied, a is still chosen."""
    program = build_whole("sandbox.c", two_cores, flags=["-Dsched_getcpu=no_such_function"])

    assert lines(run(program, "0", MAVCG_CPU_MAP="all=a", DENY_GETCPU="1", **NO_RSEQ))["cpu0"] == "2 errno 1234"


def test_after_start_no_file_is_opened(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    """A program that locks itself in once it runs is not killed by a dispatch."""
    assert lines(run(build_whole("sandbox.c", two_cores), "0", KILL_FILES="1"))["cpu0"].startswith("1 ")


def test_four_threads_fill_the_table_at_once(build: Build, run: Run, two_cores: CoreSet) -> None:
    seen = run(build("threads.c", two_cores), MAVCG_CPU_MAP=MAP).stdout

    counts = {int(line.split()[1].rstrip(":")): int(line.split()[2]) for line in seen.splitlines()}
    assert sum(counts.values()) == 4 * 20000 and set(counts) <= {2, 3}


def migrated(done: Done) -> dict[str, str]:
    words = done.stdout.split()
    return dict(zip(words[::2], words[1::2], strict=True))


@needs_two_cpus
@pytest.mark.parametrize("environment", [{}, pytest.param(NO_RSEQ, marks=pytest.mark.long)], ids=["rseq", "getcpu"])
@pytest.mark.parametrize("times", [1_000, *(pytest.param(n, marks=pytest.mark.long) for n in (2_000, 10_000))])
def test_thousands_of_migrations(
    build: Build, run: Run, two_cores: CoreSet, environment: dict[str, str], times: int
) -> None:
    counts = migrated(run(build("migrate.c", two_cores), str(times), MAVCG_CPU_MAP=MAP, **environment))

    each = str(times * 3 // 2)
    assert counts == {"generic": "0", "a": each, "b": each, "wrong": "0", "misplaced": "0", "workers": "worked"}


@pytest.mark.long
@needs_two_cpus
def test_migrations_under_thread_sanitizer(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    program = build_whole("migrate.c", two_cores, flags=["-fsanitize=thread", "-O1"])
    done = run(program, "2000", MAVCG_CPU_MAP=MAP, TSAN_OPTIONS="halt_on_error=1")

    assert "WARNING: ThreadSanitizer" not in done.stderr
    assert migrated(done) | {"a": "3000", "b": "3000", "wrong": "0", "misplaced": "0"} == migrated(done)


@pytest.mark.long
def test_first_use_under_thread_sanitizer(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    program = build_whole("threads.c", two_cores, flags=["-fsanitize=thread", "-O1"])
    for trace in ({}, {"MAVCG_TRACE": "1"}):
        done = run(program, MAVCG_CPU_MAP=MAP, TSAN_OPTIONS="halt_on_error=1", **trace)

        assert "WARNING: ThreadSanitizer" not in done.stderr and "version 1:" not in done.stdout


@pytest.mark.long
@needs_two_cpus
def test_migrations_under_helgrind(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    program = build_whole("migrate.c", two_cores)
    helgrind = ["valgrind", "--tool=helgrind", "--fair-sched=yes", "-q", "--error-exitcode=9"]
    done = run(*helgrind, program, "200", MAVCG_CPU_MAP=MAP)

    assert done.stderr == ""
    assert migrated(done) | {"a": "300", "b": "300", "wrong": "0", "misplaced": "0"} == migrated(done)


def test_threads_older_than_the_library(build: Build, run: Run, two_cores: CoreSet) -> None:
    library = build("loaded.c", two_cores, flags=["-shared", "-fPIC"])
    done = run(build("late.c", two_cores), library, MAVCG_CPU_MAP="all=b", MAVCG_TRACE="1")

    assert done.stdout.splitlines() == ["old thread 3", "main 3", "rseq off", "closed", "again 3"]
    assert done.stderr.splitlines() == ["mavcg: which b 2", "mavcg: which b 1"]  # at dlclose, and at the end


@needs_two_cpus
@pytest.mark.parametrize("environment", [{}, NO_RSEQ], ids=["rseq", "getcpu"])
def test_a_cpu_that_appears_later(build_whole: Build, run: Run, board: Build, environment: dict[str, str]) -> None:
    """CPU 1 is off when the program starts: its file comes later, and its first use finds it."""
    root = board("0-1", {0: 0x411FD050, 1: 0x412FD0A1})
    file = root / "sys/devices/system/cpu/cpu1/regs/identification/midr_el1"
    waiting = root / "waiting"
    file.rename(waiting)
    little, big = (
        Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),)),
        Core("big", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),)),
    )
    flags = [f'-DMAVCG_ROOT="{root}"', "-DMAVCG_ARM_SOURCES=1", "-DMAVCG_X86_SOURCES=0"]
    program = build_whole("hotplug.c", CoreSet((little, big)), flags=flags)

    assert run(program, waiting, file, **environment).stdout.splitlines() == [
        "cpu0 2",
        "cpu1 in the table: 0",
        "cpu1 3",
        "cpu1 in the table: 3",
    ]


def test_no_sysfs_and_no_proc(build_whole: Build, run: Run, tmp_path: Path) -> None:
    core = Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),))
    flags = [f'-DMAVCG_ROOT="{tmp_path}"', "-DMAVCG_ARM_SOURCES=1", "-DMAVCG_X86_SOURCES=0"]
    done = run(build_whole("which.c", CoreSet((core,)), flags=flags), "0")

    assert lines(done)["cpu0"] == "1" and done.stderr == ""


@pytest.mark.long
def test_calls_before_anything_is_set_up(build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    """Where libc has no environment yet, the kernel's is read; what is found then holds in main, with rseq."""
    seen = lines(run(build_whole("early.c", two_cores, flags=["-fPIE", "-pie"]), MAVCG_CPU_MAP="all=b"))
    usual = lines(run(build_whole("which.c", two_cores)))

    assert seen == {"resolver": "3", "preinit": "3", "main": "3", "rseq": usual["rseq"]}


@pytest.mark.long
@pytest.mark.parametrize("text", ["all=b", "all=a," + "0=a," * 200 + "0=b", ""])
def test_without_libc_s_environment(build_whole: Build, run: Run, two_cores: CoreSet, text: str) -> None:
    """An Android library that does not name libc.so among its needs finds no environ."""
    flags = ["-Denviron=no_such_list", "-D__environ=no_such_list"]
    done = run(build_whole("which.c", two_cores, flags=flags), MAVCG_CPU_MAP=text, MAVCG_TRACE="1")

    runs = {"all=b": "mavcg: which b 2"}.get(text, "mavcg: which generic 2")
    assert done.stderr.splitlines()[-1] == runs
    assert ("MAVCG_CPU_MAP: '?'" in done.stderr) == (len(text) > 500)


@pytest.mark.long
def test_a_library_for_an_old_glibc_finds_rseq_in_a_new_one(build: Build, run: Run, two_cores: CoreSet) -> None:
    """glibc 2.17 knows no rseq: the reference is weak and without a version, and is bound where the program runs."""
    if host_target().system != "linux-gnu":
        pytest.skip("needs glibc")
    if lines(run(build("which.c", two_cores)))["rseq"] == "off":
        pytest.skip("this libc does not use rseq (glibc 2.35 and later does)")
    old = Target(host_target().arch, "linux-gnu", "2.17")
    library = build("loaded.c", two_cores, target=old, flags=["-shared", "-fPIC"])

    assert "rseq on" in run(build("late.c", two_cores), library, MAVCG_CPU_MAP="all=b").stdout


@needs_two_cpus
def test_an_arm_kernel_that_prints_one_part(build_whole: Build, run: Run, board: Build) -> None:
    """Linux 3.10 prints the part of the CPU that reads the file: so each CPU is looked at when it runs."""
    text = "processor\t: 0\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd05\n"
    flags = [f'-DMAVCG_ROOT="{board("0-1", None, text)}"', "-DMAVCG_ARM_SOURCES=1", "-DMAVCG_X86_SOURCES=0"]
    little = Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),))
    done = run(build_whole("which.c", CoreSet((little,)), flags=flags), "1", MAVCG_TRACE="cpus")

    assert "mavcg: cpu 1: little (/proc/cpuinfo 0x411fd050)" in done.stderr.splitlines()
    assert lines(done)["cpu1"] == "2"


@needs_two_cpus
@pytest.mark.skipif(host_target().arch != "x86_64", reason="needs an x86 processor")
@pytest.mark.parametrize(("lists", "at_load"), [(("0", "1"), ["2", "3"]), (None, ["0", "0"])], ids=["lists", "cpuid"])
def test_an_intel_hybrid(
    build_whole: Build, run: Run, board: Build, lists: tuple[str, str] | None, at_load: list[str]
) -> None:
    """By the lists at load; without sysfs by CPUID leaf 1AH, at each CPU's first use."""
    root = board("0-1")
    for kind, cpus in zip(("core", "atom"), lists or (), strict=False):
        (root / f"sys/devices/cpu_{kind}").mkdir()
        (root / f"sys/devices/cpu_{kind}/cpus").write_text(f"{cpus}\n")
    cores = [
        Core(name, "x86_64", "out", "x86-64", "", x86_kind=kind, x86_models=ALDER_LAKE)
        for name, kind in {"p": "core", "e": "atom"}.items()
    ]
    flags = [f'-DMAVCG_ROOT="{root}"', "-DMAVCG_CPUID=alder_lake_cpuid"]
    seen = lines(run(build_whole("hybrid.c", CoreSet(tuple(cores)), flags=flags)))

    assert [seen["table0"], seen["table1"]] == at_load
    assert [seen["cpu0"], seen["cpu1"]] == ["2", "3"]


@pytest.mark.skipif(host_target().arch != "x86_64", reason="needs an x86 processor")
def test_a_hypervisor_that_shows_an_older_model(build_whole: Build, run: Run) -> None:
    """A processor with AMX is a Sapphire Rapids at least, whatever its model says, if a version is left for that."""
    cores = load_cores("x86_64")
    names = ["rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids"]
    core_set = CoreSet(tuple(cores[name] for name in names))
    program = build_whole("masked.c", core_set, flags=["-DMAVCG_CPUID=masked_cpuid"])
    tiles = 1 << 24
    shown = {
        "a7 16 0": "rocketlake",
        f"a7 16 {tiles:x}": "sapphirerapids",
        f"a7 6 {tiles:x}": "rocketlake",  # no leaf 7
        f"6a 20 {tiles:x}": "sapphirerapids",  # an Ice Lake server
        "8f 20 0": "sapphirerapids",  # AMX is hidden
        f"cf 20 {tiles:x}": "emeraldrapids",
        f"ad 20 {tiles:x}": "graniterapids",
        "1 d 0": "generic",
    }
    ran = {words: lines(run(program, SHOWN=words))["version"] for words in shown}

    assert ran == {words: str(core_set.id_of(name)) for words, name in shown.items()}
    alone = build_whole("masked.c", CoreSet((cores["rocketlake"],)), flags=["-DMAVCG_CPUID=masked_cpuid"])
    assert lines(run(alone, SHOWN=f"a7 16 {tiles:x}"))["version"] == "2", "the shown model, as nothing else is left"


@pytest.mark.sample(2)
@needs_two_cpus
@pytest.mark.skipif(host_target().arch != "x86_64", reason="stands for a processor by the tests' CPUID")
@pytest.mark.parametrize("environment", [{}, NO_RSEQ], ids=["rseq", "getcpu"])
@pytest.mark.parametrize("kind", BOARDS)
def test_a_thread_that_is_moved_while_a_cpu_says_what_it_is(
    build_whole: Build, run: Run, board: Build, kind: str, environment: dict[str, str]
) -> None:
    """It gets the version of a CPU that it was on. No CPU counts as unknown because the thread came back to it."""
    macros, *cores = BOARDS[kind]
    program = build_whole("moved.c", CoreSet((cores[0], cores[1])), flags=[f'-DMAVCG_ROOT="{board("0-1")}"', *macros])
    often = 1000  # more often than anyone looks
    rows = [line.split() for line in run(program, *map(str, range(13)), str(often), **environment).stdout.splitlines()]

    assert [row[0] for row in rows] == [*map(str, range(13)), str(often)]
    assert [row[1] for row in rows if row[1] not in "23"] == ["1"]
    assert rows[-1][1] == "1", "a thread that is moved all the time runs the generic version"
    assert [row[2:] for row in rows] == [["2", "3"]] * 14
