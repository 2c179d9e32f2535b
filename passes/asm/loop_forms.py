"""Enumerates the forms of a loop of one block: loads split or whole, re-rolled to one step, or unrolled."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.operation_count import OperationCount, count_operations
from mavcg.passes.asm.isa.syntax import Instr, RegList
from mavcg.passes.asm.loop_context import CodeParts, LoopContext
from mavcg.passes.asm.schedule.software_pipeline import with_target
from mavcg.passes.asm.transforms.broadcast import multiply_by_element
from mavcg.passes.asm.transforms.fold_addresses import fold_addresses
from mavcg.passes.asm.transforms.lane_loads import join_scalar_loads
from mavcg.passes.asm.transforms.rename_registers import SCRATCH_GENERAL, NoRegister
from mavcg.passes.asm.transforms.reroll import reroll, sink_pointer_updates
from mavcg.passes.asm.transforms.split_loads import SplitBody, split_loads
from mavcg.passes.asm.transforms.unroll import unroll

UNROLLED = (2, 4)  # iterations in one
LONGEST_UNROLLED = 160  # instructions of the longest body that unrolling may make
MOST_RELEASED = 2  # vector registers that a loop releases for spills: each holds two general ones
KERNEL_SHARE = 0.2  # least fraction of arithmetic among a kernel's instructions: see is_kernel


@dataclass(frozen=True)
class LoopForm:
    """A form of a loop: a body with real registers that does `times` iterations of the loop.

    kind: its index in HEURISTIC_SHARES. around: adds the form's prologue and epilogue to the parts of a new body.
    """

    split: SplitBody
    body: tuple[Instr, ...]
    times: int
    kind: int
    around: Callable[[CodeParts], CodeParts]

    @cached_property
    def code(self) -> tuple[Code, ...]:
        return with_effects(self.body)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        return tuple(c.op for c in self.code)


@dataclass(frozen=True)
class SingleStepLoop:
    """A loop re-rolled to one of the `steps` steps of the old loop. instrs: before register allocation.

    unpaired: number of the old loop's load pairs that were split into single loads.
    """

    loop: LoopContext
    instrs: tuple[Instr, ...]
    steps: int
    unpaired: int


def simplify_addressing(loop: LoopContext) -> tuple[Instr, ...]:
    """Return the loop's body with fewer address computations, and with fewer loads of values that only multiply."""
    folded = fold_addresses(loop.instrs, loop.live_out)
    if not loop.policy.split:
        return folded
    folded = multiply_by_element(folded, loop.live_out)
    joined = join_scalar_loads(folded, loop.live_out) if loop.timing.order == "in" else folded
    return joined if loop.has_registers_for(joined) else folded


def reroll_loop(loop: LoopContext, folded: Sequence[Instr]) -> SingleStepLoop | None:
    """Re-roll the loop to one step, where its body is recognised as several; None for other loops."""
    parted = split_loads(folded, False, True)
    new = reroll(parted.instrs, loop.live_in, loop.live_out)
    written = frozenset(register for c in with_effects(loop.instrs) for register in c.effects.writes())
    loop = replace(loop, spare=written - {"sp", FLAGS, "x18", "x29", "x30"})
    if new is None or not loop.has_registers_for(new.body):
        return None
    unnamed = any("%" in reg.name for instr in new.body for reg in instr.registers())
    body = loop.allocate(new.body) if unnamed else new.body
    return SingleStepLoop(replace(loop, instrs=body), new.body, new.steps, parted.unpaired)


def sink_updates(loop: LoopContext, folded: Sequence[Instr]) -> tuple[Instr, ...]:
    """Return the body with pointer updates sunk to its end where possible, else unchanged."""
    return sink_pointer_updates(split_loads(folded, False, True).instrs, loop.live_out) or tuple(folded)


def forms_of(loop: LoopContext, folded: Sequence[Instr], overlapping: bool) -> Iterator[LoopForm]:
    """Yield the loop with its loads split and whole and, where iterations are to overlap, unrolled."""
    policy = loop.policy
    splits = [split_loads(folded, policy.split, policy.unpair)]
    if splits[0].splits or splits[0].unpaired:
        splits.append(split_loads(folded, False, False))
    longest = LONGEST_UNROLLED if is_kernel(folded) else LONGEST_UNROLLED // 4
    several_times = [times for times in UNROLLED if overlapping and times * len(splits[0].instrs) <= longest]
    for kind, split in enumerate(splits):
        here = loop.with_vector_spill(split)
        parted = _with_registers(here, split, folded)
        if overlapping and (parted is None or parted[0].splits < split.splits):
            here, parted = _with_fewer_vectors(loop, split) or (here, parted)
        if parted is not None:
            yield LoopForm(*parted, 1, kind, here.with_spill_code)
    for kind, times in enumerate(several_times, 2):
        several = _unroll(loop.with_vector_spill(splits[0]), splits[0], times, kind)
        if several is not None:
            yield several


def _unroll(loop: LoopContext, split: SplitBody, times: int, kind: int) -> LoopForm | None:
    """Return the unrolled form; None where it is not possible."""
    taken = {reg.name for instr in split.instrs for reg in instr.registers()} | loop.live_in | loop.live_out
    free = [r for r in (*SCRATCH_GENERAL, *sorted(loop.spill.registers)) if r not in taken]
    if not free:
        return None
    counter, rest, end = free[-1], f"{loop.prefix}_rest", f"{loop.prefix}_done"
    new = unroll(split.instrs, times, counter, loop.live_in, loop.live_out, rest, end)
    if new is None:
        return None
    try:
        body = loop.allocate(new.body, frozenset([counter]))
    except NoRegister:
        return None
    old = (*loop.instrs[:-1], with_target(loop.instrs[-1], rest))

    def around(parts: CodeParts) -> CodeParts:
        return loop.with_spill_code((("", new.before), *parts, ("", new.after), (rest, old), (end, ())))

    return LoopForm(split, body, times, kind, around)


def _with_registers(
    loop: LoopContext, form: SplitBody, folded: Sequence[Instr]
) -> tuple[SplitBody, tuple[Instr, ...]] | None:
    """Allocate registers to a form; where scratch registers do not suffice, with fewer loads split. None: none fits."""
    while True:
        try:
            return form, loop.allocate(form.instrs)
        except NoRegister:
            if not form.scratch:
                return None
            form = split_loads(folded, loop.policy.split, loop.policy.unpair, len(form.scratch) - 1)


def _with_fewer_vectors(
    loop: LoopContext, form: SplitBody
) -> tuple[LoopContext, tuple[SplitBody, tuple[Instr, ...]]] | None:
    """Return the form with fewer vector registers, so that general ones can be spilled to the others; None: impossible.

    A compiler gives a loop all available registers, also where its values need fewer.
    """
    listed = {reg.name for instr in form.instrs for op in instr.operands if isinstance(op, RegList)
              for reg in op.registers}  # fmt: skip
    touched = {reg.name for instr in form.instrs for reg in instr.registers() if reg.is_vector}
    within = sorted(touched - loop.live_in - loop.live_out - listed)
    for count in range(min(MOST_RELEASED, len(within)), 0, -1):
        released = within[-count:]
        here = loop.with_vector_spill(form, released)
        unnamed = {name: f"v%{number}" for number, name in enumerate(released)}
        instrs = [
            instr.with_registers(tuple(unnamed.get(reg.name, reg.name) for reg in instr.registers()))
            for instr in form.instrs
        ]
        try:
            return here, (form, here.allocate(instrs))
        except NoRegister:
            continue
    return None


def is_kernel(instrs: Iterable[Instr]) -> bool:
    """True if a loop is mostly arithmetic, so that a longer search for its schedule is likely to pay."""
    busy = [count_operations(instr) != OperationCount() for instr in instrs]
    return sum(busy) >= KERNEL_SHARE * len(busy)
