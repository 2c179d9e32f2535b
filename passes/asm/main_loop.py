"""Which loop of a function does most arithmetic in a pass, and how much of it in a cycle by the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.blocks import Function, functions_of
from mavcg.passes.asm.dependences import Code, as_op
from mavcg.passes.asm.estimate import estimate_block, estimate_loop
from mavcg.passes.asm.source import Statement, parse_source
from mavcg.passes.asm.work import total
from mavcg.timing import MissingFact, Timing


@dataclass(frozen=True)
class LoopFigure:
    """A loop's arithmetic per pass and its cycles by the model; unit: "FLOP" or "OP"."""

    work: int
    unit: str
    cycles: float

    @property
    def per_cycle(self) -> float:
        return self.work / self.cycles


def main_loop(text: str, function: str, timing: Timing) -> LoopFigure | None:
    """The loop, or block of a larger loop, of a function in which most arithmetic is done in one pass.

    None where no loop does any, or the core lacks facts about all that do.
    """
    statements = parse_source(text)
    found = [f for f in functions_of(statements) if f.name == function]
    return max(_figures(statements, found[0], timing), key=lambda f: f.work, default=None) if found else None


def _figures(statements: Sequence[Statement], function: Function, timing: Timing) -> list[LoopFigure]:
    figures = []
    for index, block in enumerate(function.blocks):
        code = [(statements[ln.statement].instr, ln.effects) for ln in block.lines]
        if not block.in_loop or any(instr is None or effect is None for instr, effect in code):
            continue
        whole = [(instr, effect) for instr, effect in code if instr is not None and effect is not None]
        done = total(instr for instr, _ in whole)
        work, unit = max((done.flops, "FLOP"), (done.int_ops, "OP"))
        if not work:
            continue
        ops = [as_op(Code(instr, effect)) for instr, effect in whole]
        try:
            estimate = estimate_loop(ops, timing) if block.loops_to_itself(index) else estimate_block(ops, timing)
        except MissingFact:
            continue
        figures.append(LoopFigure(work, unit, estimate.cycles))
    return figures
