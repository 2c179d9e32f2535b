"""`make demo`: the program road on examples/edge_app, as a user would walk it, one command after another.

Profile the program, build its hot kernels for the three core types of an Exynos 9820, look at the library, run it on
emulated cores; then the same for the machine we are on, where it can be timed. What is not installed is said and left
out.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.target import host_target

HERE = Path(__file__).resolve().parent
APP = HERE / "edge_app"
BUILD = APP / "build"
MAVCG = [str(Path(sys.executable).with_name("mavcg"))]
ZIG = [sys.executable, "-m", "ziglang"]
TARGET = "aarch64-linux-gnu.2.17"
SYSROOT = Path("/usr/aarch64-linux-gnu")
PLAIN = ("-O3", "-ffp-contract=off", "-fno-sanitize=all", "-g0")
GLUE = ("main.cpp", "graph.cpp", "net.cpp", "image.cpp")

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


def run(command: Sequence[str], shown: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the application's folder; what it prints goes on to the user and comes back."""
    say(f"$ {shown}")
    return _finish(command, environment, echo=True)


def _finish(command: Sequence[str], environment: Mapping[str, str] | None = None, echo: bool = False) -> str:
    done = subprocess.run(
        command, cwd=APP, env={**os.environ, **(environment or {})}, text=True, stdout=subprocess.PIPE,
        stderr=None if echo else subprocess.STDOUT,
    )  # fmt: skip
    if echo:
        print(done.stdout, end="", flush=True)
    if done.returncode:
        sys.exit(f"demo: {' '.join(command)} ended with status {done.returncode}\n{'' if echo else done.stdout}")
    return done.stdout


def build_plain() -> None:
    """The program as it is, for this machine, with the machine's own compiler or else ziglang's."""
    BUILD.mkdir(exist_ok=True)
    if shutil.which("g++") and shutil.which("gcc") and shutil.which("make"):
        run(["make", "-s"], "make")
        return
    sources = [*GLUE, *(f"ops/{path.name}" for path in sorted((APP / "ops").glob("*.c")))]
    run([*ZIG, "c++", "-g", *PLAIN[:3], "-I.", *sources, "-o", "build/edge_app"], "zig c++ ... -o build/edge_app")


def profile() -> None:
    """Where the time goes: perf, or callgrind where perf may not."""
    command = ["build/edge_app", "--iterations", "300"]
    shown = "mavcg profile -o build/profile.json -- build/edge_app --iterations 300"
    say(f"$ {shown}")
    arguments = [*MAVCG, "profile", "--top", "6", "-o", "build/profile.json"]
    done = subprocess.run([*arguments, "--", *command], cwd=APP)
    if done.returncode == 0:
        return
    if shutil.which("valgrind"):
        print("demo: perf cannot be used here, callgrind counts instructions instead")
        few = [*command[:-1], "3"]
        _finish([*arguments, "--with", "callgrind", "--", *few], echo=True)
        return
    print("demo: neither perf nor valgrind is here; a profile that was recorded elsewhere is imported")
    _finish([*arguments, "--import", "recorded-perf-report.txt"], echo=True)


def run_emulated() -> None:
    """The library on each core type, and on one that nobody knows: the same bits, each by its own version."""
    app = [*ZIG, "c++", "-target", TARGET, *PLAIN, "-I.", *GLUE]
    _finish([*app, "build/libedge_ops.so", "-o", "build/edge_app_versions"])
    plain_ops = [f"ops/{path.name}" for path in sorted((APP / "ops").glob("*.c"))]
    _finish([*app, *plain_ops, "-o", "build/edge_app_single"])
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not emulator or not (SYSROOT / "lib").is_dir():
        print("demo: no qemu-aarch64 or no libc6-arm64-cross here: the ARM library is built and not run")
        return
    say("$ qemu-aarch64 -cpu max,midr=...  MAVCG_TRACE=1 build/edge_app_versions     (results only; no times)")
    single = _emulated(emulator, "edge_app_single", "max")
    print(f"  {'single version':<15}  checksum {_checksum(single)}")
    for name, midr in EMULATED:
        said = _emulated(emulator, "edge_app_versions", f"max,midr={midr}")
        ran = sorted(set(re.findall(r"^mavcg: \S+ (\S+) \d+$", said, re.MULTILINE)))
        print(f"  {name:<15}  checksum {_checksum(said)}, ran {', '.join(ran)}", flush=True)
        if _checksum(said) != _checksum(single):
            sys.exit(f"demo: the {name} versions gave another result than the single version; that is a fault of mavcg")


def _emulated(emulator: str, program: str, cpu: str) -> str:
    command = [emulator, "-L", str(SYSROOT), "-cpu", cpu, f"build/{program}", "--iterations", "2"]
    return _finish(command, {"LD_LIBRARY_PATH": "build", "MAVCG_TRACE": "1"})


def _checksum(text: str) -> str:
    match = re.search(r"checksum (\w+)", text)
    return match[1] if match else "none"


def run_here() -> None:
    """The same kernels for the machine we are on, timed: generic version against its own core's."""
    names = _cores_here()
    if not names:
        print("\ndemo: this machine's core is not one that mavcg has a profile of: nothing is timed here")
        return
    cores = ",".join(names)
    output = "build/libedge_ops_here.so"
    command = ["build", "--cores", cores, "--target", host_target().zig_name, "-o", output, "--json"]
    say(f"$ mavcg build --cores {cores} -o {output}")
    _finish([*MAVCG, *command])
    compiler = ["g++"] if shutil.which("g++") else [*ZIG, "c++"]
    link = ["-O2", "-ffp-contract=off", "-I.", *GLUE, output, "-Wl,-rpath,$ORIGIN"]
    _finish([*compiler, *link, "-o", "build/edge_app_here"])
    for label, environment in (("generic version", {"MAVCG_CPU_MAP": "*=generic"}), (f"{cores} version", {})):
        times = [_milliseconds(_finish(["build/edge_app_here", "--iterations", "100"], environment)) for _ in range(5)]
        print(f"  {label:<18} {sorted(times)[2]:.2f} ms a picture (measured: median of 5 runs of 100)", flush=True)


def _cores_here() -> list[str]:
    machine = json.loads(_finish([*MAVCG, "cores", "--json"]))["this_machine"]
    return sorted({cpu["core"] for cpu in machine if cpu["core"]})


def _milliseconds(text: str) -> float:
    match = re.search(r"([\d.]+) ms each", text)
    return float(match[1]) if match else float("nan")


def main() -> None:
    """The whole walk."""
    build_plain()
    profile()
    run([*MAVCG, "build"], "mavcg build                      (examples/edge_app/mavcg.toml says the rest)")
    run_emulated()
    run_here()
    say("Next: mavcg inspect examples/edge_app/build/libedge_ops.so; mavcg cores; README.md")


if __name__ == "__main__":
    main()
