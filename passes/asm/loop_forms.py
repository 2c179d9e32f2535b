"""Forms that a loop of one block may take: loads split or whole, one step an iteration or several iterations in one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mavcg.core import LoadPolicy
from mavcg.passes.asm.broadcast import by_element
from mavcg.passes.asm.dependences import Code, as_op, known
from mavcg.passes.asm.effects import FLAGS
from mavcg.passes.asm.fold import fold_addresses
from mavcg.passes.asm.lanes import as_lanes
from mavcg.passes.asm.op import Op
from mavcg.passes.asm.parking import Parked, park, saved_registers
from mavcg.passes.asm.pipelining import aimed
from mavcg.passes.asm.rename import SCRATCH_GENERAL, NoRegister, allocate
from mavcg.passes.asm.reroll import moves_last, reroll
from mavcg.passes.asm.split import Split, split_loads
from mavcg.passes.asm.syntax import Instr, RegList
from mavcg.passes.asm.unroll import unroll
from mavcg.passes.asm.work import Work, work_of
from mavcg.timing import Timing

UNROLLED = (2, 4)  # iterations in one
LONGEST_UNROLLED = 160  # instructions of the longest body that unrolling may make
MOST_LENT = 2  # vector registers that a loop lends for parking: each holds two general ones
KERNEL_SHARE = 0.2  # of a loop's instructions do arithmetic: see is_kernel

Parts = tuple[tuple[str, tuple[Instr, ...]], ...]  # of text, in order, each with the label at its top


@dataclass(frozen=True)
class Loop:
    """What all forms of one loop have in common.

    live_in and live_out: without what is parked, with what holds it. spare: registers that the loop may use though its
    instructions do not, as those it was made from did, or the function has saved them.
    """

    instrs: tuple[Instr, ...]
    live_in: frozenset[str]
    live_out: frozenset[str]
    timing: Timing
    policy: LoadPolicy
    prefix: str
    parked: Parked = Parked()
    spare: frozenset[str] = frozenset()

    def with_parking(self, form: Split, lent: Sequence[str] = ()) -> "Loop":
        """The loop with general registers freed for a form's scratch registers, as far as it lacks them.

        What the loop as it was touches holds nothing either: it may do the iterations that unrolling leaves. lent:
        as of park, for a loop that does all iterations itself.
        """
        accessed = frozenset(reg.name for instr in (*form.instrs, *self.instrs) for reg in instr.registers())
        parked = park(accessed, self.live_in, self.live_out, lent) if form.scratch else Parked()
        live_in, live_out = ((live - parked.registers) | parked.holders for live in (self.live_in, self.live_out))
        saved = saved_registers(accessed | self.live_in | self.live_out)
        return replace(self, live_in=live_in, live_out=live_out, parked=parked, spare=self.spare | saved)

    def has_registers_for(self, instrs: Sequence[Instr]) -> bool:
        """Whether there are enough for the values in these instructions."""
        try:
            self.allocated(instrs)
        except NoRegister:
            return False
        return True

    def wrapped(self, parts: Parts) -> Parts:
        """The loop's parts with the parking around them."""
        if not self.parked.before:
            return parts
        return (("", self.parked.before), *parts, ("", self.parked.after))

    def allocated(self, instrs: Sequence[Instr], carried: frozenset[str] = frozenset()) -> tuple[Instr, ...]:
        """Instructions with real registers. Raises: NoRegister."""
        spare = self.parked.registers | self.spare
        return allocate(known(instrs), self.live_in | carried, self.live_out | carried, spare)


@dataclass(frozen=True)
class Form:
    """A loop's body with real registers, of `times` iterations of the loop.

    kind: its place in HEURISTIC_SHARES. around: makes of new parts of the body parts in the place of the loop.
    """

    split: Split
    body: tuple[Instr, ...]
    times: int
    kind: int
    around: Callable[[Parts], Parts]

    @cached_property
    def code(self) -> tuple[Code, ...]:
        return known(self.body)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        return tuple(as_op(c) for c in self.code)


@dataclass(frozen=True)
class Step:
    """A loop that does one step an iteration: of `steps` that the old one did. instrs: before registers are chosen.

    unpaired: how many of the old one's pairs were parted.
    """

    loop: Loop
    instrs: tuple[Instr, ...]
    steps: int
    unpaired: int


def plain(loop: Loop) -> tuple[Instr, ...]:
    """The loop with less beside its work: fewer address registers, and fewer loads of what only multiplies."""
    folded = fold_addresses(loop.instrs, loop.live_out)
    if not loop.policy.split:
        return folded
    folded = by_element(folded, loop.live_out)
    joined = as_lanes(folded, loop.live_out) if loop.timing.order == "in" else folded
    return joined if loop.has_registers_for(joined) else folded


def one_step(loop: Loop, folded: Sequence[Instr]) -> Step | None:
    """The loop doing one step an iteration, where it is seen to be several."""
    parted = split_loads(folded, False, True)
    new = reroll(parted.instrs, loop.live_in, loop.live_out)
    written = frozenset(register for c in known(loop.instrs) for register in c.effects.writes())
    loop = replace(loop, spare=written - {"sp", FLAGS, "x18", "x29", "x30"})
    if new is None or not loop.has_registers_for(new.body):
        return None
    unnamed = any("%" in reg.name for instr in new.body for reg in instr.registers())
    body = loop.allocated(new.body) if unnamed else new.body
    return Step(replace(loop, instrs=body), new.body, new.steps, parted.unpaired)


def with_moves_last(loop: Loop, folded: Sequence[Instr]) -> tuple[Instr, ...]:
    """The loop with its pointers moved at its end where that can be seen, as it is elsewhere."""
    return moves_last(split_loads(folded, False, True).instrs, loop.live_out) or tuple(folded)


def forms_of(loop: Loop, folded: Sequence[Instr], overlapping: bool) -> Iterator[Form]:
    """The loop with its loads split and whole and, where iterations are to overlap, several of them in one."""
    policy = loop.policy
    splits = [split_loads(folded, policy.split, policy.unpair)]
    if splits[0].splits or splits[0].unpaired:
        splits.append(split_loads(folded, False, False))
    longest = LONGEST_UNROLLED if is_kernel(folded) else LONGEST_UNROLLED // 4
    several_times = [times for times in UNROLLED if overlapping and times * len(splits[0].instrs) <= longest]
    for kind, split in enumerate(splits):
        here = loop.with_parking(split)
        parted = _with_registers(here, split, folded)
        if overlapping and (parted is None or parted[0].splits < split.splits):
            here, parted = _with_fewer_vectors(loop, split) or (here, parted)
        if parted is not None:
            yield Form(*parted, 1, kind, here.wrapped)
    for kind, times in enumerate(several_times, 2):
        several = _unrolled(loop.with_parking(splits[0]), splits[0], times, kind)
        if several is not None:
            yield several


def _unrolled(loop: Loop, split: Split, times: int, kind: int) -> Form | None:
    """Several iterations in one; None where that cannot be done."""
    taken = {reg.name for instr in split.instrs for reg in instr.registers()} | loop.live_in | loop.live_out
    free = [r for r in (*SCRATCH_GENERAL, *sorted(loop.parked.registers)) if r not in taken]
    if not free:
        return None
    counter, rest, end = free[-1], f"{loop.prefix}_rest", f"{loop.prefix}_done"
    new = unroll(split.instrs, times, counter, loop.live_in, loop.live_out, rest, end)
    if new is None:
        return None
    try:
        body = loop.allocated(new.body, frozenset([counter]))
    except NoRegister:
        return None
    old = (*loop.instrs[:-1], aimed(loop.instrs[-1], rest))

    def around(parts: Parts) -> Parts:
        return loop.wrapped((("", new.before), *parts, ("", new.after), (rest, old), (end, ())))

    return Form(split, body, times, kind, around)


def _with_registers(loop: Loop, form: Split, folded: Sequence[Instr]) -> tuple[Split, tuple[Instr, ...]] | None:
    """A form with real registers; where scratch registers do not suffice, with as many loads split as they do for."""
    while True:
        try:
            return form, loop.allocated(form.instrs)
        except NoRegister:
            if not form.scratch:
                return None
            form = split_loads(folded, loop.policy.split, loop.policy.unpair, len(form.scratch) - 1)


def _with_fewer_vectors(loop: Loop, form: Split) -> tuple[Loop, tuple[Split, tuple[Instr, ...]]] | None:
    """A form that does without some vector registers, in which general ones are then parked; None where it cannot.

    A compiler gives a loop all registers that there are, also where its values would do with fewer.
    """
    listed = {reg.name for instr in form.instrs for op in instr.operands if isinstance(op, RegList)
              for reg in op.registers}  # fmt: skip
    touched = {reg.name for instr in form.instrs for reg in instr.registers() if reg.is_vector}
    within = sorted(touched - loop.live_in - loop.live_out - listed)
    for count in range(min(MOST_LENT, len(within)), 0, -1):
        lent = within[-count:]
        here = loop.with_parking(form, lent)
        unnamed = {name: f"v%{number}" for number, name in enumerate(lent)}
        instrs = [
            instr.with_registers(tuple(unnamed.get(reg.name, reg.name) for reg in instr.registers()))
            for instr in form.instrs
        ]
        try:
            return here, (form, here.allocated(instrs))
        except NoRegister:
            continue
    return None


def is_kernel(instrs: Iterable[Instr]) -> bool:
    """Whether a loop is there for its arithmetic, so that looking longer for its schedule is likely to pay."""
    busy = [work_of(instr) != Work() for instr in instrs]
    return sum(busy) >= KERNEL_SHARE * len(busy)
