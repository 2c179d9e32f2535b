"""Loops in the step list: rows that advance, conditions, cancelled runs; and loops that the tables cannot hold."""

from dataclasses import replace

import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.runtime.program_check import check_program
from mavcg.specs.model_program import OperandAddress, Program, ProgramLoop, ProgramPhase, ProgramStep, ProgramTensor
from tests.runtime.engine.conftest import CONSTANTS, HERE, LENGTH, SCRATCH, Build
from tests.runtime.engine.sanitizers import ASAN, TSAN, Run

TRIPS, INNER = 6, 2  # as in loops_driver.c
ROW = 4 * LENGTH
STATE, TEMPORARY, CONDITION = (OperandAddress("arena", offset) for offset in (0, 4096, 8192))
X, MS, ROWS, Y = (
    OperandAddress("input"),
    OperandAddress("input", 0, 1),
    OperandAddress("output"),
    OperandAddress("output", 0, 1),
)


def chain(name: str, source: OperandAddress, target: OperandAddress) -> ProgramStep:
    return ProgramStep(name, "chain", "chain_1", (source, OperandAddress("constants", 64), target), LENGTH, 64, 2000)


def nap(name: str, ms: OperandAddress) -> ProgramStep:
    return ProgramStep(name, "nap", "nap_1", (ms, CONDITION), 1, 1, 1)


PROGRAM = Program(
    "exercise",
    (ProgramTensor("x", TensorType("f32", (LENGTH,))), ProgramTensor("ms", TensorType("i32", (TRIPS + 1,)))),
    (
        ProgramTensor("rows", TensorType("f32", (TRIPS, INNER, LENGTH))),
        ProgramTensor("y", TensorType("f32", (LENGTH,))),
    ),
    (
        nap("first", MS),
        chain("in", X, STATE),
        nap("nap", replace(MS, offset=4, strides=((0, 4),))),
        chain("there", STATE, TEMPORARY),
        chain("back", TEMPORARY, STATE),
        chain("row", STATE, replace(ROWS, strides=((0, INNER * ROW), (1, ROW)))),
        chain("out", STATE, Y),
    ),
    3 * 4096,
    SCRATCH,
    len(CONSTANTS),
    3 * 4096,
    loops=(ProgramLoop(2, 6, TRIPS, CONDITION), ProgramLoop(3, 6, INNER, number=1)),
)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_loops_run(build_checked: Build, run: Run, threads: str) -> None:
    program = build_checked(program=PROGRAM, driver=HERE / "loops_driver.c")
    assert run(program, threads, "21").stdout == "ok\n"


@pytest.mark.long
@pytest.mark.parametrize("flags", [TSAN, ASAN])
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_loops_run_under_sanitizers(build_checked: Build, run: Run, flags: tuple[str, ...], threads: str) -> None:
    program = build_checked(flags, program=PROGRAM, driver=HERE / "loops_driver.c")
    done = run(program, threads, "140", TSAN_OPTIONS="halt_on_error=1", ASAN_OPTIONS="detect_leaks=1")
    assert done.stdout == "ok\n"


LOOP, IN_LOOP = PROGRAM.loops


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (replace(PROGRAM, loops=(replace(LOOP, end=2),)), "1 to 2147483647 iterations of steps"),
        (replace(PROGRAM, loops=(replace(LOOP, end=8),)), "of steps that no other has"),
        (replace(PROGRAM, loops=(replace(LOOP, begin=-1),)), "of steps that no other has"),
        (replace(PROGRAM, loops=(replace(LOOP, trips=0),)), "trips=0"),
        (replace(PROGRAM, loops=(replace(LOOP, trips=1 << 31),)), "1 to 2147483647 iterations"),
        (replace(PROGRAM, loops=(LOOP, replace(LOOP, begin=5, end=7))), "of steps that no other has"),
        (replace(PROGRAM, loops=(IN_LOOP, LOOP)), "of steps that no other has"),
        (replace(PROGRAM, loops=(LOOP, replace(IN_LOOP, number=0))), "two loops of one number"),
        (replace(PROGRAM, loops=(LOOP, replace(IN_LOOP, trips=INNER + 1))), "step 'row': an operand at"),
        (replace(PROGRAM, loops=(LOOP,)), "step 'row': an operand at"),
        (replace(PROGRAM, loops=(LOOP, *[IN_LOOP] * 64)), "nested at most 64 deep"),
        (replace(PROGRAM, loops=(replace(LOOP, trips=TRIPS + 1),)), "step 'nap': an operand at"),
        (replace(PROGRAM, loops=()), "step 'nap': an operand at .*strides=.*4"),
        (replace(PROGRAM, loops=(replace(LOOP, condition=OperandAddress("arena", 12289)),)), "its condition is not in"),
        (replace(PROGRAM, loops=(replace(LOOP, condition=OperandAddress("input", 0, 2)),)), "its condition is not in"),
        (replace(PROGRAM, loops=(replace(LOOP, condition=replace(MS, strides=((0, 4),))),)), "its condition is not in"),
        (replace(PROGRAM, phases=(ProgramPhase(0, 0, 1, (MS, CONDITION)),)), "loops with phases"),
    ],
)
def test_loops_that_the_engine_could_not_run(program: Program, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        check_program(program)


def test_rows_may_advance_backwards_to_the_first() -> None:
    back = replace(ROWS, offset=(TRIPS * INNER - 1) * ROW, strides=((0, -INNER * ROW), (1, -ROW)))
    step = chain("row", STATE, back)
    steps = (*PROGRAM.steps[:5], step, PROGRAM.steps[6])
    check_program(replace(PROGRAM, steps=steps))
    outside = replace(step, operands=(STATE, replace(step.operands[2], offset=(TRIPS * INNER - 2) * ROW)))
    with pytest.raises(MavcgError, match="step 'row': an operand at"):
        check_program(replace(PROGRAM, steps=(*steps[:5], outside, steps[6])))
