"""Predicted latency of a model on a board: by layer, by cluster, and by number of threads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.choose.lowering.kernel_code import UNPLANNED
from mavcg.choose.predict.cluster_kernels import ProgramKernels, running_cores
from mavcg.choose.predict.kernel_cycles import KnownModels
from mavcg.choose.predict.latency import StepCost, StepModel, total_ms
from mavcg.choose.predict.memory import reuse_distances
from mavcg.choose.predict.unsure import StepSimulator, unsure_because, with_simulated
from mavcg.choose.predict.work import StepWork
from mavcg.cost.board_model import core_model
from mavcg.errors import MavcgError
from mavcg.hardware.board import Board
from mavcg.hardware.core_model import BoardModel, CoreModel, no_cores
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.model_program import ThreadPlan
from mavcg.specs.tile_plan import TilePlan

ASSUMED_ALWAYS = (
    "the model runs again and again: caches hold what the run before left, as far as it fits",
    "blocks of kernels take what the pipeline model or the core's rates say; branches but the ends of long loops are "
    "foreseen",
    "clocks stay at the board's figures: no throttling, no governor; nothing else runs",
)


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

    clusters: a core of each, which works alone, the fastest first; by the core's name, with the cluster's first CPU if
    several clusters have it. chosen: the threads that `layers` were predicted for. by_threads: one row for each
    number of threads, on the fastest cores. sets: whole clusters, added one after the other, and each alone. team_ms:
    of each layer, for each of the requested teams.
    """

    model: str
    board: str
    clusters: Mapping[str, CoreModel]
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
    cores = prediction.clusters
    return tuple(
        ThreadPlan(tuple(dict.fromkeys(cores[label].label for label in row.cores)), row.threads, row.ms / least)
        for row in prediction.by_threads
        if row.ms > 0
    )


@dataclass(frozen=True)
class PredictedProgram:
    """The steps to predict, with the specs and the macro-tiles of their kernels.

    board: that they are lowered for. library: where it is built: its loops count as the machine passes left them.
    available: the versions that the library has; a core without its own runs a stand-in's, else the generic one. names:
    a kernel's name in `works` and in the library -> kernel_name of its spec, where they differ.
    """

    name: str
    board: BoardModel
    works: Sequence[StepWork]
    specs: Sequence[KernelSpec]
    plan: TilePlan = UNPLANNED
    library: Path | None = None
    available: Sequence[str] | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def predict(
    program: PredictedProgram,
    threads: int = 1,
    workers: int = 1,
    progress: Callable[[str], None] = lambda message: None,
    teams: Sequence[tuple[int, int]] = (),
    simulate: StepSimulator | None = None,
    known: KnownModels | None = None,
) -> Prediction:
    """Predict a lowered model on its board.

    threads: for `layers` and `chosen`, the fastest cores first; 0: the best number.
    teams: (cluster's number on the board, cores of it), which work at the same time, on a run each.
    simulate: steps whose time by the model is unsure; None: they stay modelled.
    known: models of kernels from predictions of the same model or library, which gets the new ones.
    Raises: MavcgError for more threads than the board has CPUs, and for a board of which no core is known.
    """
    model, board = program.board, program.board.board
    if not model.clusters:
        raise MavcgError(no_cores(board))
    cpus = sum(len(cluster.cpus) for cluster in board.clusters)
    if not 0 <= threads <= cpus:
        raise MavcgError(f"--threads {threads}: {board.name} has {cpus} CPUs; give 1 to {cpus}, or auto for the best")
    alone = running_cores(model, program.available)
    assumed: dict[str, None] = {}
    kernel_names = {work.kernel: program.names.get(work.kernel, work.kernel) for work in program.works}
    kernels = ProgramKernels(
        program.specs,
        kernel_names,
        model.target,
        program.plan,
        program.library,
        workers,
        progress,
        known,
    )
    models = kernels.on_clusters(alone, assumed)
    steps = [
        StepModel(work, distance, {n: by_kernel[kernel_names[work.kernel]] for n, by_kernel in enumerate(models)})
        for work, distance in zip(program.works, reuse_distances(program.works), strict=True)
    ]
    unsure = [{w.number: why for w in alone if (why := unsure_because(step, w))} for step in steps]
    refused: list[dict[int, str]] = [{} for _ in steps]
    if simulate is not None:
        steps = with_simulated(steps, unsure, refused, alone, simulate)
    order = sorted(range(len(alone)), key=lambda n: (total_ms(steps, [alone[n]]), n))
    labels = _labels(board)
    cores = _BoardCores(board, steps, order, labels, assumed)
    by_threads = tuple(cores.prediction(cores.fastest(count)) for count in range(1, cpus + 1))
    chosen = threads or min(by_threads, key=lambda row: (row.ms, row.threads)).threads
    team = cores.workers(cores.fastest(chosen))
    layers = [_layer(step, team, cores, alone, *why) for step, *why in zip(steps, unsure, refused, strict=True)]
    sets = tuple(cores.prediction(counts) for counts in cores.sets())
    return Prediction(
        program.name,
        board.name,
        {labels[n]: alone[n] for n in order},
        tuple(layers),
        by_threads[chosen - 1],
        by_threads,
        sets,
        (*ASSUMED_ALWAYS, *_step_sentences(alone, labels), *assumed),
        _team_ms(steps, board, teams),
    )


@dataclass(frozen=True)
class _BoardCores:
    """Cores of a board that run the steps together. order: of the clusters, the fastest first.

    Numbers of cores are by the cluster's number. assumed: gets the assumptions.
    """

    board: Board
    steps: Sequence[StepModel]
    order: Sequence[int]
    labels: Sequence[str]
    assumed: dict[str, None]

    @property
    def sizes(self) -> dict[int, int]:
        """Number of cores of each cluster."""
        return {number: len(self.board.clusters[number].cpus) for number in self.order}

    def fastest(self, count: int) -> dict[int, int]:
        """Return the numbers of cores of the `count` fastest cores."""
        cores = {}
        for number, size in self.sizes.items():
            if taken := min(count, size):
                cores[number] = taken
                count -= taken
        return cores

    def sets(self) -> list[dict[int, int]]:
        """Return sets of whole clusters: added one after the other, then each but the fastest alone."""
        sizes = self.sizes
        added = [{n: sizes[n] for n in self.order[: i + 1]} for i in range(len(self.order))]
        return added + [{n: sizes[n]} for n in self.order[1:]]

    def workers(self, counts: Mapping[int, int]) -> list[CoreModel]:
        """Return these cores as workers, each with its share of the caches and the bandwidth."""
        everyone = sum(counts.values())
        workers = []
        for number in self.order:
            if count := counts.get(number, 0):
                machine = core_model(self.board, number, count, everyone - count)
                self.assumed.update(dict.fromkeys(machine.assumed))
                workers += [machine] * count
        return workers

    def prediction(self, counts: Mapping[int, int]) -> ThreadPrediction:
        """Return the time of a run on these cores."""
        cores = {self.labels[number]: counts[number] for number in self.order if counts.get(number)}
        return ThreadPrediction(sum(counts.values()), cores, total_ms(self.steps, self.workers(counts)))


def _layer(
    step: StepModel,
    team: Sequence[CoreModel],
    cores: _BoardCores,
    single: Sequence[CoreModel],
    unsure: Mapping[int, str],
    refused: Mapping[int, str],
) -> LayerPrediction:
    """Return the prediction of a step. team: the requested threads; single: a core of each cluster, alone."""
    named = [(n, cores.labels[n]) for n in cores.order]
    return LayerPrediction(
        step.work,
        step.together(team),
        {label: step.alone(single[n]).of_all_trips(step.work.trips) for n, label in named},
        {label: step.kernels[n].how for n, label in named},
        {label: unsure[n] for n, label in named if n in unsure},
        {label: refused[n] for n, label in named if n in refused},
    )


def _team_ms(
    steps: Sequence[StepModel], board: Board, teams: Sequence[tuple[int, int]]
) -> tuple[tuple[float, ...], ...]:
    """Return each team's time of each step in ms, while the other teams work, too."""
    everyone = sum(cores for _, cores in teams)
    times = []
    for number, cores in teams:
        workers = [core_model(board, number, cores, everyone - cores)] * cores
        times.append(tuple(step.together(workers) for step in steps))
    return tuple(times)


def _step_sentences(single: Sequence[CoreModel], labels: Sequence[str]) -> list[str]:
    """Return sentences on the costs of a step, a call and a handover, by cluster."""
    fits = [worker.fit.steps for worker in single]
    return list(
        dict.fromkeys(
            f"{label}: a step costs {fit.step_cycles:g} cycles, a task {fit.call_cycles:g}, sharing a step with other "
            f"threads {fit.handover_cycles:g} (profiles/fits)"
            for label, fit in zip(labels, fits, strict=True)
        )
    )


def _labels(board: Board) -> list[str]:
    names = [cluster.core for cluster in board.clusters]
    return [
        name if names.count(name) == 1 else f"{name}@{cluster.cpus[0]}"
        for name, cluster in zip(names, board.clusters, strict=True)
    ]
