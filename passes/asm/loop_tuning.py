"""Tunes a loop of one block for one core: tries its forms, software-pipelines them, and takes the fastest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.analysis.dependences import Code, loop_edges, with_effects
from mavcg.passes.asm.isa.op import Edge, Op
from mavcg.passes.asm.isa.operation_count import OperationCount, count_operations
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.loop_forms import (
    CodeParts,
    LoopContext,
    LoopForm,
    addressing_forms,
    forms_of,
    is_kernel,
    reroll_loop,
    sink_updates,
    with_low_registers,
)
from mavcg.passes.asm.loop_schedule import SchedulingEffort, find_schedule, padded_kernel_order
from mavcg.passes.asm.models.estimate import loop_cycles
from mavcg.passes.asm.schedule.modulo import min_initiation_interval
from mavcg.passes.asm.schedule.nop_padding import kernel_ops
from mavcg.passes.asm.schedule.software_pipeline import emit_pipeline, with_target
from mavcg.passes.asm.straight_tuning import block_order
from mavcg.passes.asm.transforms.split_loads import SplitBody
from mavcg.passes.asm.tuning_reports import LoopReport

# Bodies of more instructions are list-scheduled: overlapping their iterations gains little, and takes long to search.
LONGEST_PIPELINED = 400
# On an out-of-order core whose profile enables load splitting, a measurement overrides the model for one kind of loop:
# its arithmetic is f32 or f64 multiply-adds alone, at least this many for each split load, as in the function that was
# measured to gain (Park 2020, section 3.2.2: 96 multiply-adds for 32 loads). No other kind was measured.
MEASURED_PRODUCTS_PER_SPLIT = 3
# Largest ratio of the split form's modelled cycles to the input's at which such a loop is expected to gain: the model
# predicts 112 cycles instead of 96 for the loop that was measured to be faster.
MEASURED_MODEL_RATIO = 112 / 96
# Shares of the heuristic's time and of the solver's: for the loop with its loads split and whole, and for each of
# UNROLLED. The first search mostly finds, in a fraction of its time, a schedule that no other form can improve on.
HEURISTIC_SHARES, SOLVER_SHARES = (1.0, 0.1, 0.4, 0.2), (0.3, 0.0, 0.6, 0.1)
ONE_STEP_SHARE = 0.9  # share of both for the re-rolled form of a loop
REST_SHARE = 0.1  # share of both for the original form of a loop that was re-rolled
FURTHER_EFFORT = 0.25  # share of the heuristic's time for loops that are not kernels (loop_forms.is_kernel)
WORTH_UNROLLING = 0.98  # largest ratio to the cycles without unrolling, because the code is several times as long


@dataclass(frozen=True)
class NewLoop:
    """The new code of a loop: (label or "", instructions) in the order of the text, and a comment for the reader."""

    parts: tuple[tuple[str, tuple[Instr, ...]], ...]
    remark: str


@dataclass(frozen=True)
class _Candidate:
    cycles: float
    parts: CodeParts
    split: SplitBody
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
    effort: SchedulingEffort,
    names: tuple[str, int, str],
) -> tuple[LoopReport, NewLoop | None]:
    """Return the fastest form of a loop by the model of the core, with a report; None if none is faster than the input.

    Args:
        instrs: one iteration, its branch back last.
        live_in, live_out: registers that are live at its top and at its end, for the next iteration or after the loop.
        policy: the transforms that the core's profile enables.
        names: the loop's label, its line, and the prefix of new labels.
    The result is never slower than the input by the model, with one exception: on an out-of-order core whose profile
    enables load splitting, loops of the kind that was measured to gain are split; the report then names the
    measurement.
    """
    label, line, prefix = names
    try:
        start = loop_cycles([c.op for c in with_effects(instrs)], timing)
        report = LoopReport(label, line, start, start, len(instrs), len(instrs))
        candidates = list(
            _candidates(LoopContext(tuple(instrs), live_in, live_out, timing, policy, prefix), effort, start)
        )
    except MissingFact as fact:
        return LoopReport(label, line, None, None, len(instrs), len(instrs), unchanged_because=str(fact)), None
    products = _f32_products(instrs)

    def is_measured_kind(candidate: _Candidate) -> bool:
        splits = candidate.split.splits
        enough = 0 < splits * MEASURED_PRODUCTS_PER_SPLIT <= products
        return timing.order == "out" and policy.split and enough and candidate.cycles <= start * MEASURED_MODEL_RATIO

    best = min(candidates, key=lambda c: (not is_measured_kind(c), c.cycles, c.length), default=None)
    if best is None or (best.cycles >= start and not is_measured_kind(best)):
        return replace(report, unchanged_because="no better form was found"), None
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
    """Return the number of multiply-adds in a loop whose arithmetic is f32 or f64 multiply-adds alone; else 0."""
    works = [work for instr in instrs if (work := count_operations(instr)) != OperationCount()]
    return len(works) if all(work.macs and work.flops == 2 * work.macs for work in works) else 0


def _candidates(loop: LoopContext, effort: SchedulingEffort, start: float) -> Iterator[_Candidate]:
    """Yield forms of the loop that may be better than the input, which takes `start` cycles."""
    best, loop = start, with_low_registers(loop)
    for folded in addressing_forms(loop):
        for candidate in _candidates_of(loop, folded, effort, best):
            best = min(best, candidate.cycles)
            yield candidate


def _candidates_of(
    loop: LoopContext, folded: tuple[Instr, ...], effort: SchedulingEffort, best: float
) -> Iterator[_Candidate]:
    """Yield forms of the loop with the body `folded`; those that overlap iterations take at most `best` cycles."""
    step = reroll_loop(loop, folded) if _overlaps(loop) else None
    if step is not None:
        for rolled in _forms(step.loop, step.instrs, effort.part(ONE_STEP_SHARE), best / step.steps):
            split = replace(rolled.split, unpaired=step.unpaired)
            candidate = replace(rolled, cycles=rolled.cycles * step.steps, split=split, rerolled=step.steps)
            best = min(best, candidate.cycles)
            yield candidate
        effort = effort.part(REST_SHARE)
    elif _overlaps(loop):
        moved = sink_updates(loop, folded)
        if loop.policy.unpair:
            folded = moved
        elif moved != folded:  # it splits pairs, which the profile does not enable: one form of two
            for candidate in _forms(loop, moved, effort, best, in_line=False):
                best = min(best, candidate.cycles)
                yield candidate
    yield from _forms(loop, folded, effort, best, in_line=step is None)


def _overlaps(loop: LoopContext) -> bool:
    return loop.policy.schedule and loop.timing.order == "in"


def _forms(
    loop: LoopContext, folded: Sequence[Instr], effort: SchedulingEffort, best: float, in_line: bool = True
) -> Iterator[_Candidate]:
    """Yield candidates with loads split or whole, unrolled or not.

    best: cycles that a software-pipelined form must improve on. in_line: also yield forms without overlap.
    """
    timing = loop.timing
    forms = list(forms_of(loop, folded, _overlaps(loop)))
    for form in forms if in_line else ():
        if form.times == 1:
            order = _block_order(form.code, timing)
            cycles = _cycles(form.ops, order, timing)
            top = f"{loop.prefix}_kernel"
            ordered = (*(form.body[i] for i in order[:-1]), with_target(form.body[-1], top))
            yield _Candidate(cycles, form.around(((top, ordered),)), form.split, "heuristic", cycles, 1, len(order))
            best = min(best, cycles)
    if not _overlaps(loop):
        return
    edges = {form.kind: _loop_edges(form, timing) for form in forms}
    for form in forms:
        solver = SOLVER_SHARES[form.kind]
        part = effort.part(HEURISTIC_SHARES[form.kind], solver if len(forms) > 2 else bool(solver))
        candidate = _overlap(form, edges[form.kind], loop, best, part)
        if candidate is not None:
            best = min(best, candidate.cycles)
            yield candidate


def _loop_edges(form: LoopForm, timing: Timing) -> tuple[Edge, ...]:
    """Return the edges of a form; accumulations count as late unless that makes the shortest interval longer."""
    near = loop_edges(form.code, timing)
    far = loop_edges(form.code, timing, adjacent=False) if timing.adjacent_forwards else near
    if near == far or min_initiation_interval(form.ops, far, timing) > min_initiation_interval(form.ops, near, timing):
        return near
    return far


def _overlap(
    form: LoopForm, edges: Sequence[Edge], loop: LoopContext, best: float, effort: SchedulingEffort
) -> _Candidate | None:
    """Software-pipeline a form; None if the result does not take fewer cycles than `best`."""
    if len(form.body) > LONGEST_PIPELINED:
        return None
    worth = best * (WORTH_UNROLLING if form.times > 1 else 1.0)
    effort = effort if is_kernel(form.body) else effort.part(FURTHER_EFFORT, 0.0)
    disputed = loop.timing.with_disputed()
    cautious = _loop_edges(form, disputed) if disputed is not loop.timing else ()
    schedule = find_schedule(form.ops, edges, loop.timing, effort, worth * form.times, cautious)
    if schedule is None:
        return None
    order = padded_kernel_order(form.ops, edges, loop.timing, schedule)
    new = emit_pipeline(form.body, schedule, loop.prefix, order)
    cycles = _cycles(form.ops, new.kernel, loop.timing) / form.times
    if cycles > worth:
        return None
    parts = form.around(new.parts)
    length = len(new.kernel)
    return _Candidate(cycles, parts, form.split, schedule.by, schedule.interval, new.stages, length, form.times)


def _cycles(ops: Sequence[Op], order: Sequence[int], timing: Timing) -> float:
    return loop_cycles(kernel_ops(ops, order), timing)


def _block_order(code: Sequence[Code], timing: Timing) -> tuple[int, ...]:
    """Return the order of a list schedule of the body, its branch last."""
    last = len(code) - 1
    return (*block_order(code[:last], timing), last)
