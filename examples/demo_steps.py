"""Steps of `make demo`: commands that are shown and run, and the cores that are emulated."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAVCG = [str(Path(sys.executable).with_name("mavcg"))]
ZIG = [sys.executable, "-m", "ziglang"]
BOARD = "exynos9820"
TARGET = "aarch64-linux-gnu.2.17"
SYSROOT = Path("/usr/aarch64-linux-gnu")

# MIDR_EL1 of the cores that are emulated: Linux arch/arm64/include/asm/cputype.h.
EMULATED = (
    ("Cortex-A55 r2", "0x412fd050"),
    ("Cortex-A75 r3", "0x413fd0a0"),
    ("Exynos M4", "0x531f0030"),
    ("unknown core", "0x70000000"),
)


def say(text: str) -> None:
    """A heading between the commands' own output."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def run(folder: Path, command: Sequence[str], shown: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in a folder under its heading; what it prints goes on to the user and comes back."""
    say(f"$ {shown}")
    return finish(folder, command, environment, echo=True)


def finish(
    folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None, echo: bool = False
) -> str:
    """Run a command in a folder. Returns: what it prints. Ends the demo where it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=None if echo else subprocess.STDOUT,
    )
    if echo:
        print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(f"demo: {' '.join(command)} ended with status {done.returncode}\n{'' if echo else done.stdout}")
    return done.stdout


def emulator() -> str | None:
    """qemu for AArch64, where it and a C library for its programs are installed."""
    if not (SYSROOT / "lib").is_dir():
        return None
    return shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


def run_emulated(folder: Path, cpu: str, command: Sequence[str]) -> str:
    """Run a program for Arm on an emulated core; return its output, with the counts of the versions that ran."""
    qemu = emulator()
    assert qemu is not None
    environment = {"LD_LIBRARY_PATH": "build", "MAVCG_TRACE": "1"}
    return finish(folder, [qemu, "-L", str(SYSROOT), "-cpu", cpu, *command], environment)


def checksum(text: str) -> str:
    """The checksum that a program prints over the bits of its results."""
    match = re.search(r"checksum (\w+)", text)
    return match[1] if match else "none"


def versions_ran(text: str) -> str:
    """The versions of which MAVCG_TRACE counted runs."""
    return ", ".join(sorted(set(re.findall(r"^mavcg: \S+ (\S+) \d+$", text, re.MULTILINE))))


def cores_here() -> list[str]:
    """The types of this machine's cores that mavcg has profiles of."""
    machine = json.loads(finish(HERE, [*MAVCG, "cores", "--json"]))["this_machine"]
    return sorted({cpu["core"] for cpu in machine if cpu["core"]})
