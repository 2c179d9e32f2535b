"""The right version under qemu-aarch64, which says by its MIDR_EL1 which core it is; the host's sysfs is not asked."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.hardware.core import Core, Midr
from mavcg.runtime.amalgamation import SOURCES, write_unit
from mavcg.runtime.coreset import CoreSet, table_text
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.machine import QEMU, needs_qemu

Build = Callable[..., Path]

PROGRAMS = Path(__file__).parent / "programs"
pytestmark = needs_qemu

CORES = (
    Core("cortex-a53", "aarch64", "in", "cortex-a53", "", (Midr(0x41, 0xD03), Midr(0x41, 0xD05, 0, 0))),
    Core("cortex-a55", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),)),
    Core("cortex-a75", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),)),
    Core("cortex-a76", "aarch64", "out", "cortex-a76", "", (Midr(0x41, 0xD0B),)),
    Core("exynos-m4", "aarch64", "out", "exynos-m4", "", (Midr(0x53, 0x003),)),
)
M3 = Core("exynos-m3", "aarch64", "out", "exynos-m3", "", (Midr(0x53, 0x002),))
STRANGER = Core(
    "stranger", "aarch64", "out", "generic", "", (Midr(0x70, 0x662),), stand_ins=("cortex-a76", "cortex-a75")
)
ALL = {core.name: core for core in (*CORES, M3, STRANGER)}


def look_at(root: Path, folder: Path) -> Path:
    """which.c with a runtime that takes root for the machine's file system."""
    (folder / "mavcg_core_table.h").write_text(table_text(CoreSet(CORES), ALL))
    target = parse_target("aarch64-linux-musl")
    macros = [f"-DSET={CoreSet(CORES).tag}", f'-DMAVCG_ROOT="{root}"', "-D_GNU_SOURCE"]
    flags = ["-target", target.zig_name, "-static", "-std=gnu11", "-O2", *PLAIN_CODE_FLAGS, *macros]
    sources = [str(PROGRAMS / "which.c"), str(write_unit("runtime", folder))]
    run_zig(
        "cc",
        [*flags, f"-I{folder}", f"-I{SOURCES}", f"-I{PROGRAMS}", *sources, "-o", str(folder / "which")],
        "building",
    )
    return folder / "which"


def version(program: Path, midr: int, *words: str, **environment: str) -> dict[str, str]:
    done = subprocess.run(
        [str(QEMU), "-cpu", f"max,midr={midr:#x}", str(program), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines()) | {"stderr": done.stderr}


@pytest.mark.parametrize(
    ("midr", "core"),
    [
        (0x410FD034, "cortex-a53"),
        (0x410FD050, "cortex-a53"),  # A55 r0
        (0x411FD050, "cortex-a55"),
        (0x412FD050, "cortex-a55"),
        (0x413FD0A1, "cortex-a75"),
        (0x414FD0B1, "cortex-a76"),
        (0x531F0020, "generic"),  # Exynos M3: known, but without a version and without a stand-in
        (0x531F0030, "exynos-m4"),
        (0x701F6622, "cortex-a76"),  # known by a stand-in
        (0x612F0210, "generic"),
    ],
)
def test_each_core_runs_its_version(build: Build, midr: int, core: str) -> None:
    program = build("which.c", CoreSet(CORES), ALL, parse_target("aarch64-linux-musl"), ["-static"])
    seen = version(program, midr, "0")

    expected = str(CoreSet(CORES).id_of(core))
    assert (seen["main"], seen["cpu0"], seen["early"], seen["rseq"]) == (expected, expected, expected, "off")


def test_the_map_wins_there_too(build: Build) -> None:
    program = build("which.c", CoreSet(CORES), ALL, parse_target("aarch64-linux-musl"), ["-static"])

    assert version(program, 0x410FD034, MAVCG_CPU_MAP="all=cortex-a76")["main"] == "5"
    assert version(program, 0x410FD034, MAVCG_CPU_MAP="all=stranger")["main"] == "5"
    assert version(program, 0x410FD034, MAVCG_CPU_MAP="all=exynos-m3")["main"] == "1"


def test_the_table_says_how(build: Build) -> None:
    program = build("which.c", CoreSet(CORES), ALL, parse_target("aarch64-linux-musl"), ["-static"])
    said = version(program, 0x412FD050, "0", MAVCG_TRACE="1,cpus")["stderr"].splitlines()

    assert "mavcg: cpu 0: cortex-a55 (mrs MIDR_EL1 0x412fd050)" in said
    assert "mavcg: which cortex-a55 3" in said


def test_files_of_another_machine_are_not_believed(board: Build, tmp_path: Path) -> None:
    """An Arm host's sysfs under an emulator: it contradicts the CPU, so the CPU is asked."""
    program = look_at(board("0-7", {cpu: 0x414FD0B1 for cpu in range(8)}), tmp_path)

    assert version(program, 0x411FD050, "0")["cpu0"] == str(CoreSet(CORES).id_of("cortex-a55"))


def test_files_that_agree_with_the_cpu_are_believed(board: Build, tmp_path: Path) -> None:
    program = look_at(board("0-7", {cpu: 0x414FD0B1 for cpu in range(8)}), tmp_path)
    said = version(program, 0x414FD0B1, "0", MAVCG_TRACE="cpus")["stderr"]

    assert said.count("cortex-a76 (sysfs midr_el1 0x414fd0b1)") == 8
