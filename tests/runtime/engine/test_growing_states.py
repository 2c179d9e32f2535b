"""States that grow: the context holds their length, which runs, resets and restores change; a run begins in bounds."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.counts import Dimension, Length, product_of, sum_of
from mavcg.runtime.model_header import tensor_lists
from mavcg.runtime.program_check import check_program
from mavcg.specs.model_program import (
    READ_COPY,
    WRITTEN_COPY,
    OperandAddress,
    Program,
    ProgramState,
    ProgramStep,
    ProgramTensor,
)
from tests.runtime.engine.conftest import CONSTANTS, HERE, SCRATCH, Build
from tests.runtime.engine.sanitizers import ASAN, Run

PAST, ROWS = Length("past"), Length("rows")  # 1..4 and 1..3, as in growing_driver.c
GROWN = sum_of(PAST, ROWS)
LONGEST = TensorType("i32", (2, 4 + 3))
VALUE = OperandAddress("input", 0, 1)


def fill(name: str, source: OperandAddress, target: OperandAddress, rows: int, count: object) -> ProgramStep:
    """A step that writes the first number of its source into so many elements."""
    return ProgramStep(name, "nap", "nap_1", (source, target), rows, 4, rows, row_count=count)  # type: ignore[arg-type]


CACHE = ProgramState("cache", LONGEST, 2, 1, 0, False, axes=(2, PAST), next_axes=(2, GROWN))
PROGRAM = Program(
    "exercise",
    (ProgramTensor("x", TensorType("i32", (3,)), (ROWS,)), ProgramTensor("value", TensorType("i32", (1,)))),
    (ProgramTensor("before", TensorType("i32", (4,)), (PAST,)),),
    (
        fill("before", OperandAddress("state", 0, READ_COPY), OperandAddress("output"), 4, PAST),
        fill("cache", VALUE, OperandAddress("state", 0, WRITTEN_COPY), 14, product_of(2, GROWN)),
    ),
    0,
    SCRATCH,
    len(CONSTANTS),
    0,
    states=(CACHE,),
    state_bytes=128,
    swapped_bytes=64,
    dimensions=(Dimension("rows", 1, 3), Dimension("past", 1, 4)),
)


@pytest.mark.parametrize("flags", [(), ASAN])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_any_order_of_runs(build_checked: Build, run: Run, flags: tuple[str, ...], threads: str) -> None:
    program = build_checked(flags, program=PROGRAM, driver=HERE / "growing_driver.c")
    done = run(program, threads, ASAN_OPTIONS="detect_leaks=1")
    assert (done.stdout, done.stderr) == ("ok\n", "")


@pytest.mark.parametrize(
    ("next_axes", "words"),
    [
        ((2, PAST), "tensor 'cache': 7 is planned, and past is 4 at the longest lengths"),
        ((2, ROWS), "tensor 'cache': 7 is planned, and rows is 3 at the longest lengths"),
        ((2, sum_of(PAST, ROWS, ROWS)), "7 is planned, and past [+] rows [+] rows is 10"),
    ],
)
def test_states_whose_next_lengths_are_not_those_of_the_plan(next_axes: tuple[object, ...], words: str) -> None:
    check_program(PROGRAM)
    assert PROGRAM.grown_lengths == {"past": GROWN}
    cache = replace(CACHE, next_axes=next_axes)  # type: ignore[arg-type]
    with pytest.raises(MavcgError, match=words):
        check_program(replace(PROGRAM, states=(cache,)))


def test_a_next_length_below_the_least_one_is_refused() -> None:
    cache = replace(CACHE, type=TensorType("i32", (2, 3)), next_axes=(2, ROWS))
    longer = replace(PROGRAM, dimensions=(Dimension("rows", 1, 3), Dimension("past", 2, 4)), states=(cache,))
    with pytest.raises(MavcgError, match="the length of past becomes rows, which may be less than its least one, 2"):
        check_program(longer)


def test_the_header_says_whose_length_it_is() -> None:
    told = " * rows is 1 to 3, in each run anew.\n * past is 1 to 4: kept by the context, past + rows after a run.\n"
    assert tensor_lists(PROGRAM).endswith(told)
