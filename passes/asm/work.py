"""How much arithmetic an instruction does, and which loop of a function does most of it in a pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.passes.asm.blocks import Function, functions_of
from mavcg.passes.asm.dependences import Code, as_op
from mavcg.passes.asm.estimate import estimate_block, estimate_loop
from mavcg.passes.asm.isa import Effects
from mavcg.passes.asm.source import Statement, parse_source
from mavcg.passes.asm.syntax import Instr
from mavcg.timing import MissingFact, Timing

_LANE_BITS = {"b": 8, "h": 16, "s": 32, "d": 64}
_TWO = ("fmla", "fmadd", "mla", "mlal", "mul_w", "mul_x", "mull")  # a multiplication and an addition
_FLOAT_ONE = ("fadd", "fmul", "fdiv", "fsqrt", "faddp", "frecpe")
_INT_ONE = ("mul", "addl", "adalp", "addp", "sqadd")


@dataclass(frozen=True)
class Work:
    """Operations: floating-point ones (FLOP) and integer ones (OP); a multiply-add is two."""

    flop: int = 0
    op: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flop + other.flop, self.op + other.op)


@dataclass(frozen=True)
class LoopFigure:
    """A loop's arithmetic per pass and its cycles by the model; unit: "FLOP" or "OP"."""

    work: int
    unit: str
    cycles: float

    @property
    def per_cycle(self) -> float:
        return self.work / self.cycles


def work_of(instr: Instr, effect: Effects) -> Work:
    """The operations of one instruction; 0 for what moves, compares or counts."""
    name = effect.op_class
    stem = name.removesuffix("_q").removesuffix("_d").removesuffix("_s").removesuffix("_lane")
    registers = instr.registers()
    if not registers or not registers[0].is_vector:
        return Work()
    lanes = _lanes(registers[0].arrangement)
    if stem == "dot":
        return Work(op=8 * lanes) if not instr.mnemonic.startswith("bf") else Work(flop=4 * lanes)
    if stem == "mmla":
        return Work(op=16 * lanes) if instr.mnemonic in ("smmla", "ummla", "usmmla") else Work(flop=8 * lanes)
    if stem in ("fmla", "fmadd"):
        return Work(flop=2 * lanes)
    if stem in _FLOAT_ONE or name in ("fdiv_f64", "fsqrt_f64"):
        return Work(flop=lanes)
    if stem in ("mla", "mlal"):
        return Work(op=2 * lanes)
    if stem in ("mull", *_INT_ONE) and name != "mulh":
        return Work(op=lanes)
    return Work()


def _lanes(arrangement: str) -> int:
    return int(arrangement[:-1] or 1) if arrangement else 1


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
        total = sum((work_of(instr, effect) for instr, effect in whole), Work())
        work, unit = max((total.flop, "FLOP"), (total.op, "OP"))
        if not work:
            continue
        ops = [as_op(Code(instr, effect)) for instr, effect in whole]
        try:
            estimate = estimate_loop(ops, timing) if block.loops_to_itself(index) else estimate_block(ops, timing)
        except MissingFact:
            continue
        figures.append(LoopFigure(work, unit, estimate.cycles))
    return figures
