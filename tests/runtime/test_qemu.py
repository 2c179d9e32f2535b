"""The right version under qemu-aarch64, which says by its MIDR_EL1 which core it is; the host's sysfs is not asked."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.core import Core, Midr
from mavcg.runtime.coreset import CoreSet
from mavcg.target import parse_target

Build = Callable[..., Path]

QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-aarch64 is not installed")

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


def version(program: Path, midr: int, *words: str, **environment: str) -> dict[str, str]:
    done = subprocess.run(
        [str(QEMU), "-cpu", f"max,midr={midr:#x}", str(program), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
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
