"""The contexts of a subgraph that another runtime calls: one caller each, also in children of a threaded process."""

import subprocess
from pathlib import Path

import pytest

from mavcg.runtime.amalgamation import SOURCES
from mavcg.runtime.sample_tables import FLAGS, SAMPLE
from mavcg.toolchain.zig import run_zig

DRIVER = Path(__file__).parent / "part_contexts_driver.c"


@pytest.mark.parametrize("sanitizer", ["undefined", pytest.param("thread", marks=pytest.mark.long)])
def test_children_of_a_process_whose_threads_run_it(sanitizer: str, tmp_path: Path) -> None:
    """A fork while another thread takes or returns a context leaves no lock behind; no context has two callers."""
    program = tmp_path / "driver"
    files = [str(SOURCES / "part_contexts.c"), str(DRIVER)]
    flags = [*FLAGS, "-Werror", f"-I{SAMPLE}", f"-I{SOURCES}", "-O1", "-g", f"-fsanitize={sanitizer}", "-lpthread"]
    run_zig("cc", [*flags, *files, "-o", str(program)], "building the driver")

    done = subprocess.run([str(program)], capture_output=True, text=True, env={"TSAN_OPTIONS": "die_after_fork=0"})

    assert (done.returncode, done.stdout, done.stderr) == (0, "ok, 0 faults, few contexts\n", "")
