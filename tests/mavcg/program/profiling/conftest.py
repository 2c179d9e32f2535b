"""Recorded profiles of data/hot.cpp, the program itself where a compiler is there, and boards made by hand."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.hardware.board import Board, Cluster
from mavcg.program.profiling.profile import Profile
from mavcg.program.profiling.sample_table import Key, sample_frame

DATA = Path(__file__).parent / "data"

RELU = "_ZN2nn4reluEPfi"
GEMM = "_ZNK2nn4GemmIfLi3EEclEPKfS3_Pfi"


@pytest.fixture(scope="session")
def data() -> Path:
    """perf-*.txt and callgrind.out: written by perf 6.1 and valgrind 3.19 for data/hot.cpp, built by g++ 12 -O2."""
    return DATA


@pytest.fixture(scope="session")
def exynos() -> Board:
    """Exynos 9820's map of CPU numbers."""
    clusters = (
        Cluster("cortex-a55", (0, 1, 2, 3)),
        Cluster("cortex-a75", (4, 5)),
        Cluster("exynos-m4", (6, 7)),
    )
    return Board("exynos9820", "Exynos 9820", "aarch64-linux-android", clusters)


@pytest.fixture(scope="session")
def make_profile() -> Callable[..., Profile]:
    """Profile of rows (symbol, object, core, samples), one record per sample."""

    def make(*rows: tuple[str, str, str | None, float], kind: str = "samples") -> Profile:
        summed: dict[Key, list[float]] = {
            (symbol, object_, None, core): [samples, samples] for symbol, object_, core, samples in rows
        }
        return Profile(sample_frame(summed, kind), kind, "cycles")

    return make


@pytest.fixture(scope="session", params=["gcc", pytest.param("zig", marks=pytest.mark.long)])
def build_hot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds data/hot.cpp by g++ and by ziglang's clang, with flags such as -s."""
    if request.param == "gcc" and shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    # The baseline CPU: left alone zig compiles for this machine's, and valgrind knows no AVX-512.
    zig = [sys.executable, "-m", "ziglang", "c++", "-nostdlib++", "-mcpu=baseline"]
    compiler = ["g++"] if request.param == "gcc" else zig

    def build(*flags: str) -> Path:
        program = tmp_path_factory.mktemp(request.param) / "hot"
        subprocess.run([*compiler, "-O2", "-g0", *flags, str(DATA / "hot.cpp"), "-o", str(program)], check=True)
        return program

    return build


@pytest.fixture(scope="session")
def hot_program(build_hot: Callable[..., Path]) -> Path:
    """data/hot.cpp, built and not stripped."""
    return build_hot()


@pytest.fixture
def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Put a shell script in front of PATH under the name of a tool, to act as versions of it that are not here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, script: str) -> Path:
        tool = folder / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        return tool

    return make
