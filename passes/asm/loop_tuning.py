"""One loop of one block for one core: loads split, registers chosen anew, iterations overlapped."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mavcg.core import LoadPolicy
from mavcg.passes.asm.dependences import Code, as_op, known, loop_edges
from mavcg.passes.asm.estimate import loop_cycles
from mavcg.passes.asm.holding import held, kernel_ops
from mavcg.passes.asm.loop_forms import Form, Loop, Parts, forms_of, is_kernel, one_step, plain, with_moves_last
from mavcg.passes.asm.modulo import kernel_order, schedule_loop
from mavcg.passes.asm.op import NO_SCHEDULE, Edge, Op, Schedule
from mavcg.passes.asm.pairing import kernel_with_firsts
from mavcg.passes.asm.pipelining import aimed, pipelined
from mavcg.passes.asm.split import Split
from mavcg.passes.asm.straight_tuning import straight_order
from mavcg.passes.asm.syntax import Instr
from mavcg.passes.asm.work import Work, work_of
from mavcg.timing import MissingFact, Timing

# Longer bodies are list-scheduled: overlapping their iterations gains little, and takes long to find.
LONGEST_PIPELINED = 400
# The kind of loop for which a measurement overrules the model on an out-of-order core whose profile asks for the split:
# f32 multiply-adds alone, at least this many for each load that is split, as in the function that gained (Park 2020,
# section 3.2.2: 96 multiply-adds for 32 loads). No other kind was measured.
MEASURED_PRODUCTS_PER_SPLIT = 3
# Cycles of the split form over those of the input up to which such a loop is believed to gain: the model has 112 for 96
# for the loop that was measured to be faster.
MEASURED_MODEL_RATIO = 112 / 96
# Of the heuristic's time, and of the solver's: for the loop with its loads split and whole, and for each of UNROLLED.
# The first reaches, mostly in a fraction of its time, what spares the others theirs.
HEURISTIC_SHARES, SOLVER_SHARES = (1.0, 0.1, 0.4, 0.2), (0.3, 0.0, 0.6, 0.1)
ONE_STEP_SHARE = 0.9  # of both, for a loop that was found to be several steps, as one of them
REST_SHARE = 0.1  # and as it is
FURTHER_EFFORT = 0.25  # of the heuristic's time for other loops
WORTH_UNROLLING = 0.98  # of the cycles without it, at most: its code is several times as long


class ScheduleStore(Protocol):
    """Where schedules that were found once are kept, by what they were found for."""

    def get(self, key: str) -> Schedule | None: ...

    def put(self, key: str, schedule: Schedule) -> None: ...


@dataclass(frozen=True)
class Effort:
    """How hard to look for a loop's schedule, and where those are kept that were found.

    exact_seconds: of the exact solver; 0: the heuristic alone. heuristic_seconds: about as many of the heuristic.
    """

    exact_seconds: float = 0.0
    store: ScheduleStore | None = None
    heuristic_seconds: float = 1.0

    def part(self, share: float, solver_share: float | None = None) -> "Effort":
        """A share of the seconds, for one of several forms of a loop."""
        exact = self.exact_seconds * (share if solver_share is None else solver_share)
        return replace(self, exact_seconds=exact, heuristic_seconds=self.heuristic_seconds * share)


@dataclass(frozen=True)
class LoopReport:
    """What was done to a loop; cycles by the model, per iteration of the loop as it was.

    scheduled_by: "cp-sat", "heuristic" or "kept". initiation_interval: cycles between the starts of two iterations of
    the new loop; `unrolled` of the old loop's are one of them, or `rerolled` of them one of the old loop's. kept: why
    the loop stayed as it was, or "". against_model: the measurement, with its source, by which a form was taken that
    the model has at more cycles than the loop as it was; "" where the model itself found the form better.
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
    rerolled: int = 1
    stages: int = 1
    kept: str = ""
    against_model: str = ""


@dataclass(frozen=True)
class NewLoop:
    """The loop's new code: instructions in parts, each with the label at its top, and a remark for the reader."""

    parts: tuple[tuple[str, tuple[Instr, ...]], ...]
    remark: str


@dataclass(frozen=True)
class _Candidate:
    cycles: float
    parts: Parts
    split: Split
    by: str
    interval: float
    stages: int
    length: int
    unrolled: int = 1
    rerolled: int = 1


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
    The result is never slower than the input by the model, with one exception: on an out-of-order core whose profile
    asks for the split, loops of the kind that was measured to gain are split; the report then names the measurement.
    """
    label, line, prefix = names
    try:
        start = loop_cycles([as_op(c) for c in known(instrs)], timing)
        report = LoopReport(label, line, start, start, len(instrs), len(instrs))
        candidates = list(_candidates(Loop(tuple(instrs), live_in, live_out, timing, policy, prefix), effort, start))
    except MissingFact as fact:
        return LoopReport(label, line, None, None, len(instrs), len(instrs), kept=str(fact)), None
    products = _f32_products(instrs)

    def is_measured_kind(candidate: _Candidate) -> bool:
        splits = candidate.split.splits
        enough = 0 < splits * MEASURED_PRODUCTS_PER_SPLIT <= products
        return timing.order == "out" and policy.split and enough and candidate.cycles <= start * MEASURED_MODEL_RATIO

    best = min(candidates, key=lambda c: (not is_measured_kind(c), c.cycles, c.length), default=None)
    if best is None or (best.cycles >= start and not is_measured_kind(best)):
        return replace(report, kept="no better form was found"), None
    if best.cycles >= start:
        report = replace(report, against_model=dict(policy.sources).get("split", "the core's profile"))
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
        rerolled=best.rerolled,
        stages=best.stages,
    )
    return report, NewLoop(best.parts, remark)


def _f32_products(instrs: Sequence[Instr]) -> int:
    """Count the multiply-add instructions of a loop whose arithmetic is f32 or f64 multiply-adds alone; else 0."""
    works = [work for instr in instrs if (work := work_of(instr)) != Work()]
    return len(works) if all(work.macs and work.flops == 2 * work.macs for work in works) else 0


def _candidates(loop: Loop, effort: Effort, start: float) -> Iterator[_Candidate]:
    """Forms of the loop that may be better than it is, of `start` cycles."""
    folded = plain(loop)
    step = one_step(loop, folded) if _overlaps(loop) else None
    best = start
    if step is not None:
        for found in _forms(step.loop, step.instrs, effort.part(ONE_STEP_SHARE), start / step.steps):
            split = replace(found.split, unpaired=step.unpaired)
            candidate = replace(found, cycles=found.cycles * step.steps, split=split, rerolled=step.steps)
            best = min(best, candidate.cycles)
            yield candidate
        effort = effort.part(REST_SHARE)
    elif _overlaps(loop):
        moved = with_moves_last(loop, folded)
        if loop.policy.unpair:
            folded = moved
        elif moved != folded:  # pairs were parted against the profile: as one form of two
            for found in _forms(loop, moved, effort, best, in_line=False):
                best = min(best, found.cycles)
                yield found
    yield from _forms(loop, folded, effort, best, in_line=step is None)


def _overlaps(loop: Loop) -> bool:
    return loop.policy.schedule and loop.timing.order == "in"


def _forms(
    loop: Loop, folded: Sequence[Instr], effort: Effort, best: float, in_line: bool = True
) -> Iterator[_Candidate]:
    """Candidates with loads split or whole, with one iteration or several in one.

    best: overlapped ones of no fewer cycles are of no use. in_line: also those that overlap nothing.
    """
    timing = loop.timing
    forms = list(forms_of(loop, folded, _overlaps(loop)))
    for form in forms if in_line else ():
        if form.times == 1:
            order = _straight_order(form.code, timing)
            cycles = _cycles(form.ops, order, timing)
            top = f"{loop.prefix}_kernel"
            ordered = (*(form.body[i] for i in order[:-1]), aimed(form.body[-1], top))
            yield _Candidate(cycles, form.around(((top, ordered),)), form.split, "heuristic", cycles, 1, len(order))
            best = min(best, cycles)
    if not _overlaps(loop):
        return
    edges = {form.kind: loop_edges(form.code, timing) for form in forms}
    for form in forms:
        solver = SOLVER_SHARES[form.kind]
        part = effort.part(HEURISTIC_SHARES[form.kind], solver if len(forms) > 2 else bool(solver))
        candidate = _overlapped(form, edges[form.kind], loop, best, part)
        if candidate is not None:
            best = min(best, candidate.cycles)
            yield candidate


def _overlapped(form: Form, edges: Sequence[Edge], loop: Loop, best: float, effort: Effort) -> _Candidate | None:
    """A form with its iterations overlapped; None where that does not make it better than `best`."""
    if len(form.body) > LONGEST_PIPELINED:
        return None
    worth = best * (WORTH_UNROLLING if form.times > 1 else 1.0)
    effort = effort if is_kernel(form.body) else effort.part(FURTHER_EFFORT, 0.0)
    found = _schedule(form.ops, edges, loop.timing, effort, worth * form.times)
    if found is None:
        return None
    order = _kernel_order(form.ops, edges, loop.timing, found)
    new = pipelined(form.body, found, loop.prefix, order)
    cycles = _cycles(form.ops, new.kernel, loop.timing) / form.times
    if cycles > worth:
        return None
    parts = form.around(new.parts)
    return _Candidate(cycles, parts, form.split, found.by, found.interval, new.stages, len(new.kernel), form.times)


def _schedule(
    ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, effort: Effort, below: float
) -> Schedule | None:
    """A schedule of the loop whose interval is below this, or None."""
    seconds = effort.exact_seconds
    # Classes and edges are all that it depends on: kernels of many shapes share their loops but for offsets.
    classes = [op.op_class for op in ops]
    asked = classes, edges, timing.key(), effort.heuristic_seconds, seconds, below
    key = hashlib.sha256(repr(asked).encode()).hexdigest()
    found = effort.store.get(key) if effort.store is not None else None
    if found is None:
        found = schedule_loop(ops, edges, timing, len(ops) - 1, seconds, effort.heuristic_seconds, below)
        if effort.store is not None:
            effort.store.put(key, found or NO_SCHEDULE)
    return None if found == NO_SCHEDULE else found


def _kernel_order(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, schedule: Schedule) -> tuple[int, ...]:
    """The kernel's order: those in front of their cycle that must be, nops where they hold others in theirs."""
    last = len(ops) - 1
    order = kernel_with_firsts(kernel_order(schedule, last)[:-1], ops, edges, timing, schedule)
    return held((*order, last), ops, timing, schedule)


def _cycles(ops: Sequence[Op], order: Sequence[int], timing: Timing) -> float:
    return loop_cycles(kernel_ops(ops, order), timing)


def _straight_order(code: Sequence[Code], timing: Timing) -> tuple[int, ...]:
    """A list schedule of the body, its branch last."""
    last = len(code) - 1
    return (*straight_order(code[:last], timing), last)
