"""The compilers of the corpus, for this machine and for AArch64, each alone and under `mavcg launch`."""

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.corpus.packages import Package
from bench.records import ROOT
from mavcg.files.child_python import commands_folder
from mavcg.toolchain.zig import zig_program

PLAIN, LAUNCH, BUILD = "plain", "launch", "build"  # how a package is built
TRIPLE = "aarch64-linux-gnu"
SYSROOT = Path("/usr") / TRIPLE
EMULATOR = "qemu-aarch64"
# Cores that get a version each, and the main ID registers by which a selector knows them: in order, out of order, Arm's
# and others'.
MIDRS = {
    "cortex-a53": 0x410FD034,
    "cortex-a55": 0x412FD050,
    "cortex-a73": 0x410FD091,
    "cortex-a75": 0x413FD0A0,
    "cortex-a76": 0x414FD0B1,
    "cortex-x1": 0x411FD440,
    "exynos-m4": 0x531F0030,
}


@dataclass(frozen=True)
class Way:
    """A compiler and a target. c, cxx: its words. arm: whether for AArch64. ar, ranlib: for its objects.

    is_rust: whether it is rustc, which `RUSTC` runs; its programs are linked by c.
    """

    name: str
    c: tuple[str, ...]
    cxx: tuple[str, ...]
    arm: bool = False
    ar: tuple[str, ...] = ("ar",)
    ranlib: tuple[str, ...] = ("ranlib",)
    is_rust: bool = False

    @property
    def target(self) -> str:
        """The cores that get versions, as lines of [build] in mavcg.toml."""
        return f"cores = {list(MIDRS)}\n".replace("'", '"') if self.arm else 'board = "host"\n'


def ways() -> Mapping[str, Way]:
    """Return the ways that this machine has, by name."""
    zig = zig_program()
    ar, ranlib = (zig, "ar"), (zig, "ranlib")
    target = ("-target", f"{TRIPLE}.2.28")
    found = [Way("gcc", ("gcc",), ("g++",))] if shutil.which("g++") else []
    found += [Way("clang", ("clang",), ("clang++",))] if shutil.which("clang++") else []
    baseline = "-mcpu=baseline"  # as other compilers do; without it zig's code is for this very machine
    found += [Way("zig", (zig, "cc", baseline), (zig, "c++", baseline), False, ar, ranlib)]
    if shutil.which(EMULATOR) and SYSROOT.is_dir():
        found += [Way("zig-aarch64", (zig, "cc", *target), (zig, "c++", *target), True, ar, ranlib)]
        if all(shutil.which(f"{TRIPLE}-{tool}") for tool in ("gcc", "g++")):
            of_gcc = [(f"{TRIPLE}-{tool}",) for tool in ("gcc", "g++", "ar", "ranlib")]
            found += [Way("gcc-aarch64", of_gcc[0], of_gcc[1], True, of_gcc[2], of_gcc[3])]
    found += [Way("rustc", ("cc",), ("c++",), is_rust=True)] if shutil.which("rustc") else []
    return {way.name: way for way in found}


def ways_of(package: Package) -> Sequence[Way]:
    """Return the ways of this machine by which a package is built, the first of which profiles it."""
    fit = (way for way in ways().values() if package.arm or not way.arm)
    return [way for way in fit if way.is_rust == bool(package.objects)]


def write_tools(way: Way, folder: Path, tool: str) -> None:
    """Write cc, c++, rustc, ir, ar and ranlib of a way into a new folder: scripts, as builds want one word for each.

    tool: PLAIN, LAUNCH or BUILD, for which bench.corpus.replaced runs the compiler.
    """
    folder.mkdir(parents=True)
    commands = commands_folder()
    replaced = ("env", f"PYTHONPATH={ROOT}", str(commands / "python"), "-P", "-m", "bench.corpus.replaced")
    before = {PLAIN: (), LAUNCH: (str(commands / "mavcg"), "launch"), BUILD: replaced}[tool]
    scripts = {"cc": before + way.c, "c++": before + way.cxx, "ar": way.ar, "ranlib": way.ranlib}
    scripts["rustc"] = (*(() if tool == BUILD else before), "rustc")
    scripts["ir"] = (*before, "--ir") if tool == BUILD else ("true",)
    for name, words in scripts.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)


def environment(way: Way, tools: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a package's commands, as bench/corpus/packages.toml describes it."""
    cmake = [f"-DCMAKE_{language}_COMPILER={tools / tool}" for language, tool in (("C", "cc"), ("CXX", "c++"))]
    cmake += [f"-DCMAKE_AR={tools / 'ar'}", f"-DCMAKE_RANLIB={tools / 'ranlib'}", "-DCMAKE_BUILD_TYPE=Release"]
    if way.arm:
        cmake += ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    return {
        **os.environ,
        "MAVCG_LAUNCH_SERVER": "0",  # its CPU time would not be counted
        "CC": str(tools / "cc"),
        "CXX": str(tools / "c++"),
        "AR": str(tools / "ar"),
        "RANLIB": str(tools / "ranlib"),
        "RUSTC": str(tools / "rustc"),
        "IR": str(tools / "ir"),
        "HOST": f"--host={TRIPLE}" if way.arm else "",
        "CMAKE": shlex.join(cmake),
        "RUN": EMULATOR if way.arm else "",
        "QEMU_LD_PREFIX": str(SYSROOT),
        **more,
    }


def processors(way: Way) -> Sequence[Mapping[str, str]]:
    """Return the environments of the processors on which a way's programs are run: this one, or emulated ones."""
    if not way.arm:
        return ({},)
    return ({"QEMU_CPU": "max,midr=0x70000000"}, *({"QEMU_CPU": f"max,midr={midr:#x}"} for midr in MIDRS.values()))
