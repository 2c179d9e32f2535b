"""Exact modulo scheduling by OR-Tools' CP-SAT: finds the shortest initiation interval, or proves that there is none.

The model has one Boolean variable per op and slot and one integer per op for its stage. Each resource of each slot is a
sum (resource_table.ResourceTable), each edge an inequality. The heuristic has the same constraints, so that the results
can be compared. Source of the time-indexed form: Eichenberger and Davidson, "Efficient Formulation for Optimal Modulo
Schedulers", 1997.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mavcg.errors import ToolError, import_problem
from mavcg.passes.asm.isa.op import Edge, Schedule
from mavcg.passes.asm.schedule.resource_table import ResourceTable
from mavcg.passes.asm.schedule.slack import distances_by_stages, start_ranges

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from ortools.sat.python import cp_model

# CP-SAT counts its work in units of deterministic time: one core of an AMD EPYC server did 0.3 to 1.0 units a second
# for loops of 14 to 160 ops. The count leaves out building and presolving a model: WORK_PER_CHOICE per op and slot.
WORK_PER_SECOND = 0.4
WORK_PER_CHOICE = 3e-5
LEAST_WORK = 0.05  # in deterministic time; with less, the solver stops before it has searched at all


def solve_interval(
    resources: ResourceTable, edges: Sequence[Edge], last: int, interval: int, stages: int, work: float
) -> tuple[tuple[int, ...] | None, bool, float]:
    """Solve for the issue cycles of all ops at one initiation interval.

    Args:
        edges: latencies include the order of emission (modulo.with_emission_order).
        stages: maximum number of stages.
        last: index of the closing branch.
        work: the limit, in the solver's deterministic time.
    Returns: the cycles, or None; True if the answer is certain (None then proves that no schedule exists); the work
        done, in deterministic time.
    """
    distances = distances_by_stages(len(resources.pattern_of), edges, last, interval)(stages)
    if distances is None:
        return None, True, 0.0
    cp = _cp_model()
    model: cp_model.CpModel = cp.CpModel()
    cycles, slots = _variables(model, *start_ranges(distances, last, interval), interval)
    model.add(cycles[last] == interval - 1)
    for edge in edges:
        if edge.source != edge.target:
            model.add(cycles[edge.target] - cycles[edge.source] >= edge.latency - interval * edge.distance)
    _add_sums(model, resources, slots, interval)
    _add_bans(model, resources, slots, interval)
    solver = cp.CpSolver()
    solver.parameters.random_seed = 1
    solver.parameters.num_workers = 1  # several exchange clauses at times that depend on the clock
    # The linear relaxation is nearly always feasible and prunes little: without it a loop takes a fifth of the time.
    solver.parameters.linearization_level = 0
    solver.parameters.max_deterministic_time = work
    status = solver.solve(model)
    done = float(solver.deterministic_time) + WORK_PER_CHOICE * len(cycles) * interval
    if status in (cp.OPTIMAL, cp.FEASIBLE):
        return tuple(solver.value(cycle) for cycle in cycles), True, done
    if status == cp.MODEL_INVALID:
        raise AssertionError(f"interval {interval}: {solver.solution_info()} {model.validate()}")
    return None, status == cp.INFEASIBLE, done


def improve_schedule(
    heuristic: Schedule | None,
    resources: ResourceTable,
    edges: Sequence[Edge],
    last: int,
    intervals: range,
    stages: int,
    seconds: float,
) -> Schedule | None:
    """Return a schedule with a shorter interval than the heuristic's if the solver finds one, else the heuristic's.

    The result is marked optimal if the solver proves that no shorter interval has a schedule within `stages` stages.
    The solver tries the intervals from the smallest up, in rounds whose share of the work doubles, until one has a
    schedule. The remaining work goes into reducing the number of stages.
    """
    work_left = seconds * WORK_PER_SECOND
    best, cycles = heuristic, None
    undecided = [interval for interval in intervals if heuristic is None or interval < heuristic.interval]
    impossible: set[int] = set()
    share = work_left / (8 * max(1, len(undecided)))
    while undecided and work_left > 0:
        for interval in list(undecided):
            # With two stages the search is shorter and mostly as good; a proof needs all stages.
            for allowed in sorted({min(2, stages), stages}):
                work = max(LEAST_WORK, min(share, work_left))
                cycles, certain, done = solve_interval(resources, edges, last, interval, allowed, work)
                work_left -= done
                if cycles is not None:
                    best = Schedule(interval, cycles, "cp-sat")
                    undecided = [shorter for shorter in undecided if shorter < interval]
                    break
                if certain and allowed == stages:
                    impossible.add(interval)
                    undecided.remove(interval)
            if cycles is not None or work_left <= 0:
                break
        share *= 2
    if best is None:
        return None
    best = replace(best, optimal=impossible.issuperset(range(intervals.start, best.interval)))
    return _fewer_stages(best, resources, edges, last, work_left) if best.by == "cp-sat" else best


def _fewer_stages(best: Schedule, resources: ResourceTable, edges: Sequence[Edge], last: int, work: float) -> Schedule:
    """Return a schedule with the same interval and as few stages as the solver finds within `work`."""
    while work > 0 and (stages := max(best.cycles) // best.interval) > 0:
        cycles, _, done = solve_interval(resources, edges, last, best.interval, stages, max(work / 2, LEAST_WORK))
        work -= done
        if cycles is None:
            break
        best = replace(best, cycles=cycles)
    return best


def _variables(
    model: "cp_model.CpModel", earliest: "npt.NDArray[np.int32]", latest: "npt.NDArray[np.int32]", interval: int
) -> tuple[list["cp_model.IntVar"], list[list["cp_model.IntVar"]]]:
    """Add the variables of the model; return the cycle of each op, and for each op a Boolean per slot."""
    cycles, slots = [], []
    for op in range(len(earliest)):
        first, final = int(earliest[op]), int(latest[op])
        here = [model.new_bool_var(f"op{op}_slot{slot}") for slot in range(interval)]
        model.add_exactly_one(here)
        stage = model.new_int_var(first // interval, final // interval, f"op{op}_stage")
        cycle = model.new_int_var(first, final, f"op{op}_cycle")
        model.add(cycle == interval * stage + sum(slot * issues for slot, issues in enumerate(here)))
        cycles.append(cycle)
        slots.append(here)
    return cycles, slots


def _add_sums(
    model: "cp_model.CpModel", resources: ResourceTable, slots: list[list["cp_model.IntVar"]], interval: int
) -> None:
    for resource, capacity in enumerate(resources.capacities):
        terms: list[list[Any]] = [[] for _ in range(interval)]
        most = [0] * interval
        for op, pattern in enumerate(resources.pattern_of):
            for after, used, amount in resources.patterns[pattern].uses:
                if used == resource:
                    for slot in range(interval):
                        terms[(slot + after) % interval].append(amount * slots[op][slot])
                        most[(slot + after) % interval] += amount
        for slot in range(interval):
            if most[slot] > capacity:
                model.add(sum(terms[slot]) <= capacity)


def _add_bans(
    model: "cp_model.CpModel", resources: ResourceTable, slots: list[list["cp_model.IntVar"]], interval: int
) -> None:
    """Add the constraints between classes that may not issue in the same cycle or at a given distance.

    A Boolean per pattern and slot is true if an op of the pattern issues in the slot; the Booleans of two patterns that
    ban each other may not both be true.
    """
    members: list[list[int]] = [[] for _ in resources.patterns]
    for op, pattern in enumerate(resources.pattern_of):
        members[pattern].append(op)
    banning = {pattern for pattern, facts in enumerate(resources.patterns) if facts.bans}
    issues_in = {
        pattern: [model.new_bool_var(f"kind{pattern}_slot{slot}") for slot in range(interval)] for pattern in banning
    }
    for pattern in banning:
        for slot in range(interval):
            model.add_max_equality(issues_in[pattern][slot], [slots[op][slot] for op in members[pattern]])
    for pattern in banning:
        for after, banned in resources.patterns[pattern].bans:
            for target in (target for target in banning if banned >> target & 1):
                for slot in range(interval):
                    banned_slot = (slot + after) % interval
                    if target == pattern and not after:
                        model.add_at_most_one(slots[op][slot] for op in members[pattern])
                    elif target == pattern and banned_slot == slot:
                        model.add(issues_in[pattern][slot] == 0)
                    elif after > 0 or (not after and target > pattern):
                        model.add_at_most_one(issues_in[pattern][slot], issues_in[target][banned_slot])


def _cp_model() -> ModuleType:
    try:
        from ortools.sat.python import cp_model
    except ImportError as missing:
        absent = (
            "ortools: not installed, and exact scheduling needs it; `pip install ortools`, or do without the solver"
        )
        raise import_problem(missing, absent, ToolError) from missing
    return cp_model
