"""A BLAS for a board, under emulation: the same bits on each of its cores, near to sums in double."""

import os
import subprocess
from pathlib import Path

import pytest

from mavcg.model.blas.library import blas_objects
from mavcg.model.blas.request import BlasOptions, make_blas_request
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, needs_qemu

SOURCES = {"sgemm": "emulated.c", "sbgemm": "half_calls.c"}  # a routine that the program calls -> the program


@pytest.mark.long
@needs_qemu
@pytest.mark.parametrize("board", ["rk3588", "exynos9820", "snapdragon-8-gen-1"])
def test_all_cores_of_a_board_give_the_same_bits(board: str, tmp_path: Path) -> None:
    request = make_blas_request(tmp_path / "libblas.so", BlasOptions(board=board, target="aarch64-linux-musl"))
    objects, note = blas_objects(request, tmp_path)
    versions, has_bf16 = note["blas"]["versions"], board == "snapdragon-8-gen-1"
    assert ("bf16" in note["blas"]["extensions"][request.cores[0].name]) == has_bf16
    levels = [f"{core.name}-{suffix}" for core in request.cores for suffix in ("noi8mm", "v81")[not has_bf16 :]]
    assert [name for name in versions if name.endswith(("-noi8mm", "-v81"))] == levels  # v81: without f16
    assert len(versions) == 1 + len(request.cores) + len(levels)
    assert note["blas"]["blocks"]["all_f16"]["sums"] == "f16"
    for routine, source in SOURCES.items():
        program = tmp_path / routine
        words = ["-target", "aarch64-linux-musl", "-static", "-O1", "-ffp-contract=off", "-frounding-math"]
        words += [str(Path(__file__).parent / source), *map(str, objects)]
        run_zig("cc", [*words, "-lm", "-o", str(program)], "linking the program")

        said = {}
        runs = {core: ("max", {"MAVCG_CPU_MAP": f"0-1023={core}"}) for core in versions}
        if has_bf16:  # an X2 whose kernel hides bf16: its own code for all other types
            runs["cortex-x2-noi8mm"] = ("cortex-a76,midr=0x410fd480", {})
        for core, (cpu, variables) in runs.items():
            env = {**os.environ, **variables, "MAVCG_TRACE": "1"}
            words = [str(QEMU), "-cpu", cpu, str(program)]
            done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, done.stderr
            assert f"mavcg: {routine} {core} " in done.stderr  # that version ran, and no other
            said[core] = done.stdout
        assert len(said) == len(versions) and set(said.values()) == {next(iter(said.values()))}
        assert next(iter(said.values())).endswith(" near\n")
