"""Which way each node of a model is computed, where there are several: the one that is predicted to be the fastest.

A library is run with one thread or with several. So a way is judged by both: by the geometric mean of its time on one
core and of that on all cores of the cluster.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.board import Board, Cluster
from mavcg.core import GENERIC
from mavcg.graph import Graph
from mavcg.kernel import KernelSpec, Machine, Packing
from mavcg.kernels.emit import kernel_name
from mavcg.lowering import Lowered, lower_graph, ways_of
from mavcg.planner.board_machine import ClusterMachine, cluster_machine, cluster_machines
from mavcg.planner.engine_tiles import cores_of, plan_tiles, with_known_caches
from mavcg.predict.kernel_cycles import CoreModel, core_model, kernel_models
from mavcg.predict.latency import StepModel, Worker
from mavcg.predict.memory import reuse_distances
from mavcg.predict.work import step_works
from mavcg.target import Target

Progress = Callable[[str], None]
# What another way has to be below, of the usual one's time: a model is not to be trusted with less, and every other way
# costs weights or accuracy.
WORTH = 0.9


@dataclass(frozen=True)
class Way:
    """A node's way. name: "" is the family's own; ms: predicted, on one core of the fastest cluster; together_ms: on
    all of its cores."""

    name: str
    ms: float
    together_ms: float
    weight_bytes: int

    @property
    def mean_ms(self) -> float:
        """What it is judged by."""
        return math.sqrt(self.ms * self.together_ms)


@dataclass(frozen=True)
class Chosen:
    """A lowering with the ways that were chosen. considered: by node, all ways, the family's own first."""

    lowered: Lowered
    ways: Mapping[str, str]
    considered: Mapping[str, tuple[Way, ...]]

    def __str__(self) -> str:
        lines = []
        for node, ways in self.considered.items():
            figures = ", ".join(f"{way.name or 'own'} {way.ms:.3f} ms (together {way.together_ms:.3f})" for way in ways)
            lines.append(f"{node}: {self.ways.get(node, 'own')} of {figures}\n")
        return "".join(lines)


def choose_ways(
    graph: Graph,
    packing: Packing,
    machines: Mapping[str, Machine],
    target: Target,
    board: Board | None,
    max_error: float,
    progress: Progress = lambda message: None,
) -> Chosen:
    """Lower a graph, each node in the way that is predicted to be the fastest on the board's fastest cluster.

    All versions of a kernel compute alike (docs/design/one-answer.md), so that one kind of core has to speak for all.
    board: None is one core of each version, with what is typical of its kind. max_error: that a way may be off by, over
    the node's largest sum before the activation. Cycles go by counted blocks at the core's rates, without compiling.
    """
    plain = lower_graph(graph, packing)
    options = ways_of(plain, max_error)
    its_board = with_known_caches(board or _typical(tuple(machines), target))
    clusters = cluster_machines(its_board) if options else ()
    if not clusters:
        return Chosen(plain, {}, {})
    progress("comparing ways to compute convolutions")
    fastest = max(clusters, key=lambda machine: machine.accelerator.peak_gmac_per_s)
    label = fastest.core.name if fastest.core is not None and fastest.core.name in machines else GENERIC
    model = core_model(label, machines[label], fastest.core, fastest.cluster.fma_per_cycle)
    number = clusters.index(fastest)
    together = cluster_machine(its_board, number, len(fastest.cluster.cpus))
    speaker = _Speaker(fastest, together, replace(model, timing=None), target)
    found: dict[str, list[Way]] = {}
    for name in ["", *dict.fromkeys(name for ways in options.values() for name in ways)]:
        ways = {node: name for node, has in options.items() if name in has}
        lowered = lower_graph(graph, packing, ways) if name else plain
        for node, way in _predicted(name, lowered, ways or options, speaker, board).items():
            found.setdefault(node, []).append(way)
    chosen = {node: best.name for node, ways in found.items() if (best := _best(ways)).name}
    considered = {node: tuple(ways) for node, ways in found.items()}
    return Chosen(lower_graph(graph, packing, chosen) if chosen else plain, chosen, considered)


def _best(ways: Sequence[Way]) -> Way:
    own, *others = ways
    return min((way for way in others if way.mean_ms < WORTH * own.mean_ms), key=lambda way: way.mean_ms, default=own)


@dataclass(frozen=True)
class _Speaker:
    """The core that is asked. together: it, while all cores of its cluster work."""

    machine: ClusterMachine
    together: ClusterMachine
    model: CoreModel
    target: Target


def _predicted(
    name: str, lowered: Lowered, nodes: Mapping[str, object], asked: _Speaker, board: Board | None
) -> dict[str, Way]:
    """Each of these nodes as a lowering has it."""
    works = step_works(lowered)
    specs = {kernel_name(spec): spec for spec in lowered.specs}
    steps = [
        (node.output, work, distance)
        for node, work, distance in zip(lowered.nodes, works, reuse_distances(works), strict=True)
        if node.output in nodes
    ]
    wanted = [specs[kernel] for kernel in dict.fromkeys(work.kernel for _, work, _ in steps)]
    label = asked.model.label
    machines = {label: asked.model.machine}
    plan = plan_tiles(wanted, machines, cores_of((label,), asked.target, board))
    models = kernel_models(wanted, asked.model, asked.target, plan=plan)
    one, all_of_them = Worker(0, asked.machine), [Worker(0, asked.together)] * asked.together.cores
    found: dict[str, Way] = {}
    for node, work, distance in steps:
        kernel = [models[work.kernel]]
        whole = StepModel(replace(work, grain=_rows_read_for(specs[work.kernel], work.grain)), distance, kernel)
        shared = StepModel(replace(work, grain=plan.task_rows(work.kernel) or work.grain), distance, kernel)
        so_far = found.get(node, Way(name, 0.0, 0.0, 0))
        found[node] = Way(
            name, so_far.ms + whole.alone(one).ms, so_far.together_ms + shared.together(all_of_them),
            so_far.weight_bytes + work.bytes_of("weight"),
        )  # fmt: skip
    return found


def _rows_read_for(spec: KernelSpec, grain: int) -> int:
    """Rows that one reading of the weights is for: of a task, or those that share it inside of a call."""
    return min(spec.rows, spec.shared_rows) if spec.shared_rows > 1 else grain


def _typical(labels: Sequence[str], target: Target) -> Board:
    """A board of one core of each version."""
    cores = [label for label in labels if label != GENERIC] or [GENERIC]
    clusters = tuple(Cluster(core, (number,)) for number, core in enumerate(cores))
    return Board("typical", "", target.zig_name, clusters)
