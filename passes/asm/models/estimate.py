"""Estimates the cycles of a loop or of straight-line code on one core, and the cause of lost cycles.

The estimate comes from the model of the core's kind, in order or out of order. It is a prediction, not a measurement:
in_order.py and ports.py say what the models leave out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.in_order import last_issue_cycle, simulate, steady_state
from mavcg.passes.asm.models.in_order_pipeline import Issue
from mavcg.passes.asm.models.issue_constraints import lone_cycles, op_dependences, unit_uses
from mavcg.passes.asm.models.ports import PortBounds, port_bounds, straight_bounds
from mavcg.passes.asm.models.window import window_cycles, window_cycles_at

IN_ORDER = "in-order"
PORT_BOUND = "port-bound"


@dataclass(frozen=True)
class OpEstimate:
    """The model's figures for one op of a loop or block.

    cycle, slot: cycle (from the start of the iteration shown) and slot of issue; None in the port-bound model.
    stall_cycles: cycles per iteration in which nothing issued because this op waited. lost_slots: issue slots per
    iteration that stayed empty because this op waited, the slots of stall cycles included. why: the cause of the last
    wait; "" without one. pressure: pool -> busy cycles per iteration that the op adds to each unit of the pool;
    port-bound model only.
    """

    op: Op
    cycle: int | None = None
    slot: int | None = None
    stall_cycles: float = 0.0
    lost_slots: float = 0.0
    why: str = ""
    pressure: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LoopEstimate:
    """The modelled cycles per iteration of a loop, or of one pass through a block, on one core.

    cycles: per iteration. width: issue slots (in-order model) or dispatched micro-ops (port-bound model) per cycle.
    bound_by: "dispatch" (issue slots or micro-ops), "units" or "recurrence" if no order of the ops can be faster.
        Otherwise the cause of most lost slots: the kind of an in_order_pipeline.Wait, or, for a block on an
        out-of-order core, "critical path" or "window" (window.py).
    because: bound_by as a sentence with figures.
    issues: in-order model only: issues of the iterations until the schedule repeats, cycles counted from the first one.
    period_cycles: cycles that these iterations take. pools: pool -> busy cycles per iteration of each of its units.
    bounds: port-bound model only: kind of bound -> cycles; a block has a critical path and a window instead of a
        recurrence.
    """

    core: str
    model: str
    cycles: float
    bound_by: str
    because: str
    width: int
    ops: tuple[OpEstimate, ...]
    issues: tuple[Issue, ...] = ()
    period_cycles: int = 0
    pools: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    is_loop: bool = True


def estimate_loop(ops: Sequence[Op], timing: Timing) -> LoopEstimate:
    """Estimate the cycles per iteration of a loop with this body, in its steady state.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when it can never issue an op.
    """
    if timing.order != "in":
        bounds = port_bounds(ops, timing)
        return _port_bound(ops, timing, bounds, bounds.largest.cycles, bounds.largest.kind, bounds.largest.why)
    settled = steady_state(ops, timing)
    trace = simulate(ops, timing, settled.start + settled.period)
    shown = trace.issues[settled.start * len(ops) :]
    before = trace.issues[settled.start * len(ops) - 1] if ops and settled.start else None
    return _in_order(ops, timing, shown, before, settled.per_iteration, settled.cycles)


def estimate_block(ops: Sequence[Op], timing: Timing) -> LoopEstimate:
    """Estimate the cycles until the last op has issued, on an idle core with all inputs ready.

    Raises: as `estimate_loop`.
    """
    if timing.order == "in":
        trace = simulate(ops, timing)
        cycles = max(issue.cycle for issue in trace.issues) + 1 if ops else 0
        return _in_order(ops, timing, trace.issues, None, Fraction(cycles), cycles, is_loop=False)
    port = port_bounds(ops, timing)
    path, ends = _critical_path(ops, timing)
    candidates = [(bound.cycles, bound.kind, bound.why) for bound in (port.units, port.dispatch)]
    candidates.append((Fraction(path), "critical path", ends))
    within = window_cycles(ops, timing)
    sizes = f"{timing.in_flight} micro-ops in the window and {timing.issue_queue} waiting before each unit"
    filled = f"{within} cycles with {sizes}"
    candidates.append((Fraction(within), "window", filled))
    largest, bound_by, because = max(candidates, key=lambda candidate: candidate[0])
    bounds = {kind: float(figure) for figure, kind, _ in reversed(candidates)}
    return replace(_port_bound(ops, timing, port, largest, bound_by, because), bounds=bounds, is_loop=False)


def loop_cycles(ops: Sequence[Op], timing: Timing) -> float:
    """Return the cycles of `estimate_loop` alone, which is faster than finding the causes too.

    Raises: as estimate_loop.
    """
    return float(
        steady_state(ops, timing).per_iteration if timing.order == "in" else port_bounds(ops, timing).largest.cycles
    )


def block_cycles(ops: Sequence[Op], timing: Timing) -> float:
    """Return the cycles of `estimate_block` alone. Raises: as estimate_block."""
    if timing.order == "in":
        return float(last_issue_cycle(ops, timing) + 1 if ops else 0)
    units, dispatch = straight_bounds(ops, timing)
    path, _ = _critical_path(ops, timing)
    return float(max(units.cycles, dispatch.cycles, Fraction(max(path, window_cycles(ops, timing)))))


def repeated_cycles(ops: Sequence[Op], timing: Timing, times: int) -> float:
    """Return the mean cycles of straight-line code that runs `times` times in a row; all runs after the first are
    assumed to take as long as the second.

    Raises: as estimate_block.
    """
    if times < 2 or not ops:
        return block_cycles(ops, timing)
    twice = (*ops, *ops)
    if timing.order == "in":
        first, second = (last_issue_cycle(run, timing) + 1 for run in (ops, twice))
    else:
        straight_bounds(ops, timing)  # raises where a unit is missing
        first, second = window_cycles_at(twice, timing, (len(ops), len(twice)))
    return (first + (times - 1) * (second - first)) / times


def _port_bound(
    ops: Sequence[Op], timing: Timing, port: PortBounds, cycles: Fraction, bound_by: str, because: str
) -> LoopEstimate:
    bounds = {bound.kind: float(bound.cycles) for bound in (port.dispatch, port.units, port.recurrence)}
    culprits = {"units": port.units, "recurrence": port.recurrence}.get(bound_by)
    details = tuple(
        OpEstimate(
            op,
            why=because if culprits is not None and index in culprits.ops else "",
            pressure={pool: float(share) for pool, share in port.pressure[index].items()},
        )
        for index, op in enumerate(ops)
    )
    pools = {pool: float(port.busy(pool)) for pool in timing.pools}
    return LoopEstimate(
        timing.core,
        PORT_BOUND,
        float(cycles),
        bound_by,
        because,
        timing.width,
        details,
        pools=pools,
        bounds=bounds,
    )


def _in_order(
    ops: Sequence[Op],
    timing: Timing,
    issues: Sequence[Issue],
    before: Issue | None,
    cycles: Fraction,
    period_cycles: int,
    is_loop: bool = True,
) -> LoopEstimate:
    """Build the estimate from the issues of one period; `before` is the issue that precedes the period."""
    period = max(1, len(issues) // max(1, len(ops)))
    start = issues[0].cycle if issues else 0
    stalls, lost, why = [0] * len(ops), [0] * len(ops), [""] * len(ops)
    losses: dict[tuple[str, str], int] = {}
    previous = before
    for issue in issues:
        slots = _lost_slots(issue, previous, timing.width)
        stalls[issue.op] += issue.stall_cycles
        lost[issue.op] += sum(slots)
        for wait, count in zip(issue.waits, slots, strict=True):
            losses[wait.kind, wait.why] = losses.get((wait.kind, wait.why), 0) + count
        if issue.waits:
            why[issue.op] = issue.waits[-1].why
        previous = issue
    bound_by, because = _cause(ops, timing, cycles, losses, period, is_loop)
    details = tuple(
        OpEstimate(op, first.cycle - start, first.slot, stalls[n] / period, lost[n] / period, why[n])
        for n, (op, first) in enumerate(zip(ops, issues, strict=False))
    )
    moved = tuple(
        Issue(i.iteration - issues[0].iteration, i.op, i.cycle - start, i.slot, i.stall_cycles, i.waits) for i in issues
    )
    return LoopEstimate(
        timing.core,
        IN_ORDER,
        float(cycles),
        bound_by,
        because,
        timing.width,
        details,
        moved,
        period_cycles,
        is_loop=is_loop,
    )


def _lost_slots(issue: Issue, previous: Issue | None, width: int) -> list[int]:
    """Return the number of issue slots that stayed empty during each of an op's waits.

    In the first cycle of waiting only the slots after the previous op's slot count.
    """
    lost = [wait.cycles * width for wait in issue.waits]
    if lost and previous is not None and previous.slot + 1 < width:
        lost[0] -= previous.slot + 1
    return lost


def _cause(
    ops: Sequence[Op],
    timing: Timing,
    cycles: Fraction,
    losses: Mapping[tuple[str, str], int],
    period: int,
    is_loop: bool,
) -> tuple[str, str]:
    """Return (kind, sentence) of the lower bound that the loop reaches, else of the cause of most lost issue slots."""
    if not ops:
        return "dispatch", "no ops"
    limit, kind, why = max(_limits(ops, timing, is_loop), key=lambda entry: entry[0])
    if cycles <= limit or not losses:
        return kind, why
    kinds: dict[str, int] = {}
    for (name, _), count in losses.items():
        kinds[name] = kinds.get(name, 0) + count
    kind = max(kinds, key=lambda name: kinds[name])
    worst = max((entry for entry in losses if entry[0] == kind), key=lambda entry: losses[entry])
    empty, all_slots = Fraction(kinds[kind], period), cycles * timing.width
    return kind, f"{_number(empty)} of {_number(all_slots)} issue slots lost, most of them: {worst[1]}"


def _limits(ops: Sequence[Op], timing: Timing, is_loop: bool) -> list[tuple[Fraction, str, str]]:
    """Return (cycles, kind, reason) of lower bounds that hold for every order of the ops on an in-order core."""
    port = port_bounds(ops, timing)
    blocks = sum(lone_cycles(op, timing) for op in ops)
    paired = [op for op in ops if not lone_cycles(op, timing) or timing.of(op.op_class).last]
    beside = f", beside {blocks} cycles for {len(ops) - len(paired)} that issue alone" if blocks else ""
    taken = sum(timing.of(op.op_class).narrows for op in ops)
    slots = blocks + Fraction(len(paired) + taken, timing.width)
    limits = [
        (port.units.cycles, "units", port.units.why),
        (slots, "dispatch", f"{len(paired)} instructions, {timing.width} a cycle{beside}"),
    ]
    if blocks and all(use.cycles == 1 for op in paired for use in unit_uses(op, timing)):
        # Nothing else issues while a blocking op does: the units that the other ops need are idle in those cycles.
        others = port_bounds(paired, timing).units
        limits.insert(0, (others.cycles + blocks, "units", others.why + beside))
    if is_loop:
        limits.append((port.recurrence.cycles, "recurrence", port.recurrence.why))
    return limits


def _number(value: Fraction) -> str:
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


def _critical_path(ops: Sequence[Op], timing: Timing) -> tuple[int, str]:
    """Return the cycles until the last op of the longest dependence chain has issued, and a text naming its two ends.

    The address update of a store or load is an operation of its own (recurrences.py): it waits for the old address
    only, not for the data to store.
    """
    issued, begins = [0] * len(ops), list(range(len(ops)))
    updated = [0] * len(ops)  # the cycle in which an op's address update issues
    for index, waits in enumerate(op_dependences(ops, timing)):
        for after in waits:
            if after.kind != "register" or after.distance:
                continue
            updates = after.register == ops[after.source].writeback
            ready = (updated if updates else issued)[after.source] + after.cycles
            if after.register == ops[index].writeback:
                updated[index] = max(updated[index], ready)
            if ready > issued[index]:
                issued[index], begins[index] = ready, begins[after.source]
    if not ops:
        return 0, "no ops"
    last = max(range(len(ops)), key=lambda index: issued[index])
    return issued[last] + 1, f"from `{ops[begins[last]].text}` to `{ops[last].text}`: {issued[last]} cycles of latency"
