"""States whose shapes follow from the lengths: elements keep their values whatever shapes runs have."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.counts import Count, Dimension, Length, product_of
from mavcg.runtime.program_check import check_program
from mavcg.specs.model_program import (
    ONLY_COPY,
    WRITTEN_COPY,
    OperandAddress,
    Program,
    ProgramState,
    ProgramStep,
    ProgramTensor,
)
from tests.runtime.engine.conftest import CONSTANTS, HERE, SCRATCH, Build
from tests.runtime.engine.sanitizers import ASAN, Run

ROWS, COLUMNS = Length("rows"), Length("columns")  # 1..3 and 1..4, as in state_rows_driver.c
LARGE, SMALL = TensorType("i32", (2, 3, 2, 4)), TensorType("i32", (3, 2))
VALUE, NUMBER = OperandAddress("input", 0, 1), TensorType("i32", (1,))


def fill(name: str, target: OperandAddress, rows: int, count: Count | None) -> ProgramStep:
    """A step that writes the value of the run into each element of a state, or of the output."""
    return ProgramStep(name, "nap", "nap_1", (VALUE, target), rows, 4, rows, row_count=count)


LARGE_COUNT, SMALL_COUNT = product_of(4, ROWS, COLUMNS), product_of(2, ROWS)
STATES = (
    ProgramState("in_place", LARGE, 2, 1, 0, True, axes=(2, ROWS, 2, COLUMNS)),
    ProgramState("rows", SMALL, 3, 2, 192, False, axes=(ROWS, 2)),
    ProgramState("swapped", LARGE, 4, 3, 256, False, axes=(2, ROWS, 2, COLUMNS)),
)
PROGRAM = Program(
    "exercise",
    (ProgramTensor("x", TensorType("i32", (3, 4)), (ROWS, COLUMNS)), ProgramTensor("value", NUMBER)),
    (ProgramTensor("y", NUMBER),),
    (
        fill("in_place", OperandAddress("state", 0, ONLY_COPY), 48, LARGE_COUNT),
        fill("rows", OperandAddress("state", 192, WRITTEN_COPY), 6, SMALL_COUNT),
        fill("swapped", OperandAddress("state", 256, WRITTEN_COPY), 48, LARGE_COUNT),
        fill("y", OperandAddress("output"), 1, None),
    ),
    0,
    SCRATCH,
    len(CONSTANTS),
    0,
    states=STATES,
    state_bytes=192 + 2 * 256 + 192,
    swapped_bytes=256,
    moved_bytes=192,
    dimensions=(Dimension("rows", 1, 3), Dimension("columns", 1, 4)),
)


@pytest.mark.parametrize("flags", [(), ASAN])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_any_order_of_shapes(build_checked: Build, run: Run, flags: tuple[str, ...], threads: str) -> None:
    program = build_checked(flags, program=PROGRAM, driver=HERE / "state_rows_driver.c")
    done = run(program, threads, ASAN_OPTIONS="detect_leaks=1")
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_only_states_with_an_axis_outside_of_the_lengths_move() -> None:
    assert [state.moves for state in STATES] == [True, False, True]
    assert [state.shaped_axes for state in STATES] == [4, 1, 4]
    fixed = ProgramState("fixed", LARGE, 2, 1, 0, True)
    assert (fixed.moves, fixed.shaped_axes) == (False, 0)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ((2, ROWS, 2), "tensor 'in_place': 3 axes for"),
        ((2, ROWS, 2, ROWS), "tensor 'in_place': 4 is planned, and rows is 3 at the longest lengths"),
        ((2, ROWS, 2, Length("depth")), "the count depth is of a dimension that the program does not have"),
    ],
)
def test_states_whose_counts_are_not_those_of_the_plan(axes: tuple[Count, ...], words: str) -> None:
    check_program(PROGRAM)
    with pytest.raises(MavcgError, match=words):
        check_program(replace(PROGRAM, states=(replace(STATES[0], axes=axes), *STATES[1:])))


def test_no_operand_lies_in_the_memory_in_which_states_are_ordered() -> None:
    beyond = fill("beyond", OperandAddress("state", 449, WRITTEN_COPY), 1, None)
    with pytest.raises(MavcgError, match="step 'beyond': an operand at"):
        check_program(replace(PROGRAM, steps=(*PROGRAM.steps, beyond)))
