"""Predicted latency of a model on a board: by layer, by cluster, and by number of threads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.assembly.tuning_options import has_machine_passes
from mavcg.cost_model.board_machine import cluster_machine, cluster_machines
from mavcg.cost_model.core_rates import core_rates
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.target import Target, parse_target
from mavcg.lowering.kernel_code import UNPLANNED
from mavcg.lowering.machines import machines_for
from mavcg.predict.asm_blocks import built_loops
from mavcg.predict.kernel_cycles import KernelModel, kernel_models
from mavcg.predict.latency import StepCost, StepModel, Worker, total_ms
from mavcg.predict.memory import reuse_distances
from mavcg.predict.unsure import unsure_because
from mavcg.predict.work import StepWork
from mavcg.profiles.load import load_cores
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import ThreadPlan
from mavcg.specs.tile_plan import TilePlan

ASSUMED_ALWAYS = (
    "the model runs again and again: caches hold what the run before left, as far as it fits",
    "blocks of kernels take what the pipeline model or the core's rates say; branches but the ends of long loops are "
    "foreseen",
    "clocks stay at the board's figures: no throttling, no governor; nothing else runs",
)  # fmt: skip
# Said of cores whose code a build reschedules.
TUNED = (
    "{}: loops as the compiler leaves them; a build makes them faster: estimate the built library to see by how much"
)

# Simulates steps of a program: (all steps, the numbers of some, a core, the label of the version that it runs) -> ms by
# number, or why not.
StepSimulator = Callable[[Sequence[StepWork], Sequence[int], Core, str], Mapping[int, float | str]]


@dataclass(frozen=True)
class ClusterInfo:
    """A cluster of the prediction.

    label: name of the core, with the cluster's first CPU if several clusters have it. core: label of the version that
    it runs.
    """

    label: str
    core: str
    number: int
    cpus: int
    ghz: float


@dataclass(frozen=True)
class LayerPrediction:
    """Prediction of a step.

    ms: with the requested threads. on: by cluster, on one of its cores alone. how: source of the cycles, by cluster.
    unsure: by cluster, why the model alone is unsure (unsure.py). not_simulated: by cluster, why an unsure step could
    not be simulated.
    """

    work: StepWork
    ms: float
    on: dict[str, StepCost]
    how: dict[str, str]
    unsure: dict[str, str] = field(default_factory=dict)
    not_simulated: dict[str, str] = field(default_factory=dict)

    @property
    def bound(self) -> str:
        """The resource that bounds most of the time on the fastest cluster."""
        return min(self.on.values(), key=lambda cost: cost.ms).bound


@dataclass(frozen=True)
class ThreadPrediction:
    """Cores at work. cores: number of cores of each cluster, by label. ms: time of a run."""

    threads: int
    cores: dict[str, int]
    ms: float

    @property
    def words(self) -> str:
        """The cores, as text for users."""
        return " + ".join(f"{count} {label}" for label, count in self.cores.items())


@dataclass(frozen=True)
class Prediction:
    """Prediction of a model on a board; all figures are modelled, or simulated where the model is unsure.

    clusters: the fastest first. chosen: the threads that `layers` were predicted for. by_threads: one row for each
    number of threads, on the fastest cores. sets: whole clusters, added one after the other, and each alone. team_ms:
    of each layer, for each of the requested teams.
    """

    model: str
    board: str
    clusters: tuple[ClusterInfo, ...]
    layers: tuple[LayerPrediction, ...]
    chosen: ThreadPrediction
    by_threads: tuple[ThreadPrediction, ...]
    sets: tuple[ThreadPrediction, ...]
    assumed: tuple[str, ...]
    team_ms: tuple[tuple[float, ...], ...] = ()

    @property
    def total_ms(self) -> float:
        """Time of a run in ms: the sum over the layers."""
        return sum(layer.ms for layer in self.layers)


def best_threads(prediction: Prediction) -> ThreadPrediction:
    """Return the fastest number of threads, the smallest of equally fast ones."""
    return min(prediction.by_threads, key=lambda row: (row.ms, row.threads))


def thread_plans(prediction: Prediction) -> tuple[ThreadPlan, ...]:
    """Return the plans from which the engine chooses its number of threads.

    There is one for each number, on the fastest cores, with its time divided by the best.
    """
    least = best_threads(prediction).ms or 1.0
    core_of = {cluster.label: cluster.core for cluster in prediction.clusters}
    return tuple(
        ThreadPlan(tuple(dict.fromkeys(core_of[label] for label in row.cores)), row.threads, row.ms / least)
        for row in prediction.by_threads
        if row.ms > 0
    )


def predict(
    name: str,
    works: Sequence[StepWork],
    specs: Sequence[KernelSpec],
    board: Board,
    threads: int = 1,
    target: Target | None = None,
    workers: int = 1,
    progress: Callable[[str], None] = lambda message: None,
    library: Path | None = None,
    plan: TilePlan = UNPLANNED,
    available: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
    teams: Sequence[tuple[int, int]] = (),
    simulate: StepSimulator | None = None,
) -> Prediction:
    """Predict a lowered model on a board.

    threads: for `layers` and `chosen`, the fastest cores first; 0: the best number. works, specs: of the program.
    library: where it is built: its loops count as the machine passes left them. plan: the kernels' macro-tiles.
    available: the versions that the library has; a core without its own runs a stand-in's, else the generic one.
    teams: (cluster's number on the board, cores of it), which work at the same time, on a run each.
    simulate: steps whose time by the model is unsure; None: they stay modelled.
    names: a kernel's name in `works` and in the library -> kernel_name of its spec, where they differ.
    Raises: MavcgError for more threads than the board has CPUs, and whatever the machines raise.
    """
    alone, current = cluster_machines(board), names or {}
    cpus = sum(len(cluster.cpus) for cluster in board.clusters)
    if not 0 <= threads <= cpus:
        raise MavcgError(f"--threads {threads}: {board.name} has {cpus} CPUs; give 1 to {cpus}, or auto for the best")
    target = target or parse_target(board.target)
    versions = [_version(machine.core, available) for machine in alone]
    files = load_cores()
    machines = machines_for([files[label] for label in dict.fromkeys(versions) if label in files], target)
    assumed: dict[str, None] = {}
    kernels: list[dict[str, KernelModel]] = []
    known: dict[str, dict[str, KernelModel]] = {}
    for machine, version in zip(alone, versions, strict=True):
        core, label = machine.core, machine.core.name if machine.core is not None else GENERIC
        model = core_rates(version, machines[version], machine)
        assumed |= dict.fromkeys((*machine.assumed, *model.assumed))
        if version != label:
            assumed[f"{label}: the library has no version for it: it runs {version}'s"] = None
        if label not in known:
            built = None
            if library is not None and core is not None and model.timing is not None:
                loops = built_loops(library, core, list(dict.fromkeys(w.kernel for w in works)), model.timing)
                built = {current.get(kernel, kernel): of for kernel, of in loops.items()}
            elif core is not None and model.timing is not None and has_machine_passes(core):
                assumed[TUNED.format(label)] = None
            known[label] = kernel_models(specs, model, target, workers, progress, built, plan)
        kernels.append(known[label])
    distances = reuse_distances(works)
    steps = [
        StepModel(work, distance, [of[current.get(work.kernel, work.kernel)] for of in kernels])
        for work, distance in zip(works, distances, strict=True)
    ]
    single = [Worker(number, machine) for number, machine in enumerate(alone)]
    unsure = [{w.cluster: why for w in single if (why := unsure_because(step, w))} for step in steps]
    refused: list[dict[int, str]] = [{} for _ in steps]
    if simulate is not None:
        steps = _with_simulated(steps, unsure, refused, single, versions, simulate)
    order = sorted(range(len(alone)), key=lambda n: (total_ms(steps, [single[n]]), n))
    labels = _labels(board)

    def at_work(counts: dict[int, int]) -> list[Worker]:
        everyone = sum(counts.values())
        found = []
        for number in order:
            if count := counts.get(number, 0):
                machine = cluster_machine(board, number, count, everyone - count)
                assumed.update(dict.fromkeys(machine.assumed))
                found += [Worker(number, machine)] * count
        return found

    def row(counts: dict[int, int]) -> ThreadPrediction:
        cores = {labels[number]: counts[number] for number in order if counts.get(number)}
        return ThreadPrediction(sum(counts.values()), cores, total_ms(steps, at_work(counts)))

    sizes = {number: len(board.clusters[number].cpus) for number in order}
    by_threads = tuple(row(_first(order, sizes, count)) for count in range(1, cpus + 1))
    whole = [{n: sizes[n] for n in order[: i + 1]} for i in range(len(order))]
    whole += [{n: sizes[n]} for n in order[1:]]
    chosen = threads or min(by_threads, key=lambda r: (r.ms, r.threads)).threads
    here = at_work(_first(order, sizes, chosen))
    layers = tuple(
        LayerPrediction(
            step.work,
            step.together(here),
            {labels[n]: step.alone(single[n]) for n in order},
            {labels[n]: step.kernels[n].how for n in order},
            {labels[n]: why[n] for n in order if n in why},
            {labels[n]: not_simulated[n] for n in order if n in not_simulated},
        )
        for step, why, not_simulated in zip(steps, unsure, refused, strict=True)
    )
    infos = tuple(ClusterInfo(labels[n], versions[n], n, sizes[n], single[n].ghz) for n in order)
    return Prediction(
        name, board.name, infos, layers, by_threads[chosen - 1], by_threads, tuple(row(c) for c in whole),
        (*ASSUMED_ALWAYS, *_step_sentences(single, labels), *assumed), _team_ms(steps, board, teams),
    )  # fmt: skip


def _with_simulated(
    steps: Sequence[StepModel], unsure: Sequence[Mapping[int, str]], refused: Sequence[dict[int, str]],
    single: Sequence[Worker], versions: Sequence[str], simulate: StepSimulator,
) -> list[StepModel]:  # fmt: skip
    """Return the steps with simulated times where the model is unsure.

    refused: gets the reason for each step that cannot be simulated. Clusters of one core and version are simulated
    once.
    """
    works = [step.work for step in steps]
    times: list[list[tuple[Worker, float]]] = [[] for _ in steps]
    known: dict[tuple[str, str], Mapping[int, float | str]] = {}
    for worker in single:
        core, label = worker.machine.core, versions[worker.cluster]
        numbers = [number for number, why in enumerate(unsure) if worker.cluster in why]
        if core is None or not numbers:
            continue
        if (core.name, label) not in known:
            known[core.name, label] = simulate(works, numbers, core, label)
        for number, result in known[core.name, label].items():
            if isinstance(result, str):
                refused[number][worker.cluster] = result
            else:
                times[number].append((worker, result))
    return [step.with_simulated(each) for step, each in zip(steps, times, strict=True)]


def _team_ms(
    steps: Sequence[StepModel], board: Board, teams: Sequence[tuple[int, int]]
) -> tuple[tuple[float, ...], ...]:
    """Return each team's time of each step in ms, while the other teams work, too."""
    everyone = sum(cores for _, cores in teams)
    found = []
    for number, cores in teams:
        workers = [Worker(number, cluster_machine(board, number, cores, everyone - cores))] * cores
        found.append(tuple(step.together(workers) for step in steps))
    return tuple(found)


def _step_sentences(single: Sequence[Worker], labels: Sequence[str]) -> list[str]:
    """Return sentences on the costs of a step, a call and a handover, by cluster."""
    fits = [worker.machine.fit.steps for worker in single]
    return list(dict.fromkeys(
        f"{label}: a step costs {fit.step_cycles:g} cycles, a task {fit.call_cycles:g}, sharing a step with other "
        f"threads {fit.handover_cycles:g} (profiles/fits)"
        for label, fit in zip(labels, fits, strict=True)
    ))  # fmt: skip


def _version(core: Core | None, available: Sequence[str] | None) -> str:
    """Return the label of the version that a core runs."""
    if core is None:
        return GENERIC
    candidates = (core.name, *core.stand_ins)
    return next((name for name in candidates if name in available), GENERIC) if available is not None else core.name


def _first(order: Sequence[int], sizes: dict[int, int], count: int) -> dict[int, int]:
    """Return the numbers of cores of the first `count` cores, fastest clusters first."""
    found = {}
    for number in order:
        if taken := min(count, sizes[number]):
            found[number] = taken
            count -= taken
    return found


def _labels(board: Board) -> list[str]:
    names = [cluster.core for cluster in board.clusters]
    return [
        name if names.count(name) == 1 else f"{name}@{cluster.cpus[0]}"
        for name, cluster in zip(names, board.clusters, strict=True)
    ]
