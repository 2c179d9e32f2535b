"""Modulo scheduling by OR-Tools' CP-SAT: the shortest interval, or the proof that there is none.

One yes-or-no variable per op and slot and one number per op for its stage; every resource of every slot is a sum
(slots.Needs), every edge an inequality. The same limits as the heuristic's, so that the two can be compared.
Source of the time-indexed form: Eichenberger and Davidson, "Efficient Formulation for Optimal Modulo Schedulers", 1997.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mavcg.errors import ToolError
from mavcg.passes.asm.needs import Needs
from mavcg.passes.asm.op import Edge, Schedule
from mavcg.passes.asm.windows import cycle_ranges, windows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from ortools.sat.python import cp_model

# CP-SAT counts its work in a deterministic time of its own: a second on one core of an AMD EPYC server did 0.3 to 1.0
# of it, over loops of 14 to 160 ops. Building and presolving a model is not in the count: so much per op and slot.
WORK_PER_SECOND = 0.4
WORK_PER_CHOICE = 3e-5
LEAST_WORK = 0.05  # with less, the solver is stopped before it has looked at anything


def solve_interval(
    needs: Needs, edges: Sequence[Edge], last: int, interval: int, stages: int, work: float
) -> tuple[tuple[int, ...] | None, bool, float]:
    """Cycles for all ops at this interval, within that many stages.

    Args:
        edges: with the order of emission in them (modulo.ordered_edges).
        work: the limit, in the solver's deterministic time.
    Returns: the cycles if found; whether the answer is certain, a None then a proof that there are none; work done.
    """
    apart = windows(len(needs.kind_of), edges, last, interval)(stages)
    if apart is None:
        return None, True, 0.0
    cp = _cp_model()
    model: cp_model.CpModel = cp.CpModel()
    cycles, slots = _variables(model, *cycle_ranges(apart, last, interval), interval)
    model.add(cycles[last] == interval - 1)
    for edge in edges:
        if edge.source != edge.target:
            model.add(cycles[edge.target] - cycles[edge.source] >= edge.latency - interval * edge.distance)
    _add_sums(model, needs, slots, interval)
    _add_bans(model, needs, slots, interval)
    solver = cp.CpSolver()
    solver.parameters.random_seed = 1
    solver.parameters.num_workers = 1  # more would share what they learn whenever the clock says
    # The linear relaxation is nearly always feasible and says little: without it the same loops take a fifth.
    solver.parameters.linearization_level = 0
    solver.parameters.max_deterministic_time = work
    status = solver.solve(model)
    done = float(solver.deterministic_time) + WORK_PER_CHOICE * len(cycles) * interval
    if status in (cp.OPTIMAL, cp.FEASIBLE):
        return tuple(solver.value(cycle) for cycle in cycles), True, done
    if status == cp.MODEL_INVALID:
        raise AssertionError(f"interval {interval}: {solver.solution_info()} {model.validate()}")
    return None, status == cp.INFEASIBLE, done


def improve(
    found: Schedule | None,
    needs: Needs,
    edges: Sequence[Edge],
    last: int,
    intervals: range,
    stages: int,
    seconds: float,
) -> Schedule | None:
    """A schedule of a shorter interval than the one found, or that one; optimal where none shorter has so few stages.

    The intervals from the least up, each with a small part of the work first and twice that in the next round, until
    one has a schedule. What work is left goes into fewer stages.
    """
    left = seconds * WORK_PER_SECOND
    best, cycles = found, None
    undecided = [interval for interval in intervals if found is None or interval < found.interval]
    impossible: set[int] = set()
    share = left / (8 * max(1, len(undecided)))
    while undecided and left > 0:
        for interval in list(undecided):
            # With two stages the search is shorter and mostly as good; a proof needs all of them.
            for allowed in sorted({min(2, stages), stages}):
                work = max(LEAST_WORK, min(share, left))
                cycles, certain, done = solve_interval(needs, edges, last, interval, allowed, work)
                left -= done
                if cycles is not None:
                    best = Schedule(interval, cycles, "cp-sat")
                    undecided = [shorter for shorter in undecided if shorter < interval]
                    break
                if certain and allowed == stages:
                    impossible.add(interval)
                    undecided.remove(interval)
            if cycles is not None or left <= 0:
                break
        share *= 2
    if best is None:
        return None
    best = replace(best, optimal=impossible.issuperset(range(intervals.start, best.interval)))
    return _fewer_stages(best, needs, edges, last, left) if best.by == "cp-sat" else best


def _fewer_stages(best: Schedule, needs: Needs, edges: Sequence[Edge], last: int, left: float) -> Schedule:
    while left > 0 and (stages := max(best.cycles) // best.interval) > 0:
        cycles, _, done = solve_interval(needs, edges, last, best.interval, stages, max(left / 2, LEAST_WORK))
        left -= done
        if cycles is None:
            break
        best = replace(best, cycles=cycles)
    return best


def _variables(
    model: "cp_model.CpModel", earliest: "npt.NDArray[np.int32]", latest: "npt.NDArray[np.int32]", interval: int
) -> tuple[list["cp_model.IntVar"], list[list["cp_model.IntVar"]]]:
    """Per op its cycle, and one truth per slot."""
    cycles, slots = [], []
    for op in range(len(earliest)):
        first, final = int(earliest[op]), int(latest[op])
        here = [model.new_bool_var(f"op{op}_slot{slot}") for slot in range(interval)]
        model.add_exactly_one(here)
        stage = model.new_int_var(first // interval, final // interval, f"op{op}_stage")
        cycle = model.new_int_var(first, final, f"op{op}_cycle")
        model.add(cycle == interval * stage + sum(slot * truth for slot, truth in enumerate(here)))
        cycles.append(cycle)
        slots.append(here)
    return cycles, slots


def _add_sums(model: "cp_model.CpModel", needs: Needs, slots: list[list["cp_model.IntVar"]], interval: int) -> None:
    for resource, capacity in enumerate(needs.capacities):
        terms: list[list[Any]] = [[] for _ in range(interval)]
        most = [0] * interval
        for op, kind in enumerate(needs.kind_of):
            for after, used, amount in needs.kinds[kind].uses:
                if used == resource:
                    for slot in range(interval):
                        terms[(slot + after) % interval].append(amount * slots[op][slot])
                        most[(slot + after) % interval] += amount
        for slot in range(interval):
            if most[slot] > capacity:
                model.add(sum(terms[slot]) <= capacity)


def _add_bans(model: "cp_model.CpModel", needs: Needs, slots: list[list["cp_model.IntVar"]], interval: int) -> None:
    """A truth per kind and slot, "one of this kind issues here"; two kinds' truths exclude each other."""
    members: list[list[int]] = [[] for _ in needs.kinds]
    for op, kind in enumerate(needs.kind_of):
        members[kind].append(op)
    banning = {kind for kind, facts in enumerate(needs.kinds) if facts.bans}
    here = {kind: [model.new_bool_var(f"kind{kind}_slot{slot}") for slot in range(interval)] for kind in banning}
    for kind in banning:
        for slot in range(interval):
            model.add_max_equality(here[kind][slot], [slots[op][slot] for op in members[kind]])
    for kind in banning:
        for after, banned in needs.kinds[kind].bans:
            for other in (other for other in banning if banned >> other & 1):
                for slot in range(interval):
                    then = (slot + after) % interval
                    if other == kind and not after:
                        model.add_at_most_one(slots[op][slot] for op in members[kind])
                    elif other == kind and then == slot:
                        model.add(here[kind][slot] == 0)
                    elif after > 0 or (not after and other > kind):
                        model.add_at_most_one(here[kind][slot], here[other][then])


def _cp_model() -> ModuleType:
    try:
        from ortools.sat.python import cp_model
    except ImportError as missing:
        raise ToolError(
            "ortools: not installed, and exact scheduling needs it; `pip install ortools`, or do without the solver"
        ) from missing
    return cp_model
