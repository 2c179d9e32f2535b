"""Plan of an application: memory with and without reuse, the front of memory against throughput, and the choice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.application import Application, firings
from mavcg.apps.buffers import edge_data, naive_buffers, reuse_buffers, total_size
from mavcg.apps.csdf import compress
from mavcg.apps.derivation import Chromosome, Derivation, Derived, LayerId, all_by_parts, free_genes
from mavcg.apps.exact_front import FrontPoint, derived_peak, exact_front, front_gap
from mavcg.apps.joint_arena import JointArena, plan_joint_arena
from mavcg.apps.library_buffers import memory_json
from mavcg.apps.library_documents import library_json
from mavcg.apps.library_plan import LibraryPlan
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
    """A point of the front: layers by parts, their arena, and the modelled frames per second of each CNN."""

    derived: Derived
    arena: JointArena
    throughput: Mapping[str, float]

    @property
    def phases(self) -> Mapping[LayerId, int]:
        """Number of phases of every layer."""
        return self.derived.phases


@dataclass(frozen=True)
class ApplicationPlan:
    """The plan of an application; all sizes are in bytes.

    naive, reuse_per_cnn, reuse_joint: memory without layers by parts. parts: with parts in every layer that allows them
    and buffers that are not shared ([65]). front: by increasing memory. chosen: index of the chosen solution in the
    front. meets: it meets all constraints. early: reuse alone met the memory limit, and nothing was searched. exact:
    the exact front of a single network, whose solutions are in the front too. front_gap: largest relative excess of
    live peak of the search's own solutions at the same time; None without an exact front.
    """

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
    """Plan the application by Algorithm 9; data lies in an arena (joint_arena.py), to which the memory limit applies.

    If there is a memory limit and reuse alone meets all constraints, no layer is computed by parts. Without a limit the
    chosen solution computes none by parts, as a library does; it is in the front even if one with less memory is as
    fast. The fitness of the search is the memory of Algorithm 8's buffers, as in the paper; each point of its front is
    then placed in an arena, and the chosen one's schedule is executed token by token. Raises: ScheduleFault if that
    fails, which is a bug in mavcg.
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

        individuals = search_chromosomes(genes, fitness, limits, progress)
        progress("computing the exact front")
        exact = exact_front(app, times) or []
        progress(f"placing {len(individuals) + len(exact)} solutions")
        searched = [solution(individual.chromosome) for individual in individuals]
        if exact:
            name = app.cnns[0].name
            gap = front_gap(exact, [(derived_peak(s.derived), 1e3 / s.throughput[name]) for s in searched])
        front = _front([plain, *searched, *(solution(point.chromosome) for point in exact)])
    if constraints.memory is None:
        front = front if plain in front else sorted([*front, plain], key=lambda option: option.arena.size)
        chosen = front.index(plain)
    else:
        chosen, meets = choose_solution(
            [option.arena.size + weights for option in front], [option.throughput for option in front], constraints
        )
    progress("executing the schedule")
    simulate_schedule(front[chosen].derived, front[chosen].arena.rings, limits.seed)
    return ApplicationPlan(
        app,
        weights,
        total_size(naive_buffers(data)),
        total_size(reuse_buffers(app, data, within_cnn=True)),
        total_size(reuse_buffers(app, data)),
        total_size(everywhere.buffers),
        tuple(front),
        chosen,
        meets,
        early,
        constraints,
        tuple(exact),
        gap,
    )


def _front(solutions: list[MemorySolution]) -> list[MemorySolution]:
    """Return the solutions that no other dominates; memory is the arena's size here, not the fitness of the search."""
    names = sorted(solutions[0].throughput)
    rows = [
        Individual(frozenset([("", str(number))]), (option.arena.size, *(-option.throughput[name] for name in names)))
        for number, option in enumerate(solutions)
    ]
    return [solutions[int(next(iter(row.chromosome))[1])] for row in pareto_front(rows)]


def meets_limits(plan: ApplicationPlan, library: LibraryPlan | None) -> bool:
    """Return whether the library keeps the limit of memory, and the chosen schedule those of throughput.

    library: None if none can be built; the plan then counts in its place.
    """
    if library is None:
        return plan.meets
    rates = plan.front[plan.chosen].throughput
    fast = all(rates[name] >= least for name, least in plan.constraints.throughput.items())
    return fast and library.excess_bytes <= 0


def model_buffers_json(arena: JointArena) -> list[dict[str, object]]:
    """Return the data of a schedule's edges with the bytes and offset of each, and the steps in which it is live."""
    return [
        {
            "name": data.label,
            "network": data.cnn,
            "bytes": ring.elements,
            "offset": ring.offset,
            "edges": [f"{data.edge.source}->{data.edge.target}"],
            "first": arena.times[data][0],
            "last": arena.times[data][1] - 1,
        }
        for data, ring in arena.rings.items()
    ]


def plan_json(
    plan: ApplicationPlan,
    library: LibraryPlan | None = None,
    refusal: str = "",
    measured: Sequence[Mapping[str, object]] = (),
) -> dict[str, object]:
    """Return the document of `mavcg app plan --json`.

    Arena, lower bound, buffers and weights are those of the library; library: None if none can be built, for the reason
    `refusal`, and then they are those of the chosen schedule, by the paper's model, and of the files. measured: of each
    point of the front, if they were run.
    """
    best = plan.front[plan.chosen]
    size, bound = best.arena.size, best.arena.lower_bound
    built: dict[str, object] = {"not_buildable": refusal, "weights_bytes": plan.weights}
    built |= {"buffers": model_buffers_json(best.arena), "peak_bytes": size}
    if library is not None:
        size, bound = library.application.arena_bytes, library.lower_bound_bytes
        built = {**library_json(library), **memory_json(library)}
    return {
        **built,
        "file_weights_bytes": plan.weights,
        "naive_bytes": plan.naive,
        "reuse_per_cnn_bytes": plan.reuse_per_cnn,
        "reuse_joint_bytes": plan.reuse_joint,
        "parts_everywhere_bytes": plan.parts,
        "arena_bytes": size,
        "lower_bound_bytes": bound,
        "front": [
            {
                "bytes": option.arena.size,
                "throughput": dict(option.throughput),
                "is": "modelled",
                "phases": {
                    cnn.name: {layer.name: option.phases[(cnn.name, layer.name)] for layer in cnn.layers}
                    for cnn in plan.app.cnns
                },
                "schedules": _schedules_json(option),
                "measured": measured[number] if measured else None,
            }
            for number, option in enumerate(plan.front)
        ],
        "chosen": plan.chosen,
        "optimal": size == bound,
        "gap": size / bound - 1 if bound else 0.0,
        "exact_front": [{"live_peak_bytes": point.peak, "ms": point.ms} for point in plan.exact] or None,
        "front_gap": plan.front_gap,
        "front_optimal": plan.front_gap == 0,
        "meets_constraints": meets_limits(plan, library),
        "partitions": {p.name: list(p.layers) for p in plan.app.partitions},
        "schedules": _schedules_json(best),
    }


def _schedules_json(solution: MemorySolution) -> dict[str, str]:
    """Return the schedule of each partition, as app.toml takes it."""
    return {
        p.name: write_schedule(p.schedule if p.fixed else compress(tuple(firings(p.schedule))))
        for p in solution.derived.app.partitions
    }
