"""One loop of one block for one core: loads split, registers chosen anew, iterations overlapped."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mavcg.core import LoadPolicy
from mavcg.passes.asm.dependences import Code, as_op, block_edges, known, loop_edges
from mavcg.passes.asm.estimate import estimate_loop
from mavcg.passes.asm.fold import fold_addresses
from mavcg.passes.asm.listing import list_schedule
from mavcg.passes.asm.modulo import minimum_interval, schedule_loop
from mavcg.passes.asm.op import Schedule
from mavcg.passes.asm.pipelining import aimed, pipelined
from mavcg.passes.asm.rename import SCRATCH_GENERAL, NoRegister, allocate
from mavcg.passes.asm.split import Split, split_loads
from mavcg.passes.asm.syntax import Instr
from mavcg.passes.asm.unroll import unroll
from mavcg.timing import MissingFact, Timing

# Longer bodies are list-scheduled: overlapping their iterations gains little, and takes long to find.
LONGEST_PIPELINED = 400
UNROLLED = (2, 4)  # iterations in one
LONGEST_UNROLLED = 160  # instructions of the longest body that unrolling may make
WORTH_UNROLLING = 0.98  # of the cycles without it, at most: its code is several times as long


class ScheduleStore(Protocol):
    """Where schedules that were found once are kept, by what they were found for."""

    def get(self, key: str) -> Schedule | None: ...

    def put(self, key: str, schedule: Schedule) -> None: ...


@dataclass(frozen=True)
class Effort:
    """How hard to look: seconds of the exact solver for a loop (0: the heuristic alone), and the store, if any."""

    exact_seconds: float = 0.0
    store: ScheduleStore | None = None


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


@dataclass(frozen=True)
class _Candidate:
    cycles: float
    parts: tuple[tuple[str, tuple[Instr, ...]], ...]
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
    On an out-of-order core whose profile asks for the split, the profile's word, a measurement, counts.
    """
    label, line, prefix = names
    try:
        start = estimate_loop([as_op(c) for c in known(instrs)], timing).cycles
        report = LoopReport(label, line, start, start, len(instrs), len(instrs))
        candidates = list(_candidates(instrs, live_in, live_out, timing, policy, effort, prefix))
    except MissingFact as fact:
        return LoopReport(label, line, None, None, len(instrs), len(instrs), kept=str(fact)), None
    trusted = timing.order == "out" and policy.split
    best = min(candidates, key=lambda c: (not (trusted and c.split.splits), c.cycles, c.length), default=None)
    if best is None or (best.cycles >= start and not (trusted and best.split.splits)):
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


def _candidates(
    instrs: Sequence[Instr],
    live_in: frozenset[str],
    live_out: frozenset[str],
    timing: Timing,
    policy: LoadPolicy,
    effort: Effort,
    prefix: str,
) -> Iterator[_Candidate]:
    """Forms of the loop that may be better than it is: loads split or not, iterations overlapped, several in one."""
    folded = fold_addresses(instrs, live_out)
    forms = [split_loads(folded, policy.split, policy.unpair)]
    if forms[0].splits or forms[0].unpaired:
        forms.append(split_loads(folded, False, False))
    best = math.inf
    overlapping = policy.schedule and timing.order == "in"
    for form in forms:
        parted = _with_registers(form, folded, live_in, live_out, policy)
        if parted is None:
            continue
        form, body = parted
        code = known(body)
        if overlapping and len(body) <= LONGEST_PIPELINED and (found := _schedule(code, timing, effort, best)):
            new = pipelined(body, found, prefix)
            cycles = estimate_loop([as_op(code[i]) for i in new.kernel], timing).cycles
            best = min(best, cycles)
            yield _Candidate(cycles, new.parts, form, found.by, found.interval, new.stages, len(new.kernel))
        order = _straight_order(code, timing)
        cycles = estimate_loop([as_op(code[i]) for i in order], timing).cycles
        yield _Candidate(cycles, (("", tuple(body[i] for i in order)),), form, "heuristic", cycles, 1, len(order))
        best = min(best, cycles)
    for times in UNROLLED if overlapping else ():
        if times * len(forms[0].instrs) <= LONGEST_UNROLLED:
            several = _unrolled(forms[0], instrs, live_in, live_out, timing, effort, prefix, times, best)
            if several is not None:
                best = min(best, several.cycles)
                yield several


def _unrolled(
    form: Split,
    instrs: Sequence[Instr],
    live_in: frozenset[str],
    live_out: frozenset[str],
    timing: Timing,
    effort: Effort,
    prefix: str,
    times: int,
    best: float,
) -> _Candidate | None:
    """Several iterations in one, overlapped; None where that cannot be done or does not pay for its code."""
    used = {reg.name for instr in form.instrs for reg in instr.registers()}
    free = [r for r in SCRATCH_GENERAL if r not in used | live_in | live_out]
    if not free:
        return None
    counter, rest, end = free[-1], f"{prefix}_rest", f"{prefix}_done"
    new = unroll(form.instrs, times, counter, live_in, live_out, rest, end)
    if new is None:
        return None
    try:
        body = allocate(known(new.body), live_in | {counter}, live_out | {counter})
    except NoRegister:
        return None
    code = known(body)
    found = _schedule(code, timing, effort, best * times * WORTH_UNROLLING)
    if found is None:
        return None
    loop = pipelined(body, found, prefix)
    cycles = estimate_loop([as_op(code[i]) for i in loop.kernel], timing).cycles / times
    if cycles > best * WORTH_UNROLLING:
        return None
    old = (*instrs[:-1], aimed(instrs[-1], rest))
    parts = (("", new.before), *loop.parts, ("", new.after), (rest, old), (end, ()))
    return _Candidate(cycles, parts, form, found.by, found.interval, loop.stages, len(loop.kernel), times)


def _with_registers(
    form: Split, instrs: Sequence[Instr], live_in: frozenset[str], live_out: frozenset[str], policy: LoadPolicy
) -> tuple[Split, tuple[Instr, ...]] | None:
    """A form with real registers; where scratch registers do not suffice, with as many loads split as they do for."""
    while True:
        try:
            return form, allocate(known(form.instrs), live_in, live_out)
        except NoRegister:
            if not form.scratch:
                return None
            form = split_loads(instrs, policy.split, policy.unpair, len(form.scratch) - 1)


def _schedule(code: Sequence[Code], timing: Timing, effort: Effort, most: float) -> Schedule | None:
    """A schedule of the loop; None where its interval would be above `most` in any case."""
    ops = [as_op(c) for c in code]
    edges = loop_edges(code, timing)
    if minimum_interval(ops, edges, timing) > most:
        return None
    key = hashlib.sha256(repr((ops, edges, timing, effort.exact_seconds)).encode()).hexdigest()
    found = effort.store.get(key) if effort.store is not None else None
    if found is None:
        found = schedule_loop(ops, edges, timing, len(ops) - 1, effort.exact_seconds)
        if found is not None and effort.store is not None:
            effort.store.put(key, found)
    return found


def _straight_order(code: Sequence[Code], timing: Timing) -> tuple[int, ...]:
    """A list schedule of the body, its branch last."""
    last = len(code) - 1
    body = code[:last]
    order = list_schedule([as_op(c) for c in body], block_edges(body, timing), timing)
    return (*order, last)
