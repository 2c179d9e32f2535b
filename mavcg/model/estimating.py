"""Predicts the time of a model from its file or its library; on this machine also measures it."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.strategies import PBQP
from mavcg.choose.bands.banded_range import OFF
from mavcg.choose.plan import Plan
from mavcg.choose.predict.files import is_model_file, library_note
from mavcg.choose.predict.predict import PredictedProgram, Prediction, predict
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.spec_text import read_spec
from mavcg.choose.predict.stored_weights import stored_weight_gains
from mavcg.choose.predict.unsure import BuiltKernels, LibrarySimulator, StepSimulator
from mavcg.choose.predict.work import StepWork, works_from_json
from mavcg.cost.board_model import board_model, with_half_arithmetic
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.graph import Graph
from mavcg.hardware.board import HOST, Board
from mavcg.hardware.core_model import BoardModel, CoreModel
from mavcg.hosts.host import find_board, measured_host_board
from mavcg.importers.load import import_model
from mavcg.kernels.builder.emit import kernel_name
from mavcg.model.dump import dump
from mavcg.model.model import build_model
from mavcg.model.model_request import MAX_ERROR, PlanContext, Progress
from mavcg.model.note import macro_from_note
from mavcg.model.precision import (
    AUTO_PRECISION,
    F32,
    needs_half_cores,
    optimised_graph,
    parse_precision,
    set_precision,
    used_precision,
)
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import LAY_OUT, choose_and_lower, choose_precision, run_stages
from mavcg.objects.elf import open_elf
from mavcg.passes.graph.stored_weights import with_stored_weights
from mavcg.profiles.load import load_cores
from mavcg.runtime.loading import load
from mavcg.runtime.timed_runs import profile_after_run
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.serialize import check_format
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.target import parse_target

_CLUSTER = re.compile(r"clusters\[(\d+)\]")  # begin of a place in Board.sources
_ELF_ARCH = {"EM_AARCH64": "aarch64", "EM_X86_64": "x86_64"}
WARM_RUNS, LEAST_RUNS, MOST_RUNS, SECONDS = 3, 5, 50, 2.0


@dataclass(frozen=True)
class HalfOptions:
    """Options of a model's file on half precision, None if not given. precision: of --precision, and weights: of
    --weights, of STORED_TYPES.
    """

    precision: str | None = None
    weights: str | None = None


SINGLE = HalfOptions()


def board_of(name: str) -> Board:
    """Return the board named by an option; "host" is this machine, measured. Raises: MavcgError for an unknown name."""
    return measured_host_board() if name == HOST else find_board(name)


def board_part(board: Board, core: str | None, mhz: float | None) -> Board:
    """Return the board with its clusters of one core type alone, and another clock of the clusters that are left.

    core: None for all. mhz: of the clock; None for the board's own. Raises: MavcgError for a core that it has not, and
    for a clock for several core types, whose clocks differ.
    """
    kept = [number for number, cluster in enumerate(board.clusters) if core in (None, cluster.core)]
    clusters = tuple(board.clusters[number] for number in kept)
    if not clusters:
        has = ", ".join(board.cores) or "none that is known"
        raise MavcgError(f"--core {core}: {board.name} has no such core; it has {has}: name one of them")
    board = replace(board, clusters=clusters, sources=tuple(_kept_sources(board.sources, kept)))
    if mhz is None:
        return board
    kinds = dict.fromkeys(cluster.core for cluster in clusters)
    if len(kinds) > 1:
        raise MavcgError(f"--mhz {mhz:g}: {board.name} has {', '.join(kinds)}; name one of them by --core")
    return replace(board, clusters=tuple(replace(cluster, max_khz=round(1000 * mhz)) for cluster in clusters))


def _kept_sources(sources: Sequence[tuple[str, str]], kept: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield the sources of a board's facts without those of clusters that are left out. kept: numbers of the others."""
    for place, source in sources:
        match = _CLUSTER.match(place)
        if match is None:
            yield place, source
        elif int(match[1]) in kept:
            yield f"clusters[{kept.index(int(match[1]))}]{place[match.end() :]}", source


def read_source(
    path: Path, board: Board, shapes: Mapping[str, tuple[int, ...]], progress: Progress, half: HalfOptions = SINGLE
) -> PredictedProgram:
    """Return a model lowered for the board, or the steps of a library. half: of a model.

    Raises: MavcgError for bad models, and for a library of another architecture or without the specs of its kernels.
    """
    target = parse_target(board.target)
    note = None if is_model_file(path) else library_note(path)
    if note is None:
        progress(f"reading {path.name}")
        cores = [load_cores()[core] for core in board.cores if core in load_cores()]
        known = used_precision(parse_precision(half.precision, cores), cores)
        loops = known == F32 and half.weights is None
        graph = optimised_graph(import_model(path, shapes, loops=loops), known, dump)
        return lower_for_board(path.stem, graph, board, progress, known, half.weights)
    for option, value in (("--precision", half.precision), ("--weights", half.weights)):
        if value is not None:
            raise MavcgError(f"{option} {value}: {path.name} is already built; name the model's file instead")
    if shapes:
        raise MavcgError(f"--shape: {path.name} is already built, with fixed shapes; name the model's file instead")
    arch = _ELF_ARCH.get(str(open_elf(path)["e_machine"]), "another architecture")
    if arch != target.arch:
        raise MavcgError(f"--board {board.name}: is {target.arch}, and {path} is {arch}; name a board of that kind")
    if any("spec" not in kernel for kernel in note["kernels"].values()) or any(
        "touches" not in s for s in note["steps"]
    ):
        raise MavcgError(f"{path}: its note does not describe its kernels; build it again, or name the model's file")
    if "spec_format" in note:  # older notes have the output of repr()
        check_format(note["spec_format"], str(path))
    specs = {name: read_spec(k["spec"], f"{path}: kernel {name}") for name, k in note["kernels"].items()}
    plan = _plan_of(note["kernels"], specs)
    works = works_from_json(note["steps"])
    model = model_of(board)
    return PredictedProgram(
        str(note["model"]), model, works, tuple(specs.values()), plan, path, note["versions"], _names(specs)
    )


def model_of(board: Board) -> BoardModel:
    """Return a board with a version of kernels for each core of it that is known."""
    cores = load_cores()
    return board_model([cores[core] for core in board.cores if core in cores], parse_target(board.target), board)


def lower_for_board(
    name: str, graph: Graph, board: Board, progress: Progress, precision: str = F32, stored: str | None = None
) -> PredictedProgram:
    """Return an optimised f32 graph's steps and kernels, as `mavcg build` would make them for the board.

    precision: of PRECISIONS; with AUTO_PRECISION errors are measured on random inputs, within the usual limit. stored:
    of STORED_TYPES, the type of weights in memory where that is predicted to pay.
    """
    return lower_for_cores(name, graph, model_of(board), progress, precision, stored)


def lower_for_cores(
    name: str, graph: Graph, model: BoardModel, progress: Progress, precision: str = F32, stored: str | None = None
) -> PredictedProgram:
    """Return the same for the model of a board, whose cores may be as no file says."""
    if needs_half_cores(precision):
        model = with_half_arithmetic(model)
    question = ModelQuestion(PBQP, None, MAX_ERROR)
    context = PlanContext(model, question, progress=progress, precision=precision, stored_weights=stored or "")
    plan = Plan(graph, model.machines)
    if precision == AUTO_PRECISION:
        plan = choose_precision(plan, context)
    else:  # as choose_precision, without errors
        plan = set_precision(plan, precision)
        if stored is not None:
            gains = stored_weight_gains(plan.graph, stored, model, progress)
            plan = replace(plan, graph=with_stored_weights(plan.graph, tuple(gains), stored))
    plan = run_stages(plan, context, (choose_and_lower, *LAY_OUT))
    return PredictedProgram(name, model, step_works(plan), plan.specs, plan.tiles)


def _names(specs: Mapping[str, KernelSpec]) -> dict[str, str]:
    """Return the library's names of its kernels -> this version's names; older versions of mavcg used other names."""
    return {name: kernel_name(spec) for name, spec in specs.items()}


def _plan_of(kernels: Mapping[str, Any], specs: Mapping[str, KernelSpec]) -> TilePlan:
    """Return the macro-tiles in a library's note, by this version's names of the kernels."""
    names = _names(specs)
    return TilePlan(
        {
            (names[name], label): macro_from_note(version["macro"])
            for name, kernel in kernels.items()
            for label, version in kernel["versions"].items()
            if "macro" in version
        }
    )


def predict_file(
    path: Path,
    board: Board,
    threads: int,
    shapes: Mapping[str, tuple[int, ...]],
    workers: int,
    progress: Progress = lambda message: None,
    simulator: LibrarySimulator | None = None,
    half: HalfOptions = SINGLE,
) -> Prediction:
    """Return the prediction for a model's file or a library.

    half: of a model. simulator: gives the times of layers whose modelled one is unsure; None:
    they stay modelled. Raises: MavcgError.
    """
    if simulator is not None and parse_target(board.target).arch != "aarch64":
        raise MavcgError(
            f"--simulate-unsure: {board.name} is not an AArch64 board; only AArch64 cores can be simulated"
        )
    if simulator is not None and is_model_file(path):
        # Kernels are simulated as built, so the modelled figures beside them must be of the same code.
        with scratch_folder("mavcg-estimate-") as folder:
            library = _build(path, board.name, shapes, folder, progress, half)
            return predict_file(library, board, threads, {}, workers, progress, simulator)
    source = read_source(path, board, shapes, progress, half)
    simulate = None if simulator is None else _simulator(source, path, workers, progress, simulator)
    return predict(source, threads, workers, progress, simulate=simulate)


def _build(
    path: Path,
    board: str,
    shapes: Mapping[str, tuple[int, ...]],
    folder: str | Path,
    progress: Progress,
    half: HalfOptions,
) -> Path:
    """Build a model's library layer by layer, for predictions of layers one after the other. Raises: MavcgError."""
    library = Path(folder) / f"lib{path.stem}.so"
    options = ModelOptions(board=board, precision=half.precision, stored_weights=half.weights)
    request, _ = make_model_request(path, str(library), options)
    build_model(replace(request, shapes=shapes, depth_first=OFF), progress)
    return library


def _simulator(
    source: PredictedProgram, library: Path, workers: int, progress: Progress, simulator: LibrarySimulator
) -> StepSimulator:
    """Return what simulates steps of a library."""
    own = {kernel_name(spec): spec for spec in source.specs}
    kernels = BuiltKernels(library, {name: own[current] for name, current in source.names.items()})

    def simulate(works: Sequence[StepWork], numbers: Sequence[int], core: CoreModel) -> Mapping[int, float | str]:
        return simulator(works, numbers, kernels, core, source.board.board, workers, progress)

    return simulate


def measured_ms(
    path: Path,
    prediction: Prediction,
    shapes: Mapping[str, tuple[int, ...]],
    progress: Progress = lambda message: None,
    half: HalfOptions = SINGLE,
) -> tuple[float, ...]:
    """Return the time of each step on this machine in ms, with as many threads as the prediction assumes.

    A model file is built first. Raises: MavcgError, also if library and prediction have different steps.
    """
    with scratch_folder("mavcg-estimate-") as folder:
        library = _build(path, HOST, shapes, folder, progress, half) if is_model_file(path) else path
        progress(f"timing {path.name}")
        return time_layers(library, prediction)


def time_layers(library: Path, prediction: Prediction) -> tuple[float, ...]:
    """Return the measured time of each step of a built library in ms. Raises: MavcgError if its steps differ."""
    with load(library, threads=prediction.chosen.threads) as model:
        rng = np.random.default_rng(0)
        arrays = [rng.uniform(0, 1, tensor.shape).astype(tensor.dtype) for tensor in model.inputs]
        for _ in range(WARM_RUNS):
            model.run(*arrays)
        rows: list[list[float]] = []
        quiet: list[list[float]] = []
        names: list[str] = []
        end = time.perf_counter() + SECONDS
        while len(rows) < LEAST_RUNS or (len(quiet) < MOST_RUNS and time.perf_counter() < end):
            profiled = profile_after_run(model, arrays)
            rows.append([step.ns / 1e6 for step in profiled.steps])
            if profiled.is_quiet:
                quiet.append(rows[-1])
            names = [step.kernel for step in profiled.steps]
    if names != [layer.work.kernel for layer in prediction.layers]:
        raise MavcgError(f"{library}: was built by another version of mavcg: its steps differ; build it again")
    return _typical(rows, quiet)


def _typical(rows: Sequence[Sequence[float]], quiet: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return each step's time: the median over the runs without a context switch.

    If there are too few such runs it is the lower quartile of all runs, since a preempted run says nothing about the
    steps that waited.
    """
    if len(quiet) >= LEAST_RUNS:
        return tuple(float(ms) for ms in np.median(np.array(quiet), axis=0))
    return tuple(float(ms) for ms in np.quantile(np.array(rows), 0.25, axis=0))
