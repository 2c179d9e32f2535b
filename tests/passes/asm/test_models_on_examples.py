"""Each pipeline model and each part of the schedulers on a small example: golden texts, the code and the result.

The cores are those of conftest.py: hand-made, so that a fact of a real core that is corrected changes no text here.
`pytest tests/passes/asm/test_models_on_examples.py --update-golden` writes the texts again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import loop_edges, with_effects
from mavcg.passes.asm.isa.op import Edge, Op
from mavcg.passes.asm.isa.syntax import parse_instr
from mavcg.passes.asm.models.estimate import estimate_block, estimate_loop
from mavcg.passes.asm.models.in_order import simulate, steady_state
from mavcg.passes.asm.models.issue_constraints import issue_constraints, unit_names
from mavcg.passes.asm.models.main_loop import main_loop
from mavcg.passes.asm.models.ports import port_bounds, utilization_levels
from mavcg.passes.asm.models.recurrences import critical_recurrence
from mavcg.passes.asm.models.window import window_cycles_at
from mavcg.passes.asm.schedule.exact_modulo import solve_interval
from mavcg.passes.asm.schedule.iterative_modulo import iterative_modulo_schedule
from mavcg.passes.asm.schedule.list_schedule import IssueWindow
from mavcg.passes.asm.schedule.modulo import (
    branch_edges,
    min_initiation_interval,
    schedule_loop,
    sequential_interval,
    with_emission_order,
)
from mavcg.passes.asm.schedule.reservation_table import ReservationTable
from mavcg.passes.asm.schedule.resource_table import resource_min_interval, resource_table

Cores = Mapping[str, Timing]

LOAD_AND_MULTIPLY = """\
ldr d0, [x1], #8
fmla v8.4s, v16.4s, v0.s[0]
fmla v9.4s, v17.4s, v0.s[0]
subs x0, x0, #1
b.ne loop
"""
PAIRS = """\
fmla v8.4s, v16.4s, v20.4s
ldr d0, [x1], #8
fmla v9.4s, v17.4s, v20.4s
ldr d1, [x2], #8
fmla v10.4s, v18.4s, v20.4s
ldr d2, [x3], #8
fmla v11.4s, v19.4s, v20.4s
subs x0, x0, #1
b.ne loop
"""
LOADS = """\
ldr q0, [x1]
ldr d1, [x2]
fmla v8.4s, v0.4s, v1.4s
"""
CHAIN = """\
fmul v1.4s, v8.4s, v9.4s
fadd v8.4s, v1.4s, v10.4s
"""
ACCUMULATE = """\
fmla v8.4s, v0.4s, v1.4s
fmla v9.4s, v0.4s, v2.4s
fmla v8.4s, v3.4s, v1.4s
"""
BUSY_PIPES = """\
ldr q0, [x1], #16
add v1.4s, v0.4s, v4.4s
add v2.4s, v0.4s, v5.4s
mul v3.4s, v0.4s, v6.4s
str q3, [x2], #16
"""
MISSES = """\
ldr x1, [x1]
ldr x1, [x1]
add x2, x3, #1
add x4, x5, #1
add x6, x7, #1
add x8, x9, #1
"""
TWO_LOOPS = """\
f:
.Lcopy:
    ldr q0, [x0], #16
    str q0, [x1], #16
    subs x8, x8, #1
    b.ne .Lcopy
.Lsum:
    ldr q1, [x2], #16
    fmla v8.4s, v1.4s, v9.4s
    subs x9, x9, #1
    b.ne .Lsum
    ret
"""


def ops_of(text: str) -> list[Op]:
    return [code.op for code in with_effects([parse_instr(line) for line in text.splitlines()])]


def loop_of(text: str, timing: Timing) -> tuple[list[Op], list[Edge]]:
    code = with_effects([parse_instr(line) for line in text.splitlines()])
    return [c.op for c in code], list(loop_edges(code, timing))


def lines_of(items: Iterable[str]) -> str:
    return "".join(f"{item}\n" for item in items)


def counted(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def text_of(op: Op) -> str:
    return " ".join(op.text.split())


def shown_in_order(text: str, core: str) -> Callable[[Cores], str]:
    def shown(cores: Cores) -> str:
        trace = simulate(ops_of(text), cores[core])
        return lines_of(
            f"cycle {issue.cycle}, slot {issue.slot}: {text_of(trace.ops[issue.op])}"
            + "".join(f"; waited {wait.cycles}: {wait.why}" for wait in issue.waits)
            for issue in trace.issues
        )

    return shown


def shown_steady_state(cores: Cores) -> str:
    states = ((name, steady_state(ops_of(PAIRS), cores[name])) for name in ("a55", "a53"))
    return lines_of(
        f"{name}: from iteration {s.start} on, {counted(s.period, 'iteration')} in {counted(s.cycles, 'cycle')}"
        for name, s in states
    )


def shown_issue_constraints(cores: Cores) -> str:
    ops, timing = ops_of(LOADS), cores["a53"]
    units = unit_names(timing)
    found = []
    for op, limits in zip(ops, issue_constraints(ops, timing), strict=True):
        found.append(f"{text_of(op)}:")
        for use, cycles in limits.uses:
            found.append(f"    occupies {' or '.join(units[unit] for unit in use)} for {counted(cycles, 'cycle')}")
        found += [
            f"    waits for `{text_of(ops[d.source])}`, {d.cycles} cycles, by {d.register}"
            for d in limits.dependences
            if not d.distance
        ]
        found += [f"    nothing else issues for {limits.blocks} cycles"] if limits.blocks else []
        found += [f"    not in a cycle with `{text_of(ops[n])}`" for n in sorted(limits.no_dual_issue)]
    return lines_of(found)


def shown_estimate(cores: Cores) -> str:
    estimates = {name: estimate_loop(ops_of(PAIRS), cores[name]) for name in ("a55", "a53", "a57")}
    return lines_of(f"{name}, {e.model}: {counted(e.cycles, 'cycle')}; {e.because}" for name, e in estimates.items())


def shown_block_estimate(cores: Cores) -> str:
    estimate = estimate_block(ops_of(LOADS), cores["a55"])
    stalls = [f"{text_of(e.op)}: cycle {e.cycle}, {e.stall_cycles:g} stall cycles; {e.why}" for e in estimate.ops]
    return lines_of([f"{estimate.cycles:g} cycles; {estimate.because}", *stalls])


def shown_ports(cores: Cores) -> str:
    bounds = port_bounds(ops_of(BUSY_PIPES), cores["a57"])
    found = [
        f"{b.kind}: {counted(float(b.cycles), 'cycle')}; {b.why}"
        for b in (bounds.dispatch, bounds.units, bounds.recurrence)
    ]
    for op, pressure in zip(bounds.ops, bounds.pressure, strict=True):
        found.append(f"{text_of(op)}: {', '.join(f'{pool} {share}' for pool, share in pressure.items() if share)}")
    return lines_of(found)


def shown_recurrences(cores: Cores) -> str:
    forwarded = cores["a57"]
    without = replace(forwarded, forwards={})
    rows = (("with", forwarded), ("without", without))
    bounds = [(name, critical_recurrence(ops_of(ACCUMULATE), timing)) for name, timing in rows]
    return lines_of(f"{name} forwarding: {counted(float(b.cycles), 'cycle')}; {b.why}" for name, b in bounds)


def shown_port_pressure(cores: Cores) -> str:
    total = {frozenset({"vec0"}): 3, frozenset({"vec0", "vec1"}): 4, frozenset({"load"}): 2}
    levels = utilization_levels(total, cores["a57"].pools)
    return lines_of(f"{', '.join(sorted(pools))}: {cycles} busy cycles of each unit" for pools, cycles in levels)


def shown_window(cores: Cores) -> str:
    found = []
    for entries in (64, 2):
        timing = replace(cores["a57"], in_flight=entries)
        cycles = window_cycles_at(ops_of(MISSES), timing, range(1, 7))
        found.append(f"a reorder buffer of {entries}: the first n instructions have issued after {cycles} cycles")
    return lines_of(found)


def shown_main_loop(cores: Cores) -> str:
    figure = main_loop(f"\t.text\n\t.globl f\n{TWO_LOOPS}", "f", cores["a55"])
    assert figure is not None
    return f"{figure.work} {figure.unit} an iteration in {figure.cycles:g} cycles: {figure.per_cycle:g} a cycle\n"


def shown_resource_table(cores: Cores) -> str:
    ops = ops_of(LOADS)
    table = resource_table(ops, cores["a53"])
    found = [f"capacities of the resources, per cycle: {list(table.capacities)}"]
    for op, number in zip(ops, table.pattern_of, strict=True):
        uses = [
            f"{amount} of resource {resource} after {after}" for after, resource, amount in table.patterns[number].uses
        ]
        found.append(f"{text_of(op)}: {'; '.join(uses)}")
    return lines_of([*found, f"least interval by resources: {resource_min_interval(ops, cores['a53'])} cycles"])


def shown_reservation_table(cores: Cores) -> str:
    ops = ops_of(LOADS)
    table = ReservationTable(resource_table(ops, cores["a55"]), 4)

    def slots(op: int) -> str:
        return " ".join(str(slot) for slot in range(4) if table.open_slots(op) >> slot & 1) or "none"

    found = [f"empty: the ldr q fits in slots {slots(0)} of 4, the fmla in {slots(2)}"]
    table.place(1, 1)
    found.append(f"with the ldr d in slot 1: the ldr q fits in {slots(0)}, the fmla in {slots(2)}")
    return lines_of(found)


def shown_issue_window(cores: Cores) -> str:
    ops = ops_of(LOADS)
    table = resource_table(ops, cores["a55"])
    load_q, load_d, _ = table.pattern_of
    window = IssueWindow(table)
    found = []
    window.place(load_q)
    for cycle in range(3):
        fits = "fits" if window.fits(load_d) else "does not fit"
        found.append(f"the ldr q issued in cycle 0: in cycle {cycle} the ldr d {fits}")
        window.advance()
    return lines_of(found)


def shown_min_interval(cores: Cores) -> str:
    ops, edges = loop_of(LOAD_AND_MULTIPLY, cores["a55"])
    timing, last = cores["a55"], len(ops) - 1
    least = min_initiation_interval(ops, [*with_emission_order(edges, last), *branch_edges(len(ops), last)], timing)
    resources, sequential = resource_min_interval(ops, timing), sequential_interval(ops, edges, timing, last)
    return lines_of(
        [
            f"by resources: {resources} cycles",
            f"by resources and recurrences: {least} cycles",
            f"without overlap of iterations: {sequential} cycles",
        ]
    )


def scheduled(ops: Sequence[Op], interval: int, cycles: Sequence[int]) -> str:
    order = sorted(range(len(ops)), key=lambda op: (cycles[op] % interval, op))
    return lines_of(f"slot {cycles[op] % interval}: {text_of(ops[op])}, stage {cycles[op] // interval}" for op in order)


def shown_modulo(cores: Cores) -> str:
    ops, edges = loop_of(LOAD_AND_MULTIPLY, cores["a55"])
    schedule = schedule_loop(ops, edges, cores["a55"], len(ops) - 1)
    assert schedule is not None
    proof = "no interval is smaller" if schedule.optimal else "a smaller interval may exist"
    return f"interval {schedule.interval}; {proof}\n" + scheduled(ops, schedule.interval, schedule.cycles)


def shown_iterative_modulo(cores: Cores) -> str:
    ops, edges = loop_of(LOAD_AND_MULTIPLY, cores["a55"])
    table, last = resource_table(ops, cores["a55"]), len(ops) - 1
    schedule = iterative_modulo_schedule(table, with_emission_order(edges, last), last, range(2, 9), 3)
    assert schedule is not None
    return f"the smallest interval from 2 to 8: {schedule.interval}\n" + scheduled(
        ops, schedule.interval, schedule.cycles
    )


def shown_exact_modulo(cores: Cores) -> str:
    ops, edges = loop_of(LOAD_AND_MULTIPLY, cores["a55"])
    table, last = resource_table(ops, cores["a55"]), len(ops) - 1
    found = []
    for interval in (3, 4):
        cycles, certain, _ = solve_interval(table, with_emission_order(edges, last), last, interval, 3, 1.0)
        assert certain
        found.append(f"interval {interval}: {'a schedule exists' if cycles is not None else 'proved to be impossible'}")
    return lines_of(found)


MODELS: dict[str, tuple[str, Callable[[Cores], str]]] = {
    "in_order": (LOAD_AND_MULTIPLY, shown_in_order(LOAD_AND_MULTIPLY, "a55")),
    "no_dual_issue": (PAIRS, shown_in_order(PAIRS, "a53")),
    "steady_state": (PAIRS, shown_steady_state),
    "issue_constraints": (LOADS, shown_issue_constraints),
    "estimate": (PAIRS, shown_estimate),
    "block_estimate": (LOADS, shown_block_estimate),
    "ports": (BUSY_PIPES, shown_ports),
    "recurrences": (ACCUMULATE, shown_recurrences),
    "port_pressure": ("3 cycles for vec0, 4 for vec0 or vec1, 2 for load\n", shown_port_pressure),
    "window": (MISSES, shown_window),
    "main_loop": (TWO_LOOPS, shown_main_loop),
    "resource_table": (LOADS, shown_resource_table),
    "reservation_table": (LOADS, shown_reservation_table),
    "issue_window": (LOADS, shown_issue_window),
    "min_interval": (LOAD_AND_MULTIPLY, shown_min_interval),
    "modulo": (LOAD_AND_MULTIPLY, shown_modulo),
    "iterative_modulo": (LOAD_AND_MULTIPLY, shown_iterative_modulo),
    "exact_modulo": (LOAD_AND_MULTIPLY, shown_exact_modulo),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_an_example(name: str, golden: object, a53: Timing, a55: Timing, a57: Timing) -> None:
    before, result = MODELS[name]
    assert golden == f"{before}\nresult:\n{result({'a53': a53, 'a55': a55, 'a57': a57})}"
