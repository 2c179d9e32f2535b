"""Finds the main loop of a function and predicts its arithmetic operations per cycle by the model of a core.

Without a profile, the main loop is the one that does most arithmetic in a call: operations per iteration times the
block's frequency, which is estimated from the loop nest (loop_nest.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.blocks import Block, Function, functions_of
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.analysis.loop_nest import block_frequencies
from mavcg.passes.asm.isa.operation_count import total_operations
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.passes.asm.models.estimate import estimate_block, estimate_loop


@dataclass(frozen=True)
class LoopFigure:
    """The arithmetic of a loop and its predicted cycles.

    work: operations per iteration. unit: "FLOP" or "OP" (integer operations). cycles: per iteration. is_hottest: False
    if the model cannot time another loop that is estimated to be hotter.
    """

    work: int
    unit: str
    cycles: float
    is_hottest: bool = True

    @property
    def per_cycle(self) -> float:
        return self.work / self.cycles


def main_loop(text: str, function: str, timing: Timing) -> LoopFigure | None:
    """Predict the cycles of the function's main loop, or of its hottest block if the loop has several blocks.

    Returns: None if no loop does arithmetic, or the model cannot time any loop that does.
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
    """Return (block, operations per iteration, unit) for each block in a loop that does arithmetic, hottest first."""
    runs = block_frequencies(function, statements)
    candidates: list[tuple[int, int, str]] = []
    for index, block in enumerate(function.blocks):
        instrs = [statements[line.statement].instr for line in block.lines] if block.in_loop else []
        done = total_operations(instr for instr in instrs if instr is not None)
        work, unit = max((done.flops, "FLOP"), (done.int_ops, "OP"))
        if work:
            candidates.append((index, work, unit))
    return sorted(candidates, key=lambda entry: -entry[1] * runs[entry[0]])


def _cycles(statements: Sequence[Statement], block: Block, index: int, timing: Timing) -> float | None:
    """Return the cycles of an iteration; None if an instruction or a fact about it is unknown."""
    code = [(statements[line.statement].instr, line.effects) for line in block.lines]
    known = [Code(instr, effects) for instr, effects in code if instr is not None and effects is not None]
    if len(known) != len(code):
        return None
    ops = [code.op for code in known]
    try:
        return (estimate_loop if block.loops_to_itself(index) else estimate_block)(ops, timing).cycles
    except MissingFact:
        return None
