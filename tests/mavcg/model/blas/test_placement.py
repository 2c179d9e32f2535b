"""A thread that waits on its caller's CPU moves to another one, and may then run where it might before."""

import os
import subprocess
from pathlib import Path

from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig

HERE = Path(__file__).parent


def test_a_thread_leaves_its_callers_cpu_if_it_may(tmp_path: Path) -> None:
    """Not where it is bound to that CPU, nor for a caller on an unknown CPU."""
    program = tmp_path / "placement"
    flags = [
        "-target",
        host_target().zig_name,
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-function",
        f"-I{SOURCES}",
    ]
    run_zig("cc", [*flags, str(HERE / "placement.c"), "-o", str(program)], "compiling the placement of threads")
    lines = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    cpus = len(os.sched_getaffinity(0))

    assert lines == [*["0 1"] * (cpus + 1), "1 1" if cpus > 1 else "0 1"]
