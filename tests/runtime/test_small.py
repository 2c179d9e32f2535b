"""The small selector: the same answers from fewer sources, and a line where a setting is set that it does not have."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.hardware.core import Core, Midr
from mavcg.objects.inspection import loaded_bytes
from mavcg.profiles.load import load_cores
from mavcg.runtime.amalgamation import SOURCES
from mavcg.runtime.build import linked_selector, runtime_object
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.shared import build_shared_runtime
from mavcg.toolchain.target import host_target, parse_target
from tests.machine import QEMU, needs_qemu, needs_two_cpus
from tests.runtime.select_runs import BOARDS, NO_RSEQ, lines

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

SMALL = ("small",)
ARM_FILES = ["-DMAVCG_ARM_SOURCES=1", "-DMAVCG_X86_SOURCES=0"]
LITTLE = Core("little", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),))
BIG = Core("big", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),))
BOTH = CoreSet((LITTLE, BIG), small=True)
MESSAGE = "mavcg: MAVCG_CPU_MAP and MAVCG_TRACE need LD_PRELOAD=libmavcg_rt.so (mavcg runtime)"
FEW = {"aarch64-linux-gnu.2.17": ("cortex-a55", "cortex-a75"), "x86_64-linux-gnu.2.17": ("znver3", "znver4")}


def block(cpu: int, part: str, variant: int = 1) -> str:
    numbers = f"CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x{variant:x}\nCPU part\t: {part}\n"
    return f"processor\t: {cpu}\nBogoMIPS\t: 52.00\n{numbers}CPU revision\t: 0\n\n"


@pytest.mark.parametrize("target", FEW)
def test_few_cores_take_less_than_3_kb(target: str, tmp_path: Path) -> None:
    """In a library with a selector of its own; in an object, where the set's table calls the code, a little more."""
    known = load_cores()
    cores = tuple(known[name] for name in FEW[target])
    needs = {core.name: ("lse",) for core in cores if core.arch == "aarch64"}
    core_set = CoreSet(cores, small=True).with_needs(needs)
    own = runtime_object(core_set, known, parse_target(target), tmp_path)
    linked = runtime_object(core_set, known, parse_target(target), tmp_path / "linked", "linked_set")
    code = linked_selector(parse_target(target), tmp_path, small=True)

    assert 1000 < loaded_bytes(own) < 3072
    assert 1000 < loaded_bytes(linked) + loaded_bytes(code) < 3300


def test_a_small_set_has_a_table_of_its_own() -> None:
    """A link may hold objects with either selector: a table is filled by one of them."""
    assert BOTH.tag != replace(BOTH, small=False).tag
    assert BOTH.with_needs({"big": ("lse",)}).small


@needs_two_cpus
@pytest.mark.parametrize("environment", [{}, NO_RSEQ], ids=["rseq", "getcpu"])
def test_each_cpu_runs_its_version_by_cpuinfo(
    build_whole: Build, run: Run, board: Build, environment: dict[str, str]
) -> None:
    root = board("0-1", None, block(0, "0xd05") + block(1, "0xd0a"))
    program = build_whole("which.c", BOTH, flags=[*ARM_FILES, f'-DMAVCG_ROOT="{root}"'], runtime=SMALL)
    seen = lines(run(program, "0", "1", "0", **environment))

    assert (seen["cpu0"], seen["cpu1"]) == ("2", "3") and seen["early"] in "23"


@needs_two_cpus
def test_a_cpu_that_appears_later(build_whole: Build, run: Run, board: Build) -> None:
    """CPU 1 is off when the program starts: the kernel lists it later, and its first use finds it."""
    root = board("0-1", None, block(0, "0xd05"))
    later = root / "later"
    later.write_text(block(0, "0xd05") + block(1, "0xd0a"))
    program = build_whole("hotplug.c", BOTH, flags=[*ARM_FILES, f'-DMAVCG_ROOT="{root}"'], runtime=SMALL)

    assert run(program, later, root / "proc/cpuinfo").stdout.splitlines() == [
        "cpu0 2",
        "cpu1 in the table: 0",
        "cpu1 3",
        "cpu1 in the table: 3",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "processor\t: 0\nprocessor\t: 1\n" + block(2, "0xd05").split("\n", 2)[2],  # Linux 3.10: one part for all
        block(0, "0xfff"),
        block(0, "0xd05", variant=0x10),
        block(0, "nothing"),
    ],
)
def test_what_cpuinfo_does_not_say_is_generic(build_whole: Build, run: Run, board: Build, text: str) -> None:
    root = board("0-1", None, text)
    program = build_whole("which.c", BOTH, flags=[*ARM_FILES, f'-DMAVCG_ROOT="{root}"'], runtime=SMALL)

    assert lines(run(program, "0"))["cpu0"] == "1"


@needs_two_cpus
def test_cpus_that_are_all_alike_need_no_getcpu(build_whole: Build, run: Run, board: Build) -> None:
    flags = [*ARM_FILES, "-Dsched_getcpu=no_such_function"]
    cases = [("0xd05", "0-1", "2"), ("0xd0a", "0-1", "1"), ("0xd05", "0-2", "1")]  # alike; different; one is off
    for part, present, version in cases:
        root = board(present, None, block(0, "0xd05") + block(1, part))
        program = build_whole("sandbox.c", BOTH, flags=[*flags, f'-DMAVCG_ROOT="{root}"'], runtime=SMALL)

        assert lines(run(program, "0", DENY_GETCPU="1", **NO_RSEQ))["cpu0"] == f"{version} errno 1234"


@needs_two_cpus
@pytest.mark.skipif(host_target().arch != "x86_64", reason="stands for a processor by the tests' CPUID")
@pytest.mark.parametrize("kind", BOARDS)
def test_a_thread_that_is_moved_while_a_cpu_says_what_it_is(
    build_whole: Build, run: Run, board: Build, kind: str
) -> None:
    macros, *cores = BOARDS[kind]
    core_set = CoreSet((cores[0], cores[1]), small=True)
    flags = [f'-DMAVCG_ROOT="{board("0-1")}"', *macros]
    program = build_whole("moved.c", core_set, flags=flags, runtime=SMALL)
    rows = [line.split() for line in run(program, *map(str, range(13)), "1000").stdout.splitlines()]

    assert [row[1] in "23" for row in rows] == [True] * 13 + [False]
    assert [row[2:] for row in rows] == [["2", "3"]] * 14


@needs_two_cpus
@pytest.mark.skipif(host_target().arch != "x86_64", reason="needs an x86 processor")
@pytest.mark.parametrize("environment", [{}, NO_RSEQ], ids=["rseq", "getcpu"])
def test_an_intel_hybrid_is_told_by_its_registers(build_whole: Build, run: Run, environment: dict[str, str]) -> None:
    """At each CPU's first use, also in a sandbox without files: the lists in sysfs are not read."""
    core_set = CoreSet((BOARDS["x86"][1], BOARDS["x86"][2]), small=True)
    program = build_whole("hybrid.c", core_set, flags=["-DMAVCG_CPUID=alder_lake_cpuid"], runtime=SMALL)

    assert run(program, **environment).stdout.split() == "table0 0 cpu0 2 table1 0 cpu1 3".split()


def test_a_setting_that_is_not_there_is_told_in_one_line(build: Build, run: Run, two_cores: CoreSet) -> None:
    program = build("which.c", replace(two_cores, small=True))

    assert lines(run(program, MAVCG_CPU_MAP="all=a"))["main"] == "1"
    for environment in ({"MAVCG_TRACE": "1"}, {"MAVCG_CPU_MAP": "0-1=a"}, {"MAVCG_TRACE": "cpus"}):
        assert run(program, **environment).stderr.splitlines() == [MESSAGE]
    for silent in ({}, {"MAVCG_TRACE": "0"}, {"MAVCG_TRACE": ""}, {"MAVCG_CPU_MAP": ""}, {"MAVCG_SPIN_US": "1"}):
        assert run(program, **silent).stderr == ""


def test_the_settings_of_a_loaded_libmavcg_rt(
    build: Build, build_whole: Build, run: Run, two_cores: CoreSet, tmp_path: Path
) -> None:
    """It serves the small selector, also where calls came before it was bound."""
    small = replace(two_cores, small=True)
    preload = {"LD_PRELOAD": str(build_shared_runtime(host_target(), tmp_path))}
    which = build("which.c", small)

    assert lines(run(which, MAVCG_CPU_MAP="all=b", **preload))["main"] == "3"
    assert lines(run(which, **preload)) == lines(run(which))
    traced = run(which, MAVCG_TRACE="cpus", MAVCG_CPU_MAP="0=a", **preload)
    assert traced.stderr.splitlines()[0] == "mavcg: cpu 0: a (MAVCG_CPU_MAP)"
    early = build_whole("early.c", small, flags=["-fPIE", "-pie"], runtime=SMALL)
    assert run(early, MAVCG_CPU_MAP="all=a", **preload).stdout.splitlines()[2] == "main 2"


def test_threads_and_calls_before_main(build: Build, build_whole: Build, run: Run, two_cores: CoreSet) -> None:
    small = replace(two_cores, small=True)

    assert run(build("threads.c", small)).stdout == "version 1: 80000\n"
    early = run(build_whole("early.c", small, flags=["-fPIE", "-pie"], runtime=SMALL)).stdout
    assert early.splitlines()[:3] == ["resolver 1", "preinit 1", "main 1"]


@needs_qemu
def test_the_register_and_the_kernels_words_decide(build: Build) -> None:
    """A machine that hides atomics, or whose /proc/cpuinfo is its host's."""
    target = parse_target("aarch64-linux-musl")
    core_set = BOTH.with_needs({"little": ("lse",)})
    program = build("which.c", core_set, {}, target, ["-static"])

    def version(cpu: str) -> dict[str, str]:
        done = subprocess.run([str(QEMU), "-cpu", cpu, str(program), "0"], env={}, capture_output=True, text=True)
        return dict(line.split(" ", 1) for line in done.stdout.splitlines())

    assert version("max,midr=0x412fd050")["cpu0"] == "2"
    assert version("max,midr=0x413fd0a1")["cpu0"] == version("max,midr=0x413fd0a1")["early"] == "3"
    assert version("cortex-a53,midr=0x412fd050")["cpu0"] == "1"
    assert version("cortex-a53,midr=0x413fd0a1")["cpu0"] == "3"
    assert version("max,midr=0x531f0030")["cpu0"] == "1"


def test_words_are_recognised_by_their_hashes() -> None:
    """FNV-1a of the words beside the numbers, without blanks."""

    def fnv1a(word: str) -> int:
        value = 2166136261
        for byte in word.replace(" ", "").encode():
            value = (value ^ byte) * 16777619 & 0xFFFFFFFF
        return value

    text = (SOURCES / "cpuinfo.c").read_text() + (SOURCES / "settings.c").read_text()
    found = re.findall(r"(0x[0-9a-f]{8})u?\b[^\n]*/\* ([\w ]+?) +\*/", text)

    assert len(found) == 12
    assert {word: int(number, 16) for number, word in found} == {word: fnv1a(word) for _, word in found}
