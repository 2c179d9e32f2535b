"""Failure by number: output of drivers is read, leaks and hangs are found; operations in `make test-long`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.inject.run import ENVIRONMENT, FLAGS, HERE, OPERATIONS, SANITIZERS, Row, read_rows, run_operation

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
    output = "noise\nengine, 1 thread\tmalloc\tCannot allocate memory\t10\t0\t9\t1\n"
    assert list(read_rows(output)) == [Row("engine, 1 thread", "malloc", "Cannot allocate memory", 10, 0, 9, 1)]


def test_an_operation_that_there_is_not() -> None:
    command = [sys.executable, "-m", "fuzz.inject.run", "no_such"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and f"they are {', '.join(OPERATIONS)}" in done.stderr


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
@pytest.mark.parametrize("name", ["engine", "bounded", "application", "selector", "accel", "launch"])
def test_operations_survive_or_refuse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.inject.run.COMMAND_SECONDS", 120)
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    rows = run_operation(name)
    assert sum(row.tried for row in rows) >= 20 and not any(row.wrong for row in rows), rows
