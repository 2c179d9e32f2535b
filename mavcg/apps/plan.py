"""Plan an application: every use of memory side by side, the front of memory and throughput, the choice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mavcg.apps.application import Application, firings
from mavcg.apps.buffers import edge_data, naive_buffers, reuse_buffers, total_size
from mavcg.apps.csdf import compress
from mavcg.apps.derivation import Chromosome, Derivation, Derived, LayerId, all_by_parts, free_genes
from mavcg.apps.exact_front import FrontPoint, derived_peak, exact_front, front_gap
from mavcg.apps.joint_arena import JointArena, plan_joint_arena
from mavcg.apps.schedule_notation import write_schedule
from mavcg.apps.search import (
    Constraints,
    GeneticLimits,
    Individual,
    choose_solution,
    pareto_front,
    search_chromosomes,
)
from mavcg.apps.throughput import Times, throughputs
from mavcg.apps.token_simulator import simulate_schedule


@dataclass(frozen=True)
class MemorySolution:
    """A point of the front: layers by parts, with the arena's bytes and the modelled frames per second of each CNN."""

    derived: Derived
    arena: JointArena
    throughput: Mapping[str, float]

    @property
    def phases(self) -> Mapping[LayerId, int]:
        """Phases of every layer."""
        return self.derived.phases


@dataclass(frozen=True)
class ApplicationPlan:
    """All sizes in bytes. naive, reuse_per_cnn, reuse_joint: no layer by parts. parts: parts in every layer that can,
    with buffers that are not shared ([65]). front: by increasing memory. chosen: its number there; meets: True if it
    meets all constraints. early: True if reuse alone was enough and nothing was searched.
    exact: the exact front of one network, whose solutions are in the front too. front_gap: the share of live peak that
    the search's own solutions need more at most, at the same time; None without an exact front."""

    app: Application
    weights: int
    naive: int
    reuse_per_cnn: int
    reuse_joint: int
    parts: int
    front: tuple[MemorySolution, ...]
    chosen: int
    meets: bool
    early: bool
    constraints: Constraints
    exact: tuple[FrontPoint, ...] = ()
    front_gap: float | None = None


def plan_application(
    app: Application,
    times: Times,
    constraints: Constraints,
    limits: GeneticLimits,
    progress: Callable[[str], None] = lambda message: None,
) -> ApplicationPlan:
    """Plan the application by Algorithm 9; data lies in an arena (joint_arena.py), which the limit counts.

    Where a limit of memory is given and reuse alone meets all constraints, no layer is computed by parts. The search's
    own fitness is the memory of Algorithm 8's buffers, as in the paper; each point of its front is then placed in an
    arena, and the chosen one's schedule is executed token by token.
    Raises: ScheduleFault if that fails: a fault of this program.
    """
    derivation, data = Derivation(app), edge_data(app)
    weights = sum(layer.weights for cnn in app.cnns for layer in cnn.layers)

    def solution(chromosome: Chromosome) -> MemorySolution:
        derived = derivation.derive(chromosome)
        return MemorySolution(derived, plan_joint_arena(derived), throughputs(app, derived.phases, times))

    progress("sharing buffers")
    plain, everywhere = (
        solution(frozenset()),
        derivation.derive(all_by_parts(app), lambda app, data: naive_buffers(data)),
    )
    _, meets = choose_solution([plain.arena.size + weights], [plain.throughput], constraints)
    early = meets and constraints.memory is not None
    front, exact, gap = [plain], list[FrontPoint](), None
    if not early:
        genes = free_genes(app)

        def fitness(chromosome: Chromosome) -> tuple[float, ...]:
            derived = derivation.derive(chromosome)
            fps = throughputs(app, derived.phases, times)
            return (float(total_size(derived.buffers)), *(-fps[cnn.name] for cnn in app.cnns))

        found = search_chromosomes(genes, fitness, limits, progress)
        progress("looking for the exact front")
        exact = exact_front(app, times) or []
        progress(f"placing {len(found) + len(exact)} solutions")
        searched = [solution(one.chromosome) for one in found]
        if exact:
            name = app.cnns[0].name
            gap = front_gap(exact, [(derived_peak(s.derived), 1e3 / s.throughput[name]) for s in searched])
        front = _front([*searched, *(solution(point.chromosome) for point in exact)])
    chosen, meets = choose_solution(
        [each.arena.size + weights for each in front], [each.throughput for each in front], constraints
    )
    progress("executing the schedule")
    simulate_schedule(front[chosen].derived, front[chosen].arena.rings, limits.seed)
    return ApplicationPlan(
        app, weights, total_size(naive_buffers(data)), total_size(reuse_buffers(app, data, within_cnn=True)),
        total_size(reuse_buffers(app, data)), total_size(everywhere.buffers), tuple(front), chosen, meets, early,
        constraints, tuple(exact), gap,
    )  # fmt: skip


def _front(solutions: list[MemorySolution]) -> list[MemorySolution]:
    """Return the solutions that none dominates, with the arena's bytes for the memory of the search's fitness."""
    names = sorted(solutions[0].throughput)
    rows = [
        Individual(frozenset([("", str(number))]), (each.arena.size, *(-each.throughput[name] for name in names)))
        for number, each in enumerate(solutions)
    ]
    return [solutions[int(next(iter(row.chromosome))[1])] for row in pareto_front(rows)]


def plan_json(plan: ApplicationPlan) -> dict[str, object]:
    """Return what `mavcg app plan --json` prints."""
    best = plan.front[plan.chosen]
    return {
        "weights_bytes": plan.weights,
        "naive_bytes": plan.naive,
        "reuse_per_cnn_bytes": plan.reuse_per_cnn,
        "reuse_joint_bytes": plan.reuse_joint,
        "parts_everywhere_bytes": plan.parts,
        "arena_bytes": best.arena.size,
        "lower_bound_bytes": best.arena.lower_bound,
        "front": [
            {
                "bytes": each.arena.size,
                "throughput": dict(each.throughput),
                "is": "modelled",
                "phases": {
                    cnn.name: {layer.name: each.phases[(cnn.name, layer.name)] for layer in cnn.layers}
                    for cnn in plan.app.cnns
                },
            }
            for each in plan.front
        ],
        "chosen": plan.chosen,
        "optimal": best.arena.optimal,
        "gap": best.arena.size / best.arena.lower_bound - 1 if best.arena.lower_bound else 0.0,
        "exact_front": [{"live_peak_bytes": point.peak, "ms": point.ms} for point in plan.exact] or None,
        "front_gap": plan.front_gap,
        "front_optimal": plan.front_gap == 0,
        "meets_constraints": plan.meets,
        "partitions": {p.name: list(p.layers) for p in plan.app.partitions},
        "schedules": {
            p.name: write_schedule(p.schedule if p.fixed else compress(tuple(firings(p.schedule))))
            for p in best.derived.app.partitions
        },
    }
