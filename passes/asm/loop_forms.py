"""Enumerates the forms of a loop of one block: loads split or whole, re-rolled to one step, or unrolled.

The forms share the loop's context, with the register allocation and spills that they need.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import Code, with_effects
from mavcg.passes.asm.isa.effects import FLAGS
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.operation_count import OperationCount, count_operations
from mavcg.passes.asm.isa.syntax import Instr, RegList
from mavcg.passes.asm.schedule.software_pipeline import with_target
from mavcg.passes.asm.transforms.broadcast import multiply_by_element
from mavcg.passes.asm.transforms.fold_addresses import fold_addresses
from mavcg.passes.asm.transforms.lane_loads import join_scalar_loads
from mavcg.passes.asm.transforms.rename_registers import SCRATCH_GENERAL, NoRegister, allocate
from mavcg.passes.asm.transforms.reroll import reroll, sink_pointer_updates
from mavcg.passes.asm.transforms.split_loads import SplitBody, split_loads
from mavcg.passes.asm.transforms.unroll import unroll
from mavcg.passes.asm.transforms.vector_spill import VectorSpill, saved_registers, spill_to_vectors

CodeParts = tuple[tuple[str, tuple[Instr, ...]], ...]  # (label or "", instructions), in the order of the text


@dataclass(frozen=True)
class LoopContext:
    """A loop of one block, and what all its forms share.

    instrs: one iteration, its branch last. live_in, live_out: registers live at its top and end; a spilled register is
    replaced by the vector register that holds it. timing, policy: of the core. prefix: of new labels. spill: around
    the loop. spare: registers that the loop may use although `instrs` do not: the original loop used them, or the
    function has saved them.
    """

    instrs: tuple[Instr, ...]
    live_in: frozenset[str]
    live_out: frozenset[str]
    timing: Timing
    policy: LoadPolicy
    prefix: str
    spill: VectorSpill = VectorSpill()
    spare: frozenset[str] = frozenset()

    def with_vector_spill(self, form: SplitBody, released: Sequence[str] = ()) -> "LoopContext":
        """Return the loop with a spill that frees general registers, if a form needs scratch registers.

        Registers that the original loop uses do not hold spilled values: it may run the last iterations of an unrolled
        form. released: as in spill_to_vectors, for a form that runs all iterations itself.
        """
        accessed = frozenset(reg.name for instr in (*form.instrs, *self.instrs) for reg in instr.registers())
        spill = spill_to_vectors(accessed, self.live_in, self.live_out, released) if form.scratch else VectorSpill()
        live_in, live_out = ((live - spill.registers) | spill.holders for live in (self.live_in, self.live_out))
        saved = saved_registers(accessed | self.live_in | self.live_out)
        return replace(self, live_in=live_in, live_out=live_out, spill=spill, spare=self.spare | saved)

    def has_registers_for(self, instrs: Sequence[Instr]) -> bool:
        """True if there are enough registers for the values of these instructions."""
        try:
            self.allocate(instrs)
        except NoRegister:
            return False
        return True

    def with_spill_code(self, parts: CodeParts) -> CodeParts:
        """Return the loop's parts with the spill code around them."""
        if not self.spill.before:
            return parts
        return (("", self.spill.before), *parts, ("", self.spill.after))

    def allocate(self, instrs: Sequence[Instr], carried: frozenset[str] = frozenset()) -> tuple[Instr, ...]:
        """Allocate registers to a form's instructions. carried: further live registers. Raises: NoRegister."""
        spare = self.spill.registers | self.spare
        return allocate(with_effects(instrs), self.live_in | carried, self.live_out | carried, spare)


UNROLLED = (2, 4)  # unroll factors that are tried
LONGEST_UNROLLED = 160  # maximum of instructions in an unrolled body
MOST_RELEASED = 2  # maximum of vector registers taken from a loop for spills; each holds two general registers
KERNEL_SHARE = 0.2  # minimum fraction of arithmetic instructions in a kernel: see is_kernel


@dataclass(frozen=True)
class LoopForm:
    """A form of a loop: a body, after register allocation, that does `times` iterations of the loop.

    split: the body before register allocation. kind: its index in loop_tuning.HEURISTIC_SHARES. around: adds the form's
    prologue and epilogue to the parts of a scheduled body.
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
    """A loop re-rolled to one step; the old loop has `steps` steps.

    instrs: its body before register allocation. unpaired: number of load pairs of the old loop that were split.
    """

    loop: LoopContext
    instrs: tuple[Instr, ...]
    steps: int
    unpaired: int


def addressing_forms(loop: LoopContext) -> tuple[tuple[Instr, ...], ...]:
    """Return the loop's body with fewer address computations and, if the profile splits loads, fewer scalar loads.

    On an in-order core a second form, if it differs, also divides broadcasting loads that move their pointer, and loads
    two adjacent scalars at once: one more `add` for each of the former, which may cost more than it saves.
    """
    folded = fold_addresses(loop.instrs, loop.live_out)
    if not loop.policy.split:
        return (folded,)
    folded = multiply_by_element(folded, loop.live_out)
    if loop.timing.order != "in":
        return (folded,)
    stepped = fold_addresses(multiply_by_element(folded, loop.live_out, post_indexed=True), loop.live_out)
    forms = join_scalar_loads(folded, loop.live_out), join_scalar_loads(stepped, loop.live_out, pairs=True)
    return tuple(dict.fromkeys(form for form in forms if loop.has_registers_for(form))) or (folded,)


def with_low_registers(loop: LoopContext) -> LoopContext:
    """Return a loop that multiplies by halves with the vector registers that it writes as spare ones.

    Lanes of halves are in v0 to v15 alone. When scalar multipliers are joined, the registers that they were loaded into
    are written no more, and would not be taken for free: mostly v8 to v15, because sums are in v0 to v7.
    """
    by_halves = any(reg.lane is not None and reg.arrangement == "h" for c in loop.instrs for reg in c.registers())
    written = {register for c in with_effects(loop.instrs) for register in c.effects.writes() if register[0] == "v"}
    return replace(loop, spare=loop.spare | written) if by_halves else loop


def reroll_loop(loop: LoopContext, folded: Sequence[Instr]) -> SingleStepLoop | None:
    """Re-roll the loop to one step; None if its body is not recognised as several equal steps, or registers are few."""
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
    """Return the body with pointer updates moved to its end if possible, else unchanged."""
    return sink_pointer_updates(split_loads(folded, False, True).instrs, loop.live_out) or tuple(folded)


def forms_of(loop: LoopContext, folded: Sequence[Instr], overlapping: bool) -> Iterator[LoopForm]:
    """Yield the loop with loads split, with loads whole and, if iterations are to overlap, unrolled.

    folded: the body, from addressing_forms, reroll_loop or sink_updates.
    """
    policy = loop.policy
    splits = [split_loads(folded, policy.split, policy.unpair)]
    if splits[0].splits or splits[0].unpaired:
        splits.append(split_loads(folded, False, False))
    longest = LONGEST_UNROLLED if is_kernel(folded) else LONGEST_UNROLLED // 4
    several_times = [times for times in UNROLLED if overlapping and times * len(splits[0].instrs) <= longest]
    for kind, split in enumerate(splits):
        spilling = loop.with_vector_spill(split)
        allocated = _with_registers(spilling, split, folded)
        if overlapping and (allocated is None or allocated[0].splits < split.splits):
            spilling, allocated = _with_fewer_vectors(loop, split) or (spilling, allocated)
        if allocated is not None:
            yield LoopForm(*allocated, 1, kind, spilling.with_spill_code)
    for kind, times in enumerate(several_times, 2):
        several = _unroll(loop.with_vector_spill(splits[0]), splits[0], times, kind)
        if several is not None:
            yield several


def _unroll(loop: LoopContext, split: SplitBody, times: int, kind: int) -> LoopForm | None:
    """Return the loop unrolled `times` times; None if it is not a counted loop or registers do not suffice."""
    taken = {reg.name for instr in split.instrs for reg in instr.registers()} | loop.live_in | loop.live_out
    free = [r for r in (*SCRATCH_GENERAL, *sorted(loop.spill.registers)) if r not in taken]
    if not free:
        return None
    counter, old_label, end = free[-1], f"{loop.prefix}_rest", f"{loop.prefix}_done"
    new = unroll(split.instrs, times, counter, loop.live_in, loop.live_out, old_label, end)
    if new is None:
        return None
    try:
        body = loop.allocate(new.body, frozenset([counter]))
    except NoRegister:
        return None
    old_loop = (*loop.instrs[:-1], with_target(loop.instrs[-1], old_label))

    def around(parts: CodeParts) -> CodeParts:
        return loop.with_spill_code((("", new.before), *parts, ("", new.after), (old_label, old_loop), (end, ())))

    return LoopForm(split, body, times, kind, around)


def _with_registers(
    loop: LoopContext, form: SplitBody, folded: Sequence[Instr]
) -> tuple[SplitBody, tuple[Instr, ...]] | None:
    """Allocate registers to a form, with fewer loads split if registers do not suffice; None if no form fits."""
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
    """Return the form in fewer vector registers, so that some can hold spilled general registers; None if impossible.

    A compiler often gives a loop more registers than its values need.
    """
    listed = {
        reg.name for instr in form.instrs for op in instr.operands if isinstance(op, RegList) for reg in op.registers
    }
    touched = {reg.name for instr in form.instrs for reg in instr.registers() if reg.is_vector and "%" not in reg.name}
    within = sorted(touched - loop.live_in - loop.live_out - listed)
    for count in range(min(MOST_RELEASED, len(within)), 0, -1):
        released = within[-count:]
        spilling = loop.with_vector_spill(form, released)
        # Not the names of joined loads (lane_loads.py), which may be in the form, too.
        unnamed = {name: f"v%released{number}" for number, name in enumerate(released)}
        instrs = [
            instr.with_registers(tuple(unnamed.get(reg.name, reg.name) for reg in instr.registers()))
            for instr in form.instrs
        ]
        try:
            return spilling, (form, spilling.allocate(instrs))
        except NoRegister:
            continue
    return None


def is_kernel(instrs: Iterable[Instr]) -> bool:
    """True if KERNEL_SHARE of a loop's instructions do arithmetic: a longer search for a schedule is likely to pay."""
    busy = [count_operations(instr) != OperationCount() for instr in instrs]
    return sum(busy) >= KERNEL_SHARE * len(busy)
