"""A BLAS for a board, under emulation: the same bits on each of its cores, near to sums in double."""

import os
import subprocess
from pathlib import Path

import pytest

from mavcg.model.blas.library import blas_objects
from mavcg.model.blas.request import BlasOptions, make_blas_request
from mavcg.toolchain.zig import run_zig
from tests.conftest import QEMU

SOURCE = Path(__file__).parent / "emulated.c"


@pytest.mark.long
@pytest.mark.skipif(QEMU is None, reason="needs qemu-user-static")
@pytest.mark.parametrize("board", ["rk3588", "exynos9820"])
def test_all_cores_of_a_board_give_the_same_bits(board: str, tmp_path: Path) -> None:
    request = make_blas_request(tmp_path / "libblas.so", BlasOptions(board=board, target="aarch64-linux-musl"))
    objects, note = blas_objects(request, tmp_path)
    program = tmp_path / "program"
    words = ["-target", "aarch64-linux-musl", "-static", "-O1", "-ffp-contract=off", str(SOURCE), *map(str, objects)]
    run_zig("cc", [*words, "-lm", "-o", str(program)], "linking the program")

    said = {}
    for core in note["blas"]["versions"]:
        env = {**os.environ, "MAVCG_CPU_MAP": f"0-1023={core}", "MAVCG_TRACE": "1"}
        done = subprocess.run([str(QEMU), str(program)], env=env, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        assert f"mavcg: sgemm {core} " in done.stderr  # that version ran, and no other
        said[core] = done.stdout
    assert len(said) == len(request.cores) + 1 and set(said.values()) == {next(iter(said.values()))}
    assert next(iter(said.values())).endswith(" near\n")
