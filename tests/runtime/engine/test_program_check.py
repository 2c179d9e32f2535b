"""Programs that the engine's tables cannot hold are refused."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.runtime.program_check import check_program
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor

T = TensorType("f32", (2, 3))
STEP = ProgramStep(
    "n", "op", "k_1", (OperandAddress("input"), OperandAddress("arena", 8), OperandAddress("output")), 6, 4, 6
)
PROGRAM = Program("m", (ProgramTensor("x", T),), (ProgramTensor("y", T),), (STEP,), 64, 0, 0, 64)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (replace(STEP, rows=0), "0 rows in chunks of 4"),
        (replace(STEP, min_chunk_rows=0), "6 rows in chunks of 0"),
        (replace(STEP, call_rows=-1), "calls of -1"),
        (replace(STEP, rows=1 << 31, min_chunk_rows=1 << 20), "2147483648 rows; the engine counts up to 2147483647"),
        (replace(STEP, operands=(OperandAddress("arena", 65),)), "an operand at"),
        (replace(STEP, operands=(OperandAddress("arena", -1),)), "an operand at"),
        (replace(STEP, operands=(OperandAddress("input", 0, 1),)), "an operand at"),
        (replace(STEP, operands=(OperandAddress("output", 25, 0),)), "an operand at"),
        (replace(STEP, operands=(OperandAddress("constants", 1),)), "an operand at"),
    ],
)
def test_steps_that_the_engine_could_not_run(step: ProgramStep, words: str) -> None:
    with pytest.raises(MavcgError, match=f"step 'n': .*{words}"):
        check_program(replace(PROGRAM, steps=(step,)))


@pytest.mark.parametrize(("axis", "word", "words"), [(2, 0, 1), (-1, 0, 1), (0, 1, 1), (1, 0, 0)])
def test_lengths_that_no_word_decides(axis: int, word: int, words: int) -> None:
    output = ProgramTensor("y", T, counted_axis=axis, counted=word)
    with pytest.raises(MavcgError, match=f"output y: axis {axis} by word {word} of {words}"):
        check_program(replace(PROGRAM, outputs=(output,), counted=words))
    with pytest.raises(MavcgError, match="an operand at"):
        check_program(replace(PROGRAM, steps=(replace(STEP, operands=(OperandAddress("counted", 0, 1),)),), counted=1))


def test_more_weights_than_code_can_reach() -> None:
    with pytest.raises(MavcgError, match="3000000000 bytes of weights"):
        check_program(replace(PROGRAM, constants_bytes=3_000_000_000))


def refusal(program: Program) -> str:
    """Return why a program is refused; "" if it is not."""
    try:
        check_program(program)
    except MavcgError as error:
        return str(error)
    return ""


def test_operands_up_to_the_end_of_their_memory_are_held() -> None:
    ends = (OperandAddress("arena", 64), OperandAddress("output", 24, 0), OperandAddress("constants", 0))
    assert [refusal(replace(PROGRAM, steps=(replace(STEP, operands=(end,)),))) for end in ends] == ["", "", ""]
    assert refusal(PROGRAM) == ""
