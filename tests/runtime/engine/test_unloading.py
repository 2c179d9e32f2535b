"""A library that is closed while its contexts and threads are there."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.hardware.core import Core, Midr
from mavcg.runtime.amalgamation import SOURCES
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import Target, host_target, parse_target
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU

Build = Callable[..., Path]
Run = Callable[..., subprocess.CompletedProcess[str]]
HERE = Path(__file__).parent
ARM_CORES = CoreSet((Core("cortex-a55", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05, 1),)),))
ARM_LIBC = Path("/usr/aarch64-linux-gnu")


def closing_program(target: Target, folder: Path) -> Path:
    """unloaded.c for a target."""
    out = folder / "unloaded"
    flags = ["-target", target.zig_name, "-std=gnu11", "-O2", "-pthread", "-fno-sanitize=all", f"-I{SOURCES}"]
    run_zig("cc", [*flags, str(HERE / "unloaded.c"), "-ldl", "-o", str(out)], "building unloaded.c")
    return out


@pytest.mark.skipif(not host_target().system.startswith("linux"), reason="needs Linux's loader")
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_library_stays_loaded_until_its_last_context_is_gone(
    build_library: Build, run: Run, tmp_path: Path, threads: str
) -> None:
    program = closing_program(host_target(), tmp_path)

    assert run(program, build_library(), threads).stdout == "ok\n"


@pytest.mark.long
@pytest.mark.skipif(QEMU is None or not ARM_LIBC.is_dir(), reason="needs qemu-aarch64 and libc6-arm64-cross")
def test_on_arm(build_library: Build, run: Run, tmp_path: Path) -> None:
    target = parse_target("aarch64-linux-gnu.2.17")
    program = closing_program(target, tmp_path)
    library = build_library(target=target, core_set=ARM_CORES)

    assert run(str(QEMU), "-L", ARM_LIBC, program, library, "3").stdout == "ok\n"


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_forked_child_may_go_on_after_its_parent_closed_the_library(
    build_library: Build, run: Run, tmp_path: Path
) -> None:
    """Python's own fork, whose child closes what the parent loaded."""
    code = (
        "import os, sys, numpy as np, mavcg\n"
        "model = mavcg.load(sys.argv[1], threads=3)\n"
        "x, ms = np.zeros((1, 1000), np.float32), np.zeros(1, np.int32)\n"
        "y = model.run(x, ms)[0].tobytes()\n"
        "child = os.fork()\n"
        "assert model.run(x, ms)[0].tobytes() == y\n"
        "model.close()\n"
        "if not child: os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    (tmp_path / "program.py").write_text(code)
    assert run(sys.executable, tmp_path / "program.py", build_library()).stdout == "0\n"
