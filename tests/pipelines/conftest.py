"""The programs of examples/gemm_libraries: built for this machine, profiled, versioned, and run on emulated cores."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_tool, run_zig
from tests.machine import MIDRS, QEMU

FOLDER = Path(__file__).parents[2] / "examples/gemm_libraries"
MUSL = "aarch64-linux-musl"
CORES = ("cortex-a55", "cortex-a75", "exynos-m4")


@dataclass(frozen=True)
class Example:
    """One of the two programs. folder: where what is built goes."""

    name: str
    headers: Path
    folder: Path

    @property
    def app(self) -> Path:
        """The program for this machine, made by its Makefile."""
        return self.folder / f"{self.name}_app"

    def make(self) -> None:
        """Build for this machine with g++ -O3 -g, and write what a build tool says in compile_commands.json."""
        for tool in ("g++", "make"):
            if not shutil.which(tool):
                pytest.skip(f"{tool} is not installed")
        said = run_tool(["make", "-C", str(FOLDER), f"BUILD={self.folder}", str(self.app)], f"building {self.app}")
        commands = [line for line in said.splitlines() if " -c " in line]
        entries = [
            {"directory": str(FOLDER), "command": c, "file": re.split(" -c ", c)[1].split()[0]} for c in commands
        ]
        assert len(entries) == 2, said
        (self.folder / "compile_commands.json").write_text(json.dumps(entries))

    def arm_object(self, source: str, *flags: str) -> Path:
        """One source for ARM as zig compiles it, without versions; -UNDEBUG: zig defines it beside -O3."""
        made = self.folder / f"{Path(source).stem}{len(list(self.folder.iterdir()))}.o"
        tool = "c++" if source.endswith(".cpp") else "cc"
        standard = ["-std=c++14", "-isystem", str(self.headers)] if tool == "c++" else ["-D_GNU_SOURCE"]
        common = ["-target", MUSL, *PLAIN_CODE_FLAGS, "-O3", "-UNDEBUG", "-fPIC", *standard, *flags]
        run_zig(tool, [*common, "-c", str(FOLDER / source), "-o", str(made)], f"compiling {source}")
        return made

    def arm_link(self, name: str, *objects: Path) -> Path:
        """A static program for ARM."""
        program = self.folder / name
        flags = ["-target", MUSL, "-static", "-O2", "-fno-sanitize=all"]
        run_zig("c++", [*flags, *map(str, objects), "-o", str(program)], f"linking {name}")
        return program

    def mavcg(self, *arguments: object) -> Any:
        """The JSON document of a mavcg command, which must succeed."""
        traced = ("--runtime", "static") if arguments[0] == "build" else ()
        done = _mavcg(*arguments, *traced, "--json")
        assert done.returncode == 0, f"mavcg {arguments}: {done.returncode}: {done.stderr[-2000:]}"
        return json.loads(done.stdout)

    def perf_profile(self) -> Path:
        """Profile the program for this machine with perf; skips where perf may not sample. The profile's file."""
        if not shutil.which("perf"):
            pytest.skip("perf is not installed")
        out = self.folder / "profile.json"
        done = _mavcg("profile", "-o", out, "--", self.app, "2500")
        if done.returncode == 2 and "perf_event" in done.stderr:
            pytest.skip(f"perf may not sample here: {done.stderr.strip()[:200]}")
        assert done.returncode == 0, done.stderr
        return out

    def emulate(self, program: Path, core: str = "", sysroot: Path | None = None) -> tuple[str, dict[str, set[str]]]:
        """(what a program prints, function -> versions that ran) on an emulated core of MIDRS; MAVCG_TRACE=1."""
        assert QEMU
        cpu = f"max,midr={MIDRS[core]:#x}" if core else "max"
        command = [QEMU, *(["-L", str(sysroot)] if sysroot else []), "-cpu", cpu, str(program)]
        environment = _environment() | {"MAVCG_TRACE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{done.returncode}: {done.stdout[-300:]} {done.stderr[-1000:]}"
        ran: dict[str, set[str]] = {}
        for line in done.stderr.splitlines():
            traced = re.fullmatch(r"mavcg: (\S+) (\S+) (\d+)", line)
            if traced and int(traced[3]):
                ran.setdefault(traced[1], set()).add(traced[2])
        return done.stdout, ran

    def check_every_core(
        self, program: Path, single: str, functions: set[str], cores: Sequence[str] = (*CORES, "generic")
    ) -> None:
        """On each emulated core the functions' own versions run, no other, and print what the single version does."""
        for core in cores:
            printed, ran = self.emulate(program, core)
            assert printed == single, core
            assert ran == dict.fromkeys(functions, {core})


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}


def _mavcg(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mavcg.cli", *map(str, arguments)]
    return subprocess.run(command, env=_environment(), capture_output=True, text=True, timeout=300)


def example(name: str, headers: str, folder: Path) -> Example:
    path = Path(headers)
    if not path.is_dir():
        pytest.skip(f"{path} is not there: Debian's lib{name}{'3' if name == 'eigen' else ''}-dev")
    if QEMU is None:
        pytest.skip("qemu-aarch64 is not installed")
    return Example(name, path, folder)


@pytest.fixture
def eigen(tmp_path: Path) -> Example:
    """examples/gemm_libraries/eigen_*; skips where Eigen or qemu is missing."""
    return example("eigen", "/usr/include/eigen3", tmp_path)


@pytest.fixture
def gemmlowp(tmp_path: Path) -> Example:
    """examples/gemm_libraries/gemmlowp_*; skips where gemmlowp or qemu is missing."""
    return example("gemmlowp", "/usr/include/gemmlowp", tmp_path)
