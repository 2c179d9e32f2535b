"""One loop of one block for one core: loads split, registers chosen anew, iterations overlapped."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mavcg.core import LoadPolicy
from mavcg.passes.asm.broadcast import by_element
from mavcg.passes.asm.dependences import Code, as_op, known, loop_edges
from mavcg.passes.asm.estimate import estimate_loop
from mavcg.passes.asm.fold import fold_addresses
from mavcg.passes.asm.modulo import kernel_order, minimum_interval, schedule_loop
from mavcg.passes.asm.op import NO_SCHEDULE, Schedule
from mavcg.passes.asm.pairing import kernel_with_firsts
from mavcg.passes.asm.parking import Parked, park
from mavcg.passes.asm.pipelining import aimed, pipelined
from mavcg.passes.asm.rename import SCRATCH_GENERAL, NoRegister, allocate
from mavcg.passes.asm.split import Split, split_loads
from mavcg.passes.asm.straight_tuning import straight_order
from mavcg.passes.asm.syntax import Instr
from mavcg.passes.asm.unroll import unroll
from mavcg.passes.asm.work import Work, work_of
from mavcg.timing import MissingFact, Timing

# Longer bodies are list-scheduled: overlapping their iterations gains little, and takes long to find.
LONGEST_PIPELINED = 400
UNROLLED = (2, 4)  # iterations in one
LONGEST_UNROLLED = 160  # instructions of the longest body that unrolling may make
# Arithmetic instructions for each split load from which an out-of-order core's profile is believed against the model:
# the thesis (section 3.2.2) has 96 for 32 loads in the function that gained, and expects less of one with 8 for 12.
WORK_PER_SPLIT = 2
# Of the solver's time: for the loop with its loads split, and for each of UNROLLED, where it may be unrolled at all.
SOLVER_SHARES = (0.3, 0.6, 0.1)
KERNEL_SHARE = 0.2  # of a loop's instructions do arithmetic: see is_kernel
FURTHER_EFFORT = 0.1  # of the heuristic for other loops, in seconds
WORTH_UNROLLING = 0.99  # of the cycles without it, at most: its code is several times as long


class ScheduleStore(Protocol):
    """Where schedules that were found once are kept, by what they were found for."""

    def get(self, key: str) -> Schedule | None: ...

    def put(self, key: str, schedule: Schedule) -> None: ...


@dataclass(frozen=True)
class Effort:
    """How hard to look: seconds of the exact solver for a loop (0: the heuristic alone), and the store, if any."""

    exact_seconds: float = 0.0
    store: ScheduleStore | None = None

    def part(self, share: float) -> "Effort":
        """A share of the solver's seconds, for one of several forms of a loop."""
        return replace(self, exact_seconds=self.exact_seconds * share)


@dataclass(frozen=True)
class LoopReport:
    """What was done to a loop; cycles by the model, per iteration of the loop as it was.

    scheduled_by: "cp-sat", "heuristic" or "kept". initiation_interval: cycles between the starts of two iterations of
    the new loop; `unrolled` of the old loop's are one of them. kept: why the loop stayed as it was, or "".
    """

    label: str
    line: int
    cycles_before: float | None = None
    cycles_after: float | None = None
    instructions_before: int = 0
    instructions_after: int = 0
    splits: int = 0
    unpaired: int = 0
    scheduled_by: str = "kept"
    initiation_interval: float | None = None
    unrolled: int = 1
    stages: int = 1
    kept: str = ""


@dataclass(frozen=True)
class NewLoop:
    """The loop's new code: instructions in parts, each with the label at its top, and a remark for the reader."""

    parts: tuple[tuple[str, tuple[Instr, ...]], ...]
    remark: str


_Parts = tuple[tuple[str, tuple[Instr, ...]], ...]


@dataclass(frozen=True)
class _Candidate:
    cycles: float
    parts: _Parts
    split: Split
    by: str
    interval: float
    stages: int
    length: int
    unrolled: int = 1


def tune_loop(
    instrs: Sequence[Instr],
    live_in: frozenset[str],
    live_out: frozenset[str],
    timing: Timing,
    policy: LoadPolicy,
    effort: Effort,
    names: tuple[str, int, str],
) -> tuple[LoopReport, NewLoop | None]:
    """The best form of a loop by the model of the core, or None where none is better than the loop as it is.

    instrs: one iteration; the last one branches to the first while the loop goes on. live_out: registers wanted at its
    end, by the next iteration or after the loop. names: the loop's label, its line, and the prefix of new labels.
    On an out-of-order core whose profile asks for the split, the profile's word, a measurement, counts for loops with
    enough arithmetic beside the loads, as those were that were measured.
    """
    label, line, prefix = names
    try:
        start = estimate_loop([as_op(c) for c in known(instrs)], timing).cycles
        report = LoopReport(label, line, start, start, len(instrs), len(instrs))
        candidates = list(_candidates(_Loop(tuple(instrs), live_in, live_out, timing, policy, effort, prefix)))
    except MissingFact as fact:
        return LoopReport(label, line, None, None, len(instrs), len(instrs), kept=str(fact)), None
    work = sum(work_of(instr) != Work() for instr in instrs)

    def trusted(candidate: _Candidate) -> bool:
        splits = candidate.split.splits
        return timing.order == "out" and policy.split and 0 < splits * WORK_PER_SPLIT <= work

    best = min(candidates, key=lambda c: (not trusted(c), c.cycles, c.length), default=None)
    if best is None or (best.cycles >= start and not trusted(best)):
        return replace(report, kept="no better form was found"), None
    remark = f"mavcg: {start:.2f} -> {best.cycles:.2f} cycles an iteration on {timing.core} (model)"
    report = replace(
        report,
        cycles_after=best.cycles,
        instructions_after=best.length,
        splits=best.split.splits,
        unpaired=best.split.unpaired,
        scheduled_by=best.by,
        initiation_interval=best.interval,
        unrolled=best.unrolled,
        stages=best.stages,
    )
    return report, NewLoop(best.parts, remark)


@dataclass(frozen=True)
class _Loop:
    """What all forms of one loop have in common. live_in and live_out: without what is parked, with what holds it."""

    instrs: tuple[Instr, ...]
    live_in: frozenset[str]
    live_out: frozenset[str]
    timing: Timing
    policy: LoadPolicy
    effort: Effort
    prefix: str
    parked: Parked = Parked()

    def with_parking(self, form: Split) -> "_Loop":
        """The loop with general registers freed for a form's scratch registers, as far as it lacks them."""
        accessed = frozenset(reg.name for instr in form.instrs for reg in instr.registers())
        parked = park(accessed, self.live_in, self.live_out) if form.scratch else Parked()
        live_in, live_out = ((live - parked.registers) | parked.holders for live in (self.live_in, self.live_out))
        return replace(self, live_in=live_in, live_out=live_out, parked=parked)

    def wrapped(self, parts: _Parts) -> _Parts:
        """The loop's parts with the parking around them."""
        if not self.parked.before:
            return parts
        return (("", self.parked.before), *parts, ("", self.parked.after))

    def allocated(self, instrs: Sequence[Instr], carried: frozenset[str] = frozenset()) -> tuple[Instr, ...]:
        """Instructions with real registers. Raises: NoRegister."""
        return allocate(known(instrs), self.live_in | carried, self.live_out | carried, self.parked.registers)


def _candidates(loop: _Loop) -> Iterator[_Candidate]:
    """Forms of the loop that may be better than it is: loads split or not, iterations overlapped, several in one."""
    policy, timing, prefix = loop.policy, loop.timing, loop.prefix
    folded = fold_addresses(loop.instrs, loop.live_out)
    if policy.split:
        folded = by_element(folded, loop.live_out)
    forms = [split_loads(folded, policy.split, policy.unpair)]
    if forms[0].splits or forms[0].unpaired:
        forms.append(split_loads(folded, False, False))
    best = math.inf
    overlapping = policy.schedule and timing.order == "in"
    longest = LONGEST_UNROLLED if is_kernel(folded) else LONGEST_UNROLLED // 4
    several_times = [times for times in UNROLLED if overlapping and times * len(forms[0].instrs) <= longest]
    shares = SOLVER_SHARES if several_times else (1.0,)
    for form in forms:
        here = loop.with_parking(form)
        parted = _with_registers(here, form, folded)
        if parted is None:
            continue
        form, body = parted
        code = known(body)
        if overlapping and len(body) <= LONGEST_PIPELINED and (
            found := _schedule(code, timing, loop.effort.part(shares[0] if form is forms[0] else 0.0), best)
        ):
            new = pipelined(body, found, prefix, _kernel_order(code, timing, found))
            cycles = estimate_loop([as_op(code[i]) for i in new.kernel], timing).cycles
            best = min(best, cycles)
            parts = here.wrapped(new.parts)
            yield _Candidate(cycles, parts, form, found.by, found.interval, new.stages, len(new.kernel))
        order = _straight_order(code, timing)
        cycles = estimate_loop([as_op(code[i]) for i in order], timing).cycles
        top = f"{prefix}_kernel"
        ordered = (*(body[i] for i in order[:-1]), aimed(body[-1], top))
        yield _Candidate(cycles, here.wrapped(((top, ordered),)), form, "heuristic", cycles, 1, len(order))
        best = min(best, cycles)
    for times, share in zip(several_times, shares[1:], strict=False):
        several = _unrolled(loop.with_parking(forms[0]), forms[0], times, best, loop.effort.part(share))
        if several is not None:
            best = min(best, several.cycles)
            yield several


def _unrolled(loop: _Loop, form: Split, times: int, best: float, effort: Effort) -> _Candidate | None:
    """Several iterations in one, overlapped; None where that cannot be done or does not pay for its code."""
    taken = {reg.name for instr in form.instrs for reg in instr.registers()} | loop.live_in | loop.live_out
    free = [r for r in (*SCRATCH_GENERAL, *sorted(loop.parked.registers)) if r not in taken]
    if not free:
        return None
    counter, rest, end = free[-1], f"{loop.prefix}_rest", f"{loop.prefix}_done"
    new = unroll(form.instrs, times, counter, loop.live_in, loop.live_out, rest, end)
    if new is None:
        return None
    try:
        body = loop.allocated(new.body, frozenset([counter]))
    except NoRegister:
        return None
    code = known(body)
    found = _schedule(code, loop.timing, effort, best * times * WORTH_UNROLLING)
    if found is None:
        return None
    kernel = pipelined(body, found, loop.prefix, _kernel_order(code, loop.timing, found))
    cycles = estimate_loop([as_op(code[i]) for i in kernel.kernel], loop.timing).cycles / times
    if cycles > best * WORTH_UNROLLING:
        return None
    old = (*loop.instrs[:-1], aimed(loop.instrs[-1], rest))
    parts = loop.wrapped((("", new.before), *kernel.parts, ("", new.after), (rest, old), (end, ())))
    return _Candidate(cycles, parts, form, found.by, found.interval, kernel.stages, len(kernel.kernel), times)


def _with_registers(loop: _Loop, form: Split, folded: Sequence[Instr]) -> tuple[Split, tuple[Instr, ...]] | None:
    """A form with real registers; where scratch registers do not suffice, with as many loads split as they do for."""
    while True:
        try:
            return form, loop.allocated(form.instrs)
        except NoRegister:
            if not form.scratch:
                return None
            form = split_loads(folded, loop.policy.split, loop.policy.unpair, len(form.scratch) - 1)


def is_kernel(instrs: Iterable[Instr]) -> bool:
    """Whether a loop is there for its arithmetic, so that looking longer for its schedule is likely to pay."""
    busy = [work_of(instr) != Work() for instr in instrs]
    return sum(busy) >= KERNEL_SHARE * len(busy)


def _schedule(code: Sequence[Code], timing: Timing, effort: Effort, most: float) -> Schedule | None:
    """A schedule of the loop; None where its interval would be above `most` in any case."""
    ops = [as_op(c) for c in code]
    edges = loop_edges(code, timing)
    if minimum_interval(ops, edges, timing) > most:
        return None
    kernel = is_kernel(c.instr for c in code)
    seconds = effort.exact_seconds if kernel else 0.0
    key = hashlib.sha256(repr((ops, edges, timing.key(), kernel, seconds)).encode()).hexdigest()
    found = effort.store.get(key) if effort.store is not None else None
    if found is None:
        found = schedule_loop(ops, edges, timing, len(ops) - 1, seconds, 1.0 if kernel else FURTHER_EFFORT)
        if effort.store is not None:
            effort.store.put(key, found or NO_SCHEDULE)
    return None if found == NO_SCHEDULE else found


def _kernel_order(code: Sequence[Code], timing: Timing, schedule: Schedule) -> tuple[int, ...]:
    ops = [as_op(c) for c in code]
    last = len(ops) - 1
    order = kernel_with_firsts(
        kernel_order(schedule, last)[:-1], ops, loop_edges(code, timing), timing, schedule
    )
    return (*order, last)


def _straight_order(code: Sequence[Code], timing: Timing) -> tuple[int, ...]:
    """A list schedule of the body, its branch last."""
    last = len(code) - 1
    return (*straight_order(code[:last], timing), last)
