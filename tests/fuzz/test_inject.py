"""Failure by number: output of drivers is read, leaks and half files are found; operations in `make test-long`."""

import errno
import itertools
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from bench.record import facts
from fuzz.inject import commands, libraries
from fuzz.inject.commands import fault_of
from fuzz.inject.contents import content_of, is_part
from fuzz.inject.recorded import Row, record
from fuzz.inject.run import ENVIRONMENT, FLAGS, HERE, OPERATIONS, SANITIZERS, read_rows, run_operation
from fuzz.inject.sandbox import PROCESSES_LEFT, Plan, Sandbox
from fuzz.inject.scenarios import Scenario
from fuzz.unit_compiler import compile_units_by
from mavcg.runtime import unit_object
from mavcg.toolchain.target import parse_target

ROOT = Path(__file__).parents[2]
OPERATION = """\
#include "calls.h"
static char *first, *second;
static int operation_of_the_product(void) {
    first = malloc(10);
    second = first ? malloc(10) : NULL;
    if (!second) {
        CLEAN_UP;
        return 1;
    }
    free(first);
    free(second);
    return 0;
}
#include "plan.h"
static int operate(void) {
    arm(1);
    int status = operation_of_the_product();
    arm(0);
    return status;
}
int main(void) { return try_all("two", operate); }
"""


def test_rows_are_read() -> None:
    output = "noise\nengine, 1 thread\tmalloc\tCannot allocate memory\t10\t0\t9\t1\nauto\topen\tno\t2\t2\t0\t0\t7\n"
    engine, auto = read_rows(output)
    assert engine == Row("engine, 1 thread", "malloc", "Cannot allocate memory", 10, 0, 9, 1)
    assert auto == Row("auto", "open", "no", 2, 2, 0, 0, first_untried=7)


def test_a_record_keeps_other_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.record.ROWS", tmp_path)
    for name in ("bench.record", "fuzz.inject.recorded"):
        monkeypatch.setattr(f"{name}.RESULTS", tmp_path / "results")
    today = {"date": "2026-01-01 10:00 UTC", "commit": "aaa"}
    monkeypatch.setattr("fuzz.inject.recorded.facts", lambda kind, command: facts(kind, command) | today)
    record([Row("blas", "mmap", "no", 4, 4, 0, 0), Row("tune", "open", "no", 9, 1, 7, 1, 5)], "c")
    today["commit"] = "bbb"
    again = [Row("tune", "open", "no", 12, 1, 11, 0, 7), Row("tune", "open", "none", 3, 3, 0, 0, 2)]
    record([*again, Row("tune", "fork", "no", 2, 2, 0, 0)], "c")
    path = tmp_path / "results/injected_failures.json"
    assert json.loads(path.read_text())["parts"][1]["rows"] == [
        ["blas", "mmap 4", "all", "4", "4", "0", "0", "2026-01-01", "aaa"],
        ["tune", "fork 2, open 15", "below 2", "17", "6", "11", "0", "2026-01-01", "bbb"],
        ["total", "", "", "21", "10", "11", "0", "", ""],
    ]


def test_an_operation_that_there_is_not() -> None:
    command = [sys.executable, "-m", "fuzz.inject.run", "no_such"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and f"they are {', '.join(OPERATIONS)}" in done.stderr


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("exit 0", []),  # its time was over before the first failure
        ("exit 3", ["the driver ended with 3"]),
        ("printf 'a\\tb\\tc\\t1\\t1\\t0\\t0\\n'; exit 1", ["the driver ended with 1"]),
        ("printf 'a\\tb\\tc\\t1\\t0\\t0\\t1\\n'; exit 1", ["c"]),
    ],
)
def test_the_end_of_a_driver_is_judged(monkeypatch: pytest.MonkeyPatch, command: str, wrong: list[str]) -> None:
    monkeypatch.setattr("fuzz.inject.run.OPERATIONS", {"one": lambda seconds: iter([["sh", "-c", command]])})
    assert [row.error for row in run_operation("one", 10) if row.wrong] == wrong


def test_a_database_counts_by_its_rows(tmp_path: Path) -> None:
    """Its pages and dates may differ; one that is damaged counts by its bytes; rows of a whole one are a part of it."""
    made = []
    for number in range(2):
        path = tmp_path / f"{number}.sqlite"
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE costs (what TEXT, date TEXT)")
            database.executemany(
                "INSERT INTO costs VALUES (?, ?)", [(str(n), f"now{number}") for n in range(3 + number)]
            )
        database.close()
        made.append(content_of(path))
    assert made[0] == b"costs: ['0']\ncosts: ['1']\ncosts: ['2']"
    assert is_part(made[0], [made[1]]) and not is_part(made[1], [made[0]]) and not is_part(made[0], [])
    path.write_bytes(path.read_bytes()[:5000])
    assert content_of(path) == path.read_bytes()


@pytest.mark.parametrize(
    ("status", "said", "leaves", "fault"),
    [
        (0, "", {"out": b"right"}, ""),
        (0, "", {}, "it ends with 0, but its files differ"),
        (2, "mavcg: no room\n", {}, ""),
        (2, "", {}, "it says nothing"),
        (2, "mavcg: no room\n", {"out": b"ri"}, "it leaves out"),
        (1, "mavcg: no room\n", {}, "exit status 1"),
        (2, "Traceback (most recent call last)", {}, "a traceback"),
        (2, f"mavcg: no room{PROCESSES_LEFT}", {}, "it leaves processes"),
        (-1, "", {}, "it hangs"),
    ],
)
def test_what_a_command_leaves_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str, leaves: Mapping[str, bytes], fault: str
) -> None:
    sandbox = Sandbox(tmp_path / "s", Scenario((), lambda folder: None))
    sandbox.reset()
    for name, content in leaves.items():
        (sandbox.work / name).write_bytes(content)

    def run_again() -> tuple[int, str, bool]:
        (sandbox.work / "out").write_bytes(b"right")
        return 0, "", False

    monkeypatch.setattr(sandbox, "run", run_again)
    found = fault_of(sandbox, {"out": b"right"}, True, status, said)
    assert found.startswith(fault) and bool(found) == bool(fault)


def test_the_same_files_are_not_recovered_from_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state with another name, content or right to remove is recovered from, and so is one where that went wrong."""
    sandbox, run = Sandbox(tmp_path / "s", Scenario((), lambda folder: None)), Mock(return_value=(0, "", False))
    monkeypatch.setattr(sandbox, "run", run)

    def runs_after(name: str, content: str, expected: Mapping[str, bytes], removes: bool = True) -> int:
        sandbox.reset()
        (sandbox.cache / name).write_text(content)
        fault_of(sandbox, expected, removes, 2, "mavcg: no room\n")
        return run.call_count

    assert [runs_after("a", "1", {"out": b""}) for _ in range(2)] == [1, 2]
    assert [runs_after("a", "1", {}) for _ in range(2)] == [3, 3]
    assert runs_after("a", "1", {}, removes=False) == 4
    assert runs_after("b", "1", {}) == 5 and runs_after("b", "2", {}) == 6


@pytest.mark.parametrize(("calls", "late", "counts", "untried"), [(3, 99, 6, 0), (0, 99, 0, 0), (3, 2, 2, 2)])
def test_calls_are_tried_until_none_fails_or_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, late: int, counts: int, untried: int
) -> None:
    """A clock that a plan moves on: two of a call, alone and with those that follow."""
    clock = itertools.count(1)
    now = 0

    def try_one(name: str, sandbox: Sandbox, expected: Mapping[str, bytes], plan: Plan) -> str:
        nonlocal now
        now = next(clock)
        return "right" if plan.at <= calls else ""

    monkeypatch.setattr(commands, "KINDS", {"write": (errno.EIO,)})
    monkeypatch.setattr(commands, "try_plan", try_one)
    monkeypatch.setattr("fuzz.inject.commands.time.monotonic", lambda: now)
    found = list(commands.try_all("one", Sandbox(tmp_path / "s", Scenario((), lambda folder: None)), {}, late - 0.5))
    assert [(each.counts["right"], each.first_untried) for each in found] == ([(counts, untried)] if counts else [])


def test_a_library_whose_c_was_compiled_as_ever_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its calls would fail, and nothing go wrong."""
    for name in ("run_zig", "open_code"):
        monkeypatch.setattr(unit_object, name, None)  # put back after the test
    monkeypatch.setattr(libraries, "run", lambda words: Path(words[-1]).write_bytes(b"ELF") and 0)
    with pytest.raises(SystemExit, match="engine: its C was not compiled with sanitizers"):
        libraries.build(tmp_path, "engine")


def test_units_of_c_are_compiled_by_a_stand_in_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))

    def write(text: bytes) -> Callable[..., str]:
        def compile_by(tool: str, words: Sequence[str], action: str, cwd: Path | None) -> str:
            Path(words[-1]).write_bytes(text)
            return ""

        return compile_by

    def made(name: str) -> bytes:
        target = parse_target("aarch64-linux-gnu.2.17")
        return unit_object.unit_object("sizes", "mavcg_sizes.h", "", target, (), tmp_path / name).read_bytes()

    monkeypatch.setattr(unit_object, "run_zig", lambda tool, words, action: write(b"zig's")(tool, words, action, None))
    assert made("before.o") == b"zig's"
    with monkeypatch.context() as patch:
        for name in ("run_zig", "open_code"):
            patch.setattr(unit_object, name, None)
        compile_units_by(write(b"another"))
        assert made("a.o") == made("a.o") == b"another"
    assert made("after.o") == b"zig's"


@pytest.mark.long
@pytest.mark.parametrize(
    ("clean_up", "counts"),
    [
        ("free(first)", [0, 4, 0]),  # the first and the second, each alone and with those that follow
        ("first = NULL", [0, 2, 2]),  # a leak where the second fails
        ("free(first); free(first)", [0, 2, 2]),
        ("first ? (void)*(volatile int *)8 : (void)0", [0, 2, 2]),
        ("free(first); for (; first;);", [0, 2, 2]),
    ],
)
def test_what_goes_wrong_is_found(tmp_path: Path, clean_up: str, counts: list[int]) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    source, driver = tmp_path / "two.c", tmp_path / "two"
    source.write_text(OPERATION.replace("CLEAN_UP", clean_up))
    flags = [*FLAGS, *SANITIZERS, "-w", "-DHANG_S=2", f"-I{HERE}"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(driver)], check=True)
    done = subprocess.run([str(driver)], capture_output=True, text=True, env=ENVIRONMENT)
    (row,) = read_rows(done.stdout)
    assert [row.right, row.refused, row.wrong] == counts and done.returncode == counts[2], done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["engine", "bounded", "application", "drop-ins", "selector", "accel", "launch", "auto", "farm serve"]
)
def test_operations_survive_or_refuse(name: str) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    rows = run_operation(name, 120)
    assert sum(row.tried for row in rows) >= 20 and not any(row.wrong for row in rows), rows
