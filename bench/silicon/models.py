"""The models that are compared with published figures: each gives the cycles of a call on a core.

A model takes a `Run` (an image, a function of it, arguments, and the instructions that the call executes) and a core's
timing. A further model, such as a simulator, is a further entry of MODELS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from bench.silicon.dynamic_path import NotModelled
from mavcg.assembly.code_image import CodeImage
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.models.estimate import block_cycles, repeated_cycles


@dataclass(frozen=True)
class Run:
    """One call, as input of a model.

    ops: executed instructions in order. in_a_row: calls between two readings of the clock, over which the published
    figure is the mean.
    """

    image: CodeImage
    function: str
    arguments: str
    ops: tuple[Op, ...]
    in_a_row: int = 1


_MOST_ARGUMENTS = 8  # that the calling convention passes in registers


@cache
def _caller(arguments: int) -> tuple[Op, ...]:
    """Return the instructions that the benchmark executes for each call: a move for every argument, and the call."""
    moves = [f"\tmov x{n}, x{19 + n % 8}\n" for n in range(min(arguments, _MOST_ARGUMENTS))]
    instrs = [statement.instr for statement in parse_source("".join((*moves, "\tblr x28\n")))]
    return tuple(code.op for code in with_effects([instr for instr in instrs if instr is not None]))


Model = Callable[[Run, Timing], float]
# A benchmark calls a function thousands of times. Six calls of 20 cycles are over before the lines of their first
# stores have come from memory, which the seventh would wait for.
WARM_CALLS = 64
MOST_IN_A_ROW = 16  # calls that the simulator runs in a row; the mean of more differs by less than the figures do


def analytic_cycles(run: Run, timing: Timing) -> float:
    """Return the cycles of the pipeline models for the executed instructions as one straight line of code.

    In order: issue by issue. Out of order: with a window and queues, or a larger lower bound. Both leave out branch
    misses, caches and what goes through memory. Raises: NotModelled where the core's facts do not suffice.
    """
    try:
        if run.in_a_row == 1:
            return block_cycles(run.ops, timing)
        return repeated_cycles((*_caller(len(run.arguments.split())), *run.ops), timing, run.in_a_row)
    except MavcgError as error:
        raise NotModelled(str(error)) from None


def simulated_cycles(run: Run, timing: Timing) -> float:
    """Return the mean cycles of as many calls in a row as the benchmark makes, in the simulator, after calls that let
    the branch predictor learn it.

    Raises: NotModelled where the call does not return, or the core's facts do not suffice.
    """
    from mavcg.cost.core_facts import simulated_core
    from mavcg.lab.simulate.call_arguments import call_state
    from mavcg.lab.simulate.simulated_program import SimulatedProgram
    from mavcg.lab.simulate.simulation import parse_arguments_of_call
    from mavcg.profiles.load import load_core

    try:
        program = SimulatedProgram(run.image, timing, simulated_core(load_core(timing.core)))
        state, address = call_state(parse_arguments_of_call(run.arguments)), run.image.symbols[run.function]
        for _ in range(WARM_CALLS):
            program.call(address, state)
        calls = min(run.in_a_row, MOST_IN_A_ROW)
        return sum(program.call(address, state, follows=number > 0).cycles for number in range(calls)) / calls
    except MavcgError as error:
        raise NotModelled(str(error)) from None


MODELS: Mapping[str, Model] = {"analytic": analytic_cycles, "simulated": simulated_cycles}
