"""The program pipeline on examples/edge_app, as a user would run it, one command after another.

Profile the program, build its hot kernels for the three core types of an Exynos 9820, look at the library, run it on
emulated cores; then the same for the machine we are on, where it can be timed. What is not installed is said and left
out.
"""

import re
import shutil
import subprocess
import sys

from demo_steps import (
    EMULATED,
    HERE,
    MAVCG,
    TARGET,
    ZIG,
    checksum,
    cores_here,
    emulator,
    finish,
    run,
    run_emulated,
    say,
    versions_ran,
)

from mavcg.toolchain.target import host_target

APP = HERE / "edge_app"
BUILD = APP / "build"
PLAIN = ("-O3", "-ffp-contract=off", "-fno-sanitize=all", "-g0")
GLUE = ("main.cpp", "graph.cpp", "net.cpp", "image.cpp")


def build_plain() -> None:
    """The program as it is, for this machine, with the machine's own compiler or else ziglang's."""
    BUILD.mkdir(exist_ok=True)
    if shutil.which("g++") and shutil.which("gcc") and shutil.which("make"):
        run(APP, ["make", "-s"], "make")
        return
    sources = [*GLUE, *(f"ops/{path.name}" for path in sorted((APP / "ops").glob("*.c")))]
    run(APP, [*ZIG, "c++", "-g", *PLAIN[:3], "-I.", *sources, "-o", "build/edge_app"], "zig c++ ... -o build/edge_app")


def profile() -> None:
    """Profile the program with perf, or with callgrind where perf is not permitted."""
    say("$ mavcg profile                    (examples/edge_app/mavcg.toml names the command)")
    arguments = [*MAVCG, "profile", "--top", "6"]
    done = subprocess.run(arguments, cwd=APP)
    if done.returncode == 0:
        return
    arguments += ["-o", "build/profile.json"]
    if shutil.which("valgrind"):
        print("demo: perf cannot be used here, callgrind counts instructions instead")
        few = ["build/edge_app", "--iterations", "3"]
        finish(APP, [*arguments, "--with", "callgrind", "--", *few], echo=True)
        return
    print("demo: neither perf nor valgrind is here; a profile that was recorded elsewhere is imported")
    finish(APP, [*arguments, "--import", "recorded-perf-report.txt"], echo=True)


def run_on_each_core() -> None:
    """The library on each core type, and on one that nobody knows: the same bits, each by its own version."""
    app = [*ZIG, "c++", "-target", TARGET, *PLAIN, "-I.", *GLUE]
    finish(APP, [*app, "build/libedge_ops.so", "-o", "build/edge_app_versions"])
    plain_ops = [f"ops/{path.name}" for path in sorted((APP / "ops").glob("*.c"))]
    finish(APP, [*app, *plain_ops, "-o", "build/edge_app_single"])
    if emulator() is None:
        print("demo: no qemu-aarch64 or no libc6-arm64-cross here: the ARM library is built and not run")
        return
    say("$ qemu-aarch64 -cpu max,midr=...  MAVCG_TRACE=1 build/edge_app_versions     (results only; no times)")
    single = run_emulated(APP, "max", ["build/edge_app_single", "--iterations", "2"])
    print(f"  {'single version':<15}  checksum {checksum(single)}")
    for name, midr in EMULATED:
        said = run_emulated(APP, f"max,midr={midr}", ["build/edge_app_versions", "--iterations", "2"])
        print(f"  {name:<15}  checksum {checksum(said)}, ran {versions_ran(said)}", flush=True)
        if checksum(said) != checksum(single):
            sys.exit(f"demo: the {name} versions gave another result than the single version; that is a fault of mavcg")


def run_here() -> None:
    """The same kernels for the machine we are on, timed: generic version against its own core's."""
    names = cores_here()
    if not names:
        print("\ndemo: this machine's core is not one that mavcg has a profile of: nothing is timed here")
        return
    cores = ",".join(names)
    output = "build/libedge_ops_here.so"
    command = ["build", "--cores", cores, "--target", host_target().zig_name, "-o", output, "--json"]
    say(f"$ mavcg build --cores {cores} -o {output}")
    finish(APP, [*MAVCG, *command])
    compiler = ["g++"] if shutil.which("g++") else [*ZIG, "c++"]
    link = ["-O2", "-ffp-contract=off", "-I.", *GLUE, output, "-Wl,-rpath,$ORIGIN"]
    finish(APP, [*compiler, *link, "-o", "build/edge_app_here"])
    for label, environment in (("generic version", {"MAVCG_CPU_MAP": "*=generic"}), (f"{cores} version", {})):
        times = [
            _milliseconds(finish(APP, ["build/edge_app_here", "--iterations", "100"], environment)) for _ in range(5)
        ]
        print(f"  {label:<18} {sorted(times)[2]:.2f} ms a picture (measured: median of 5 runs of 100)", flush=True)


def _milliseconds(text: str) -> float:
    match = re.search(r"([\d.]+) ms each", text)
    return float(match[1]) if match else float("nan")


def walk() -> None:
    """The whole walk."""
    build_plain()
    profile()
    run(APP, [*MAVCG, "build"], "mavcg build                      (examples/edge_app/mavcg.toml says the rest)")
    run_on_each_core()
    run_here()
