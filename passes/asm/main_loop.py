"""The hottest loop of a function by an estimate, and how much arithmetic it does in a cycle by the model of a core.

Where no profile says which loop is hot, the one counts in which a call does most arithmetic: that of a pass times the
passes, which are estimated from the nesting of the loops (loop_nest.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.blocks import Block, Function, functions_of
from mavcg.passes.asm.dependences import Code, as_op
from mavcg.passes.asm.estimate import estimate_block, estimate_loop
from mavcg.passes.asm.loop_nest import block_runs
from mavcg.passes.asm.source import Statement, parse_source
from mavcg.passes.asm.work import total
from mavcg.timing import MissingFact, Timing


@dataclass(frozen=True)
class LoopFigure:
    """A loop's arithmetic per pass and its cycles by the model; unit: "FLOP" or "OP".

    is_hottest: False where the model cannot time a loop that is estimated to be hotter.
    """

    work: int
    unit: str
    cycles: float
    is_hottest: bool = True

    @property
    def per_cycle(self) -> float:
        return self.work / self.cycles


def main_loop(text: str, function: str, timing: Timing) -> LoopFigure | None:
    """Time the loop, or block of a larger loop, in which most arithmetic of a call is estimated to be done.

    None where no loop does any, or the model can time none that does.
    """
    statements = parse_source(text)
    chosen = next((f for f in functions_of(statements) if f.name == function), None)
    if chosen is None:
        return None
    is_hottest = True
    for index, work, unit in _hottest_first(statements, chosen):
        cycles = _cycles(statements, chosen.blocks[index], index, timing)
        if cycles is not None:
            return LoopFigure(work, unit, cycles, is_hottest)
        is_hottest = False
    return None


def _hottest_first(statements: Sequence[Statement], function: Function) -> list[tuple[int, int, str]]:
    """(block, its arithmetic per pass, unit) of the blocks of loops that do any."""
    runs = block_runs(function, statements)
    found: list[tuple[int, int, str]] = []
    for index, block in enumerate(function.blocks):
        instrs = [statements[line.statement].instr for line in block.lines] if block.in_loop else []
        done = total(instr for instr in instrs if instr is not None)
        work, unit = max((done.flops, "FLOP"), (done.int_ops, "OP"))
        if work:
            found.append((index, work, unit))
    return sorted(found, key=lambda entry: -entry[1] * runs[entry[0]])


def _cycles(statements: Sequence[Statement], block: Block, index: int, timing: Timing) -> float | None:
    """Cycles of a pass; None where an instruction or a fact about it is not known."""
    code = [(statements[line.statement].instr, line.effects) for line in block.lines]
    known = [Code(instr, effects) for instr, effects in code if instr is not None and effects is not None]
    if len(known) != len(code):
        return None
    ops = [as_op(each) for each in known]
    try:
        return (estimate_loop if block.loops_to_itself(index) else estimate_block)(ops, timing).cycles
    except MissingFact:
        return None
