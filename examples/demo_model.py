"""The model pipeline on a small network: ONNX file -> engine library -> a C program, on emulated cores and here.

examples/small_cnn/make_model.py writes the network, with weights from a seed; nothing is downloaded.
"""

import sys

from demo_steps import (
    BOARD,
    EMULATED,
    HERE,
    MAVCG,
    TARGET,
    ZIG,
    checksum,
    emulator,
    finish,
    run,
    run_emulated,
    say,
    versions_ran,
)

FOLDER = HERE / "small_cnn"
MODEL = "build/small_cnn.onnx"
FLAGS = ("-O2", "-fno-sanitize=all", "-Wall", "-Wextra", "app.c", "-Ibuild")


def build_for_board() -> None:
    """The library for the three core types of a board, and a C program linked with it."""
    (FOLDER / "build" / "here").mkdir(parents=True, exist_ok=True)
    run(FOLDER, [sys.executable, "make_model.py", MODEL], f"python make_model.py {MODEL}")
    output = "build/libsmall_cnn.so"
    run(
        FOLDER,
        [*MAVCG, "build", MODEL, "--board", BOARD, "-o", output],
        f"mavcg build {MODEL} --board {BOARD} -o {output}",
    )
    say("$ cc app.c -Ibuild build/libsmall_cnn.so -o build/app            (by zig cc, for ARM)")
    finish(FOLDER, [*ZIG, "cc", "-target", TARGET, *FLAGS, output, "-o", "build/app"])


def run_on_each_core() -> None:
    """The program on each core type, and on one that nobody knows: the same bits, each by its own versions."""
    if emulator() is None:
        print("demo: no qemu-aarch64 or no libc6-arm64-cross here: the ARM library is built and not run")
        return
    say("$ qemu-aarch64 -cpu max,midr=...  MAVCG_TRACE=1 build/app        (results only; no times)")
    seen = set()
    for name, midr in EMULATED:
        for threads in ("1", "2"):
            said = run_emulated(FOLDER, f"max,midr={midr}", ["build/app", threads])
            seen.add(checksum(said))
        print(f"  {name:<15}  checksum {checksum(said)} with 1 and 2 threads, ran {versions_ran(said)}", flush=True)
        if len(seen) != 1:
            sys.exit(f"demo: checksums {', '.join(sorted(seen))}; there must be one; that is a fault of mavcg")


def run_here() -> None:
    """The same network for the machine we are on, timed, and once from Python."""
    output = "build/here/libsmall_cnn.so"
    say(f"$ mavcg build {MODEL} --board host -o {output}")
    finish(FOLDER, [*MAVCG, "build", MODEL, "--board", "host", "-o", output, "--json"])
    run(
        FOLDER,
        [*MAVCG, "bench", output, "--threads", "1,2"],
        f"mavcg bench {output} --threads 1,2           (measured here and now)",
    )
    run(FOLDER, [*MAVCG, "run", output, "--seed", "0"], f"mavcg run {output} --seed 0")


def walk() -> None:
    """The whole walk."""
    build_for_board()
    run_on_each_core()
    run_here()
