"""Counts the arithmetic operations of instructions, as the numerator of a kernel's operations per cycle.

The convention is that of kernel benchmarks: a multiply-add is two operations; moves, conversions, comparisons, shifts
and the integer arithmetic of addresses and counters are none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mavcg.passes.asm.isa.syntax import Instr, Reg

_ELEMENT = re.compile(r"(\d+)([bhsd])$")


@dataclass(frozen=True)
class OperationCount:
    """Numbers of floating-point operations, integer vector operations, and multiply-accumulates."""

    flops: int = 0
    int_ops: int = 0
    macs: int = 0

    def __add__(self, other: "OperationCount") -> "OperationCount":
        return OperationCount(self.flops + other.flops, self.int_ops + other.int_ops, self.macs + other.macs)


# Operations for each element of the result.
_FP = {
    **dict.fromkeys("fadd fsub fabd fmul fmulx fnmul fdiv fsqrt faddp fcadd frecps frsqrts".split(), (1, 0)),
    **dict.fromkeys("fmla fmls fmlal fmlal2 fmlsl fmlsl2 fcmla fmadd fmsub fnmadd fnmsub".split(), (2, 1)),
    **dict.fromkeys("bfmlalb bfmlalt".split(), (2, 1)),
    "bfdot": (4, 2),
    "bfmmla": (8, 4),  # each of 2x2 results is a dot product of 4
}
_INT = {
    **dict.fromkeys("add sub addp mul sqdmulh sqrdmulh sabd uabd addhn addhn2 subhn subhn2".split(), (1, 0)),
    **dict.fromkeys("saddl saddl2 uaddl uaddl2 saddw saddw2 uaddw uaddw2 ssubl ssubl2 usubl usubl2".split(), (1, 0)),
    **dict.fromkeys("ssubw ssubw2 usubw usubw2 saddlp uaddlp".split(), (1, 0)),
    # The products of 8-bit kernels without a dot product: their additions are sadalp's, or follow from the next smlal.
    **dict.fromkeys("smull smull2 umull umull2".split(), (1, 1)),
    **dict.fromkeys("sqdmull sqdmull2 sqadd uqadd sqsub uqsub".split(), (1, 0)),
    **dict.fromkeys("sadalp uadalp saba uaba sabal sabal2 uabal uabal2".split(), (2, 0)),
    **dict.fromkeys("mla mls smlal smlal2 umlal umlal2 smlsl smlsl2 umlsl umlsl2".split(), (2, 1)),
    **dict.fromkeys("sqdmlal sqdmlal2 sqdmlsl sqdmlsl2 sqrdmlah sqrdmlsh".split(), (2, 1)),
    **dict.fromkeys("sdot udot usdot sudot".split(), (8, 4)),
    **dict.fromkeys("smmla ummla usmmla".split(), (16, 8)),
}


def count_operations(instr: Instr) -> OperationCount:
    """Count the arithmetic of one instruction. `fmla v.4s`: 8 FLOP, 4 MAC; `sdot v.4s`: 32 operations, 16 MAC."""
    match instr.operands:
        case (Reg(is_vector=True) as to, *_):
            return _vector_operations(instr.mnemonic, to)
    return OperationCount()


def _vector_operations(mnemonic: str, to: Reg) -> OperationCount:
    element = _ELEMENT.match(to.arrangement)
    count = int(element[1]) if element else 1
    if mnemonic in _FP:
        ops, macs = _FP[mnemonic]
        return OperationCount(flops=count * ops, macs=count * macs)
    if mnemonic in _INT:
        ops, macs = _INT[mnemonic]
        return OperationCount(int_ops=count * ops, macs=count * macs)
    return OperationCount()


def total_operations(instrs: Iterable[Instr]) -> OperationCount:
    """Count the arithmetic of all instructions."""
    return sum(map(count_operations, instrs), OperationCount())
