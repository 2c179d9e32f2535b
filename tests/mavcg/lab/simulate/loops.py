"""Counted loops in text, their cycles by the simulator and by the analytic models."""

from collections.abc import Sequence

from mavcg.assembly.code_image import CodeImage, assemble_image
from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.call_arguments import CallState, call_state
from mavcg.lab.simulate.simulated_program import CallCounts, SimulatedProgram
from mavcg.lab.simulate.simulation import parse_arguments_of_call
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

TAIL = ("subs x0, x0, #1", "b.ne 1b")


def loop_image(bodies: Sequence[Sequence[str]]) -> CodeImage:
    """An image with a function f0, f1, .. for each body: the body x0 times."""
    functions = []
    for number, body in enumerate(bodies):
        lines = "\n\t".join((*body, *TAIL))
        functions.append(
            f"\t.globl f{number}\n\t.type f{number}, %function\n\t.p2align 6\nf{number}:\n1:\t{lines}\n\tret\n"
        )
    return assemble_image("\t.text\n" + "".join(functions))


def ops_of(body: Sequence[str]) -> tuple[Op, ...]:
    """The ops of a loop with this body, its counter and branch included."""
    return tuple(
        code.op for code in with_effects([parse_instr(text) for text in (*body, "subs x0, x0, #1", "b.ne .L")])
    )


def state(words: str) -> CallState:
    return call_state(parse_arguments_of_call(words))


def ideal_program(image: CodeImage, core: str, timing: Timing | None = None) -> SimulatedProgram:
    """The image on a core whose accesses all hit in level 1."""
    kind = load_core(core)
    return SimulatedProgram(image, timing or load_timing(kind), simulated_core(kind).with_ideal_memory())


def counts(program: SimulatedProgram, function: str, words: str) -> CallCounts:
    """The counts of a second call, when the predictor knows the function."""
    program.call(program.image.symbols[function], state(words))
    return program.call(program.image.symbols[function], state(words))


def cycles_per_iteration(
    program: SimulatedProgram, function: str, more: str = "buf:65536", few: int = 64, many: int = 320
) -> float:
    """Cycles of one iteration in the steady state: the difference of two long calls."""
    cycles = [counts(program, function, f"i:{n} {more}").cycles for n in (few, many)]
    return (cycles[1] - cycles[0]) / (many - few)
