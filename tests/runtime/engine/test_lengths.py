"""Several bounded dimensions: rows, axes and words that follow from lengths; shapes and programs that do not fit."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.counts import Count, CountQuotient, Dimension, Length, product_of, quotient_of, sum_of
from mavcg.runtime.model_header import header_text
from mavcg.runtime.program_check import check_program
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor
from tests.runtime.engine.conftest import CONSTANTS, HERE, SCRATCH, Build
from tests.runtime.engine.sanitizers import ASAN, Run

A, B = Length("a"), Length("b")  # 1..6 and 2..8, as in lengths_driver.c
CELLS, TWICE, HALVES = product_of(A, B), sum_of(product_of(2, B), 1), quotient_of(sum_of(A, 2), 2)


def words(name: str, word: Count, output: int, rows: Count, most: int) -> ProgramStep:
    """A step that writes a word into each of its rows."""
    operands = (OperandAddress("count", count=word), OperandAddress("output", index=output))
    return ProgramStep(name, "nap", "nap_1", operands, most, 4, most, row_count=rows)


def spans(name: str, output: int, chunk: int, most: int, rows: Count) -> ProgramStep:
    """A step of calls of 8 rows that writes the rows of its call into each of its rows."""
    out = (OperandAddress("output", index=output),)
    return ProgramStep(name, "spans", "spans_1", out, most, chunk, most, call_rows=8, row_count=rows)


PROGRAM = Program(
    "exercise",
    (
        ProgramTensor("x", TensorType("i32", (6, 8, 3)), (A, B, 3)),
        ProgramTensor("y", TensorType("f32", (17,)), (TWICE,)),
    ),
    (
        ProgramTensor("p", TensorType("i32", (48,)), (CELLS,)),
        ProgramTensor("q", TensorType("i32", (4,)), (HALVES,)),
        ProgramTensor("whole", TensorType("i32", (48,)), (CELLS,)),
        ProgramTensor("shared", TensorType("i32", (48,)), (CELLS,)),
    ),
    (
        words("cells", TWICE, 0, CELLS, 48),
        words("halves", CELLS, 1, HALVES, 4),
        spans("whole", 2, 48, 48, CELLS),
        spans("shared", 3, 4, 48, CELLS),
    ),
    4096,
    SCRATCH,
    len(CONSTANTS),
    4096,
    dimensions=(Dimension("a", 1, 6), Dimension("b", 2, 8)),
)
STEP, X = PROGRAM.steps[0], PROGRAM.inputs[0]


@pytest.mark.parametrize("flags", [(), ASAN])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_every_length_of_two_dimensions(build_checked: Build, run: Run, flags: tuple[str, ...], threads: str) -> None:
    program = build_checked(flags, program=PROGRAM, driver=HERE / "lengths_driver.c")
    done = run(program, threads, ASAN_OPTIONS="detect_leaks=1")
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_the_header_says_what_follows_from_the_lengths() -> None:
    text = header_text(PROGRAM)
    for line in (
        "0  x: i32[a,b,3], 12 * a * b bytes",
        "1  y: f32[2*b + 1], 4 * (2 * b + 1) bytes",
        "0  p: i32[a*b], 4 * a * b bytes",
        "1  q: i32[(a + 2) / 2], 4 * ((a + 2) / 2) bytes",
        " * a is 1 to 6, in each run anew.\n * b is 2 to 8, in each run anew.\n",
    ):
        assert line in text


def with_step(**changes: object) -> Program:
    return replace(PROGRAM, steps=(replace(STEP, **changes), *PROGRAM.steps[1:]))  # type: ignore[arg-type]


def with_word(count: Count) -> Program:
    return with_step(operands=(OperandAddress("count", count=count), STEP.operands[1]))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (with_step(rows=47), "step 'cells': 47 is planned, and a \\* b is 48 at the longest lengths"),
        (with_step(row_count=product_of(A, A, B)), "48 is planned, and a \\* a \\* b is 288"),
        (with_step(row_count=Length("c")), "the count c is of a dimension that the program does not have"),
        (with_step(row_count=sum_of(CELLS, -2), rows=46), "a \\* b - 2 is 0 to 46; a run counts 1 to"),
        (with_word(product_of(1 << 26, CELLS)), "is 134217728 to 3221225472; a run counts 1 to 2147483647"),
        (with_word(product_of(1 << 62, CELLS)), "step 'cells': the count .* becomes .*; at most"),
        (with_word(product_of(sum_of(A, -2), B)), "becomes -1 at the least lengths, in a product or quotient"),
        (with_word(CountQuotient(sum_of(A, -2), 2)), "becomes -1 at the least lengths, in a product or quotient"),
        (with_step(operands=(OperandAddress("count"),)), "an operand at"),
        (replace(PROGRAM, inputs=(replace(X, axes=(A, B)), PROGRAM.inputs[1])), "tensor 'x': 2 axes for"),
        (replace(PROGRAM, inputs=(replace(X, axes=(6, B, 3)), PROGRAM.inputs[1])), "no input has an axis .* a \\(1 to"),
        (replace(PROGRAM, inputs=(replace(X, axes=(A, B, 4)), PROGRAM.inputs[1])), "tensor 'x': 3 is planned, and 4"),
    ],
)
def test_programs_whose_counts_are_not_those_of_the_plan(program: Program, words: str) -> None:
    check_program(PROGRAM)
    with pytest.raises(MavcgError, match=words):
        check_program(program)
