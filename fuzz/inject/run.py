"""Failure by number: `python -m fuzz.inject.run [--minutes M] [--jobs N] [--record] [OPERATION ..]`.

Each operation is repeated with its first, second, .. call of each kind failing, alone and with all that follow, until
none fails. The exit status is 1 where a verdict is wrong: a leak, a crash, a hang, an undocumented status, a wrong
result, a half file.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fuzz.inject.recorded import Row, record
from fuzz.inject.scenarios import SCENARIOS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/inject"
SECONDS = 600.0  # of an operation, after which a command begins no failure
GRACE = 900.0  # seconds for the last failure to come to an end
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Wno-unused-function")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# By the seconds of an operation: its drivers' command lines.
Commands = Callable[[float], Iterator[list[str]]]
# Threads sleep at once, so that futex is called.
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "MAVCG_SPIN_US": "0",
    "OPENBLAS_NUM_THREADS": "2",
}
_COMPILING = threading.Lock()  # drivers and libraries are those of several operations


def read_rows(output: str) -> Iterator[Row]:
    """Yield the rows that a driver prints, one a line."""
    for line in output.splitlines():
        parts = line.split("\t")
        if len(parts) in (7, 8):
            yield Row(parts[0], parts[1], parts[2], *map(int, parts[3:]))


def compile_driver(name: str, *more: str) -> Path:
    """Compile a driver by gcc with sanitizers. Raises: SystemExit where it does not compile."""
    out = BUILD / name
    out.parent.mkdir(parents=True, exist_ok=True)
    includes = (f"-I{ROOT / 'runtime/csrc'}", f"-I{HERE}")
    command = ["gcc", *FLAGS, *SANITIZERS, "-rdynamic", *includes, str(HERE / f"{name}.c"), *more]
    done = subprocess.run([*command, "-ldl", "-lm", "-o", str(out)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"fuzz.inject: {name}.c: {done.stderr}")
    return out


def library(name: str) -> Path:
    """Build a library of libraries.py, in a process of its own."""
    folder = BUILD / "libraries"
    subprocess.run([sys.executable, "-m", "fuzz.inject.libraries", str(folder), name], cwd=ROOT, check=True, stdout=2)
    return folder / f"lib{name}.so"


def _models(kind: str, name: str) -> Commands:
    def commands(_seconds: float) -> Iterator[list[str]]:
        driver, built = compile_driver("models"), library(name)
        for threads in ("1", "2"):
            yield [str(driver), kind, str(built), threads]

    return commands


def _blas(_seconds: float) -> Iterator[list[str]]:
    yield [str(compile_driver("blas")), str(library("blas"))]


def _drop_ins(_seconds: float) -> Iterator[list[str]]:
    built = {name: library(name) for name in ("custom_ops", "delegate")}
    driver = compile_driver("drop_ins", f"-I{HERE.parent / 'c'}", f"-I{built['delegate'].parent}")
    for name, path in built.items():
        for threads in ("1", "2"):
            yield [str(driver), name, str(path), threads]


def _selector(_seconds: float) -> Iterator[list[str]]:
    from fuzz.c.tables import write

    tables = BUILD / "tables"
    shutil.rmtree(tables, ignore_errors=True)
    tables.mkdir(parents=True)
    write(tables)
    yield [str(compile_driver("selector", f"-I{tables / 'selector'}")), str(ROOT / "tests/boards/rk3399")]


def _accel(_seconds: float) -> Iterator[list[str]]:
    from mavcg.accelerators.host.library import write_host_sources
    from mavcg.accelerators.image.elf_file import write_elf
    from tests.mavcg.accelerators.compiled import random_program

    folder = BUILD / "accel_sources"
    folder.mkdir(parents=True, exist_ok=True)
    made = random_program(3)
    assert made is not None
    write_elf(made[2], folder / "program.elf")
    objects = []
    for source in write_host_sources(folder):
        if source.suffix == ".c":
            objects.append(str(source.with_suffix(".o")))
            injected = ("-include", str(HERE / "calls.h"), f"-I{folder}", "-w", "-c", str(source))
            subprocess.run(["gcc", *FLAGS, *SANITIZERS, *injected, "-o", objects[-1]], check=True)
    yield [str(compile_driver("accel", f"-I{folder}", *objects)), str(folder / "program.elf")]


def _command(name: str) -> Commands:
    """Return the command of a scenario: Python with files.c preloaded, which `env` sees to, not this process."""

    def commands(seconds: float) -> Iterator[list[str]]:
        preload = BUILD / "files.so"
        preload.parent.mkdir(parents=True, exist_ok=True)
        flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra")
        subprocess.run(["gcc", *flags, str(HERE / "files.c"), "-ldl", "-o", str(preload)], check=True)
        folder = BUILD / "scenarios" / name.replace(" ", "_")
        words = ["fuzz.inject.commands", name, str(folder), str(seconds)]
        yield ["env", f"LD_PRELOAD={preload}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", *words]

    return commands


OPERATIONS: Mapping[str, Commands] = {
    "engine": _models("model", "engine"),
    "states": _models("model", "states"),
    "bounded": _models("model", "bounded"),
    "sizes": _models("sizes", "sizes"),
    "application": _models("application", "application"),
    "blas": _blas,
    "drop-ins": _drop_ins,
    "selector": _selector,
    "accel": _accel,
    **{name: _command(name) for name in SCENARIOS},
}


def run_operation(name: str, seconds: float = SECONDS) -> list[Row]:
    """Try all failures of an operation, those of a command for some seconds.

    A driver that ends otherwise than by its verdict is a row of its own.
    """
    rows: list[Row] = []
    with _COMPILING:
        commands = list(OPERATIONS[name](seconds))
    for command in commands:
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + GRACE,
                env=os.environ | ENVIRONMENT,
            )
        except subprocess.TimeoutExpired as late:
            print(f"{name}: stopped after {seconds:.0f} s", file=sys.stderr)
            rows += read_rows((late.stdout or b"").decode(errors="replace"))
            continue
        found = list(read_rows(done.stdout))
        rows += found
        # A command whose time is over before the first failure ends with 0, without a row.
        if done.returncode != int(any(row.wrong for row in found)):
            rows.append(Row(name, "-", f"the driver ended with {done.returncode}", 1, 0, 0, 1))
        if done.stderr:
            print(done.stderr[:20000], file=sys.stderr)
    return rows


def show(rows: Sequence[Row]) -> None:
    """Print rows as a table."""
    for row in rows:
        counts = f"{row.tried:6} tried {row.right:6} right {row.refused:6} refused {row.wrong:4} wrong"
        counts += f"  the time was over before call {row.first_untried}" if row.first_untried else ""
        print(f"{row.operation:28} {row.call:24} {row.error:34} {counts}", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.inject.run", description="Failure by number")
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help=f"of {', '.join(OPERATIONS)}; default: all")
    parser.add_argument("--minutes", type=float, help="of all; no operation begins after these, and each has its share")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="operations at the same time (1)")
    parser.add_argument("--record", action="store_true", help="in place of these operations in the record")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.operations if name not in OPERATIONS]:
        raise SystemExit(f"fuzz.inject: there is no operation {unknown[0]}; they are {', '.join(OPERATIONS)}")
    names = list(arguments.operations or OPERATIONS)
    late = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    rows, left = list[Row](), list[str]()

    def attempt(at: int) -> list[Row] | None:
        if late is None:
            return run_operation(names[at])
        share = (late - time.monotonic()) * arguments.jobs / (len(names) - at)
        return run_operation(names[at], share) if share > 0 else None

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for name, found in zip(names, pool.map(attempt, range(len(names))), strict=True):
            show(found or ())
            rows += found or ()
            if arguments.record and found:  # at once: a run that is ended keeps what it has done
                record(found, "fuzz.inject.run --record")
            left += [name] if found is None else []
    tried, wrong = sum(row.tried for row in rows), sum(row.wrong for row in rows)
    print(f"{tried} failures injected, {wrong} went wrong" + (f"; not begun: {', '.join(left)}" if left else ""))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
