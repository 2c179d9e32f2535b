"""Software pipelining: emits a modulo schedule as prologue, kernel and epilogue in place of a loop of one block.

The loop is a do-while loop, so its first iteration always runs. A later iteration begins only after the previous one's
branch, which ends stage 0: the code executes nothing that the loop would not have executed, and is right for any
number of iterations, 1 included. For stages A and B (A ends with the branch):

    loop:   A           first iteration begins
            b.done out
    kernel: B | A       one iteration's end and the next one's beginning, interleaved
            b.more kernel
    out:    B           the last iteration ends

Source: Rau, "Iterative Modulo Scheduling" (1994), section 1; Lam, "Software Pipelining" (PLDI 1988).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.isa.op import Schedule
from mavcg.passes.asm.isa.syntax import INVERSE, Instr, RawOperand
from mavcg.passes.asm.schedule.modulo import kernel_order
from mavcg.passes.asm.schedule.nop_padding import NOP, NOP_INSTR

_INVERSE_TEST = {"cbz": "cbnz", "cbnz": "cbz", "tbz": "tbnz", "tbnz": "tbz"}


@dataclass(frozen=True)
class PipelinedLoop:
    """The code of a software-pipelined loop.

    parts: (label, instructions) in the order of the text; label "" for none. kernel: indices into the body in the
    kernel's order, NOP for padding. stages: number of iterations in flight at once.
    """

    parts: tuple[tuple[str, tuple[Instr, ...]], ...]
    kernel: tuple[int, ...]
    stages: int


def emit_pipeline(
    body: Sequence[Instr], schedule: Schedule, label: str, order: tuple[int, ...] | None = None
) -> PipelinedLoop:
    """Emit the code of a modulo schedule.

    Args:
        body: one iteration, its branch last; no register is overwritten before its last read in the schedule.
        label: prefix of the new labels; no other label of the file may begin with it.
        order: the kernel's order, its branch last; by default modulo.kernel_order. NOPs in it go into the kernel only.
    """
    last = len(body) - 1
    order = order or kernel_order(schedule, last)
    stage = [cycle // schedule.interval for cycle in schedule.cycles]
    stages = max(stage) + 1
    branch = body[last]
    kernel = tuple(NOP_INSTR if i == NOP else body[i] for i in order[:-1]) + (with_target(branch, f"{label}_kernel"),)
    if stages == 1:
        return PipelinedLoop(((f"{label}_kernel", kernel),), order, 1)

    def run(first: int, final: int) -> tuple[Instr, ...]:
        return tuple(body[i] for i in order[:-1] if i != NOP and first <= stage[i] <= final)

    def drain(started: int) -> tuple[Instr, ...]:
        """Return the instructions that remain when the loop ends with `started` iterations in flight."""
        rounds = (run(r, r + started - 1) for r in range(1, stages))
        return tuple(instr for iteration_instrs in rounds for instr in iteration_instrs)

    parts: list[tuple[str, tuple[Instr, ...]]] = []
    for round_ in range(stages - 1):
        out = f"{label}_out{stages}" if drain(round_ + 1) == drain(stages) else f"{label}_out{round_ + 1}"
        parts.append(("", (*run(0, round_), with_target(inverted_branch(branch), out))))
    parts.append((f"{label}_kernel", kernel))
    parts.append((f"{label}_out{stages}", drain(stages)))
    short = [n for n in range(1, stages) if drain(n) != drain(stages)]
    if short:
        parts.append(("", (Instr("b", (RawOperand(f"{label}_end"),)),)))
        for n in short:
            leave = () if n == short[-1] else (Instr("b", (RawOperand(f"{label}_end"),)),)
            parts.append((f"{label}_out{n}", (*drain(n), *leave)))
        parts.append((f"{label}_end", ()))
    return PipelinedLoop(tuple(parts), order, stages)


def with_target(branch: Instr, label: str) -> Instr:
    """Return the branch with `label` as its target."""
    return replace(branch, operands=(*branch.operands[:-1], RawOperand(label)))


def inverted_branch(branch: Instr) -> Instr:
    """Return the branch with the inverse condition."""
    if branch.mnemonic in _INVERSE_TEST:
        return replace(branch, mnemonic=_INVERSE_TEST[branch.mnemonic])
    condition = branch.mnemonic.removeprefix("b.") if "." in branch.mnemonic else branch.mnemonic[1:]
    return replace(branch, mnemonic=f"b.{INVERSE[condition]}")
