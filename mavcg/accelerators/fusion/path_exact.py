"""Find the cheapest execution path: a shortest path over sets of executed nodes, or by CP-SAT for large graphs.

A state is the set of executed nodes, which is closed under predecessors. An edge executes one more group whose inputs
exist. To keep the number of states small, a state is not expanded by every ready group, but only by the groups that
contain its first node that is not executed, and groups that may have to run before those (a persistent set: Godefroid,
"Partial-Order Methods for the Verification of Concurrent Systems", 1996, section 4).
"""

import math

from mavcg.accelerators.fusion.path_instance import ChosenPath, PathInstance, bits
from mavcg.errors import MavcgError

MOST_STATES = 200_000
CP_SAT_SECONDS = 60.0


def cheapest_path(instance: PathInstance, most_states: int = MOST_STATES) -> ChosenPath:
    """Return the choice of groups with the least total cost.

    most_states: for more states, CP-SAT searches, for CP_SAT_SECONDS at most; its best choice is then not proven
    optimal. Raises: MavcgError if no choice covers each node exactly once without a cycle.
    """
    if not instance.nodes:
        return ChosenPath((), 0.0, True)
    groups = _shortest(instance, most_states)
    if groups is None:
        return _by_cp_sat(instance)
    if not groups:
        raise _infeasible()
    order = instance.execution_order(groups)
    assert order is not None
    return ChosenPath(order, instance.cost_of(order), True)


def _infeasible() -> MavcgError:
    return MavcgError(
        "no choice of groups has each node exactly once without a cycle; add groups, such as one for each single node"
    )


def _shortest(instance: PathInstance, most_states: int) -> tuple[int, ...] | None:
    """Return the groups of a shortest path; () if there is no path, None for too many states. Costs may be negative."""
    best: dict[int, float] = {0: 0.0}
    came_by: dict[int, tuple[int, int]] = {}
    levels: list[list[int]] = [[] for _ in range(len(instance.nodes) + 1)]
    levels[0].append(0)
    for level in levels:
        for state in level:
            cost = best[state]
            for index in _next_groups(instance, state):
                after = state | instance.members[index]
                total = cost + instance.groups[index].cost
                known = best.get(after)
                if known is None:
                    levels[after.bit_count()].append(after)
                if known is None or total < known:
                    best[after] = total
                    came_by[after] = (state, index)
            if len(came_by) > most_states:
                return None
        for state in level:
            if state != instance.everything:
                del best[state]  # paths go to larger sets only
    if instance.everything not in best:
        return ()
    chosen, state = [], instance.everything
    while state:
        state, index = came_by[state]
        chosen.append(index)
    return tuple(reversed(chosen))


def _next_groups(instance: PathInstance, state: int) -> list[int]:
    """Return the groups that expand a state: the ready groups that contain its first node that is not executed.

    If some groups of that node are not ready, also the ready groups that may have to run before them.
    """
    missing = instance.everything & ~state
    if not missing:
        return []
    first = (missing & -missing).bit_length() - 1
    ready, seen, pending = [], {first}, [first]
    groups: set[int] = set()
    while pending:
        position = pending.pop()
        for index in instance.by_node[position]:
            if index in groups or instance.members[index] & state:
                continue
            groups.add(index)
            absent = instance.required_nodes[index] & ~state
            if not absent:
                ready.append(index)
            for needed in bits(absent):
                if needed not in seen:
                    seen.add(needed)
                    pending.append(needed)
    return ready


def _by_cp_sat(instance: PathInstance) -> ChosenPath:
    """Solve the problem by CP-SAT as set partitioning, with a position for each node to exclude cycles.

    The nodes of a group have the same position, and an edge between groups goes to a higher position.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = [model.new_bool_var(f"g{i}") for i in range(len(instance.groups))]
    position = [model.new_int_var(0, len(instance.nodes) - 1, f"p{i}") for i in range(len(instance.nodes))]
    for indices in instance.by_node:
        model.add_exactly_one(chosen[i] for i in indices)
    for index, members in enumerate(instance.members):
        first, *others = bits(members)
        for member in others:
            model.add(position[member] == position[first]).only_enforce_if(chosen[index])
    for a, b in instance.edges:
        start, end = instance.index_of[a], instance.index_of[b]
        both = [chosen[i] for i in set(instance.by_node[start]) & set(instance.by_node[end])]
        model.add(position[end] >= position[start] + 1 - sum(both))
    # Costs become whole numbers of 40 bits, so that sums of thousands stay in 64.
    greatest = max(abs(group.cost) for group in instance.groups)
    scale = 2.0 ** (40 - math.frexp(greatest)[1]) if greatest else 1.0
    model.minimize(sum(round(g.cost * scale) * c for g, c in zip(instance.groups, chosen, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = CP_SAT_SECONDS
    solver.parameters.num_workers = 2
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        raise _infeasible()
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise MavcgError(f"no choice of groups found in {CP_SAT_SECONDS:.0f} s; give fewer groups")
    order = instance.execution_order(i for i, c in enumerate(chosen) if solver.boolean_value(c))
    assert order is not None
    return ChosenPath(order, instance.cost_of(order), status == cp_model.OPTIMAL)
