"""The three programs that figures are made of: sources, flags, hot functions."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records import ROOT

_EDGE = ROOT / "examples/edge_app"
_LIBRARIES = ROOT / "examples/gemm_libraries"


@dataclass(frozen=True)
class Program:
    """A program.

    sources: all of it, main included. flags: compiler flags. hot: as for --hot. needs: a folder of headers.
    """

    name: str
    what: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...]
    hot: str
    needs: Path | None = None

    @property
    def is_here(self) -> bool:
        """True if the program's headers are installed."""
        return self.needs is None or self.needs.is_dir()


PROGRAMS = (
    Program(
        "edge_app",
        "C and C++ application, kernels in plain C",
        (*sorted((_EDGE / "ops").glob("*.c")), *sorted(_EDGE.glob("*.cpp"))),
        ("-O3", "-ffp-contract=off", f"-I{_EDGE}"),
        "gemm_f32,gemm_s8,depthwise_f32",
    ),
    Program(
        "eigen_app",
        "fp32 products by Eigen",
        (_LIBRARIES / "eigen_gemm.cpp", _LIBRARIES / "eigen_main.c"),
        ("-O3", "-D_GNU_SOURCE", "-isystem", "/usr/include/eigen3"),
        "gebp_kernel",
        Path("/usr/include/eigen3"),
    ),
    Program(
        "gemmlowp_app",
        "8-bit products by gemmlowp, inline assembly",
        (_LIBRARIES / "gemmlowp_gemm.cpp", _LIBRARIES / "gemmlowp_main.c"),
        ("-O3", "-D_GNU_SOURCE", "-isystem", "/usr/include/gemmlowp"),
        "*gemmlowp::NEON*::Run",
        Path("/usr/include/gemmlowp"),
    ),
)


def build(program: Program, cores: str, out: Path, *more: str) -> dict[str, Any]:
    """Run `mavcg build` as a process of its own, and return its report."""
    command = [sys.executable, "-m", "mavcg.cli", "build", "--hot", program.hot, "--cores", cores, "-o", str(out)]
    command += [f"--source={source}" for source in program.sources] + [f"--flag={flag}" for flag in program.flags]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAVCG_")}
    done = subprocess.run([*command, *more, "--json"], env=environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench: {program.name}: mavcg build ended with status {done.returncode}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report
