"""Predicted time of each algorithm that can compute a node, and the fastest one.

A library runs with one thread or with several, so algorithms are compared by the geometric mean of the time on one core
and the time on all cores of the cluster.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mavcg.choose.lowering.lower import LoweringCandidates, lower_candidates
from mavcg.choose.lowering.memory_plan import ContentDigests
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.predict.kernel_cycles import KernelModel, kernel_models
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import Distances, reuse_distances
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.work import StepWork, rows_per_reading
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.model_error import model_error
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.graph import Graph
from mavcg.hardware.core_model import BoardModel, CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.runtime.machines import packing_for
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import TilePlan

Progress = Callable[[str], None]
# Largest share of the default algorithm's time at which another is taken, as every other algorithm costs weights or
# accuracy; less on a core whose model errs by more than the rest (worth_on).
WORTH = 0.9


@dataclass(frozen=True)
class AlgorithmTime:
    """An algorithm's predicted time for a node, in ms, on one core of the fastest cluster and on all of its cores.

    name: "" is the default of the node's family.
    """

    name: str
    ms: float
    together_ms: float
    weight_bytes: int

    @property
    def mean_ms(self) -> float:
        """The time that algorithms are compared by: the geometric mean of both."""
        return math.sqrt(self.ms * self.together_ms)


@dataclass(frozen=True)
class PredictedAlgorithms:
    """Result of the comparison. fastest: by a node's output, unless it is the default.

    considered: all algorithms of these nodes, the default first. worth: largest share of the default's time at which
    another is taken.
    """

    fastest: Mapping[str, str]
    considered: Mapping[str, tuple[AlgorithmTime, ...]]
    worth: float = WORTH

    def __str__(self) -> str:
        lines = []
        for node, times in self.considered.items():
            figures = ", ".join(f"{t.name or 'own'} {t.ms:.3f} ms (together {t.together_ms:.3f})" for t in times)
            lines.append(f"{node}: {self.fastest.get(node, 'own')} of {figures}\n")
        return "".join(lines)


def predict_algorithms(
    candidates: LoweringCandidates,
    board: BoardModel,
    progress: Progress = lambda message: None,
    workers: int = 1,
) -> PredictedAlgorithms:
    """Predict each node's algorithms on the board's fastest cluster. workers: algorithms predicted at once.

    All versions of a kernel compute the same (docs/design/one-answer.md), so one kind of core represents all. Cycles
    are counted blocks at the core's rates, without compiling.
    """
    options = candidates.algorithms
    if not options:
        return PredictedAlgorithms({}, {})
    fastest, *_ = board.by_speed
    nodes_of = {"": tuple(options)} | {
        name: tuple(node for node, names in options.items() if name in names)
        for name in dict.fromkeys(name for names in options.values() for name in names)
    }
    works_of = _works(candidates, nodes_of)
    lowered = {kernel_name(step.spec): step.spec for steps in candidates.steps.values() for step in steps}

    def times_of(name: str) -> dict[str, AlgorithmTime]:
        kernels = dict.fromkeys(step.work.kernel for step in works_of[name])
        models = _kernel_times([lowered[kernel] for kernel in kernels], fastest, board)
        return _times(name, works_of[name], models, fastest, board)

    tasks = [Task("comparing algorithms of convolutions", partial(times_of, name)) for name in works_of]
    considered: dict[str, list[AlgorithmTime]] = {}
    for times in run_tasks(tasks, workers, progress):
        for node, time in times.items():
            considered.setdefault(node, []).append(time)
    worth = worth_on(fastest)
    best = {node: fastest_of(times, worth).name for node, times in considered.items()}
    return PredictedAlgorithms(
        {node: name for node, name in best.items() if name},
        {node: tuple(times) for node, times in considered.items()},
        worth,
    )


def worth_on(core: CoreModel) -> float:
    """Return the largest share of the default algorithm's time at which another is taken on a core.

    A gain that is no larger than the error of the core's model is none.
    """
    return min(WORTH, model_error(core.core).least_ratio)


def fastest_of(times: Sequence[AlgorithmTime], worth: float = WORTH) -> AlgorithmTime:
    """Return the fastest algorithm that beats the default by the factor worth; else the default, which is the first."""
    default, *others = times
    worth_it = (time for time in others if time.mean_ms < worth * default.mean_ms)
    return min(worth_it, key=lambda time: time.mean_ms, default=default)


def node_times(
    graph: Graph,
    board: BoardModel,
    max_error: float,
    progress: Progress = lambda message: None,
    workers: int = 1,
) -> dict[str, float]:
    """Return the time of each node of an optimised graph in ms, by its output; nodes without a kernel are left out.

    max_error: of algorithms (lower_candidates). The time is AlgorithmTime.mean_ms, of the fastest cluster.
    """
    candidates = lower_candidates(graph, packing_for(board.target, board.machines.values()), max_error)
    every = {node.output: candidates.algorithms.get(node.output, ()) for node in candidates.storage.graph.nodes}
    predicted = predict_algorithms(replace(candidates, algorithms=every), board, progress, workers)
    return {node: fastest_of(times, predicted.worth).mean_ms for node, times in predicted.considered.items()}


@dataclass(frozen=True)
class _NodeStep:
    """A step of a node, in a program in which one algorithm computes every node that it can compute."""

    node: str
    work: StepWork
    distances: Distances


@dataclass(frozen=True)
class _KernelTimes:
    """Models of an algorithm's kernels, with the tiles that they are modelled with."""

    specs: Mapping[str, KernelSpec]
    plan: TilePlan
    models: Mapping[str, KernelModel]


def _works(candidates: LoweringCandidates, nodes_of: Mapping[str, Sequence[str]]) -> dict[str, tuple[_NodeStep, ...]]:
    """Return by algorithm the steps of these nodes if it computes all of them."""
    digests = ContentDigests()
    works_of = {}
    for name, nodes in nodes_of.items():
        lowered = candidates.lower(dict.fromkeys(nodes, name))
        works = step_works(plan_lowered(lowered, digests=digests))
        works_of[name] = tuple(
            _NodeStep(node.output, work, distances)
            for node, work, distances in zip(lowered.nodes, works, reuse_distances(works), strict=True)
            if node.output in set(nodes)
        )
    return works_of


def _kernel_times(specs: Sequence[KernelSpec], core: CoreModel, board: BoardModel) -> _KernelTimes:
    """Plan tiles for every kernel, and model each kernel once."""
    plan = plan_tiles(specs, {core.label: board.versions[core.label]})
    named = {kernel_name(spec): spec for spec in specs}
    return _KernelTimes(named, plan, kernel_models(specs, core, board.target, plan=plan))


def _times(
    name: str, steps: Sequence[_NodeStep], kernels: _KernelTimes, alone: CoreModel, board: BoardModel
) -> dict[str, AlgorithmTime]:
    """Return the algorithm's time for each node: the sum over its steps."""
    times: dict[str, AlgorithmTime] = {}
    for step in steps:
        work, model = step.work, {alone.number: kernels.models[step.work.kernel]}
        call_rows = rows_per_reading(kernels.specs[work.kernel], work.call_rows)
        whole = StepModel(replace(work, call_rows=call_rows), step.distances, model)
        shared_rows = kernels.plan.call_rows(work.kernel) or work.call_rows
        shared = StepModel(replace(work, call_rows=shared_rows), step.distances, model)
        so_far = times.get(step.node, AlgorithmTime(name, 0.0, 0.0, 0))
        times[step.node] = AlgorithmTime(
            name,
            so_far.ms + whole.alone(alone).ms,
            so_far.together_ms + shared.together(board.team_of(alone)),
            so_far.weight_bytes + work.bytes_of("weight"),
        )
    return times
