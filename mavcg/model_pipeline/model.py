"""The model pipeline: an ONNX, TFLite or Caffe file and cores -> an engine library with its header, stage after stage.

Each stage takes values and gives a new one; MAVCG_DUMP=<stage> prints it. The stages are those of STAGES, in order.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.graph import Graph
from mavcg.hardware.accelerator import Accelerator
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.target import Target
from mavcg.importers.load import import_model
from mavcg.lowering.image_rows import with_image_rows
from mavcg.lowering.kernel_code import KernelObject, kernel_code, kernel_tasks, version_symbols
from mavcg.lowering.machines import machines_for
from mavcg.lowering.memory_plan import ConstantPool, plan_memory
from mavcg.lowering.pack_weights import pack_weights
from mavcg.lowering.row_phases import ArenaTooLargeError, plan_within
from mavcg.lowering.step_list import PlannedModel, make_step_list
from mavcg.model_pipeline.aar import write_aar
from mavcg.model_pipeline.choose_algorithms import AlgorithmChoice, choose_algorithms
from mavcg.model_pipeline.note import model_note
from mavcg.objects.binaries import loaded_bytes, note_assembly
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.passes.graph.pipeline import optimise
from mavcg.planner.engine.core_shares import kernel_core_shares
from mavcg.planner.engine.parts import cores_each
from mavcg.planner.engine.tiles import cores_of, plan_tiles
from mavcg.predict.depth_first import AUTO, OFF, DepthFirst, with_depth_first
from mavcg.predict.predict import predict, thread_plans
from mavcg.predict.work import step_works
from mavcg.profiles.load import load_cores
from mavcg.runtime.companions import (
    HEADER_SUFFIXES,
    check_companions,
    library_stem,
    program_version,
    write_companions,
)
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import model_tasks
from mavcg.runtime.model_text import default_spin_us
from mavcg.selection.select_model import ENGINE, ModelQuestion
from mavcg.specs.kernel import Machine
from mavcg.specs.model_program import Program
from mavcg.specs.tile_plan import TilePlan
from mavcg.text.terminal import say, show
from mavcg.toolchain.codegen import assemble, default_workers

Progress = Callable[[str], None]
# What MAVCG_DUMP prints, in order. The graph's passes have names of their own, between "import" and
# "algorithms".
STAGES = (
    "import", "optimise", "algorithms", "legalised", "lower", "plan_tiles", "plan_memory", "plan_phases",
    "generate_code",
    "pack_weights", "link",
)  # fmt: skip
OLD_ALGORITHMS = "ways"  # what the stage "algorithms" was called
# Admits Winograd's F(2x2) and F(4x4) of 3x3 and 5x5; F(6x6) is off by more (kernels/primitives/winograd/family.py).
MAX_ERROR = 1e-4


@dataclass(frozen=True)
class ModelRequest:
    """Everything that a model library depends on.

    shapes: of inputs with free dimensions, by name; sizes: such shapes, for a library of several sizes, the first of
    which is also in shapes. threads: what a context uses when its user does not say; 0: what
    is predicted to be fastest on the board, of the CPUs that the context may use.
    board: whose caches the kernels are tiled for; without one they are tiled for typical caches of their cores.
    max_error: largest error of an algorithm in f32, over its largest sum before the activation; 0:
    sums by definition.
    strategy: how primitives and layouts are selected, by what --strategy calls it; db, max_workspace_bytes: for these,
    see ModelQuestion. max_size_bytes: that packed weights may take. max_arena_bytes: that the buffers of a context may
    take. depth_first: "auto", "on" or "off": whether layers are computed by bands of rows for speed, on a board (see
    predict/depth_first.py). strip: leave local symbols out of the library.
    weights: of a Caffe network; None for the file beside the model. aar: an Android archive to pack the library in.
    image_rows: every kernel that can goes by rows of the image, for programs by parts of rows.
    graph: the model as a graph, where it was not read from the file; the file is then named and hashed alone.
    """

    model: Path
    output: Path
    target: Target
    cores: tuple[Core, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    threads: int = 1
    tuning: Tuning = FAST
    workers: int = field(default_factory=default_workers)
    board: Board | None = None
    max_error: float = MAX_ERROR
    strategy: str = ENGINE
    db: Path | None = None
    max_workspace_bytes: int | None = None
    max_size_bytes: int | None = None
    max_arena_bytes: int | None = None
    depth_first: str = AUTO
    strip: bool = False
    weights: Path | None = None
    graph: Graph | None = None
    aar: Path | None = None
    image_rows: bool = False
    sizes: tuple[Mapping[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class ModelResult:
    """The library that was built. operators: number of nodes of each operator in the graph after all passes;
    library_bytes: size of the file; loaded_bytes: size that it adds to a program's image; companions: header,
    pkg-config and CMake files; note: the library's description of itself."""

    output: Path
    target: Target
    cores: tuple[Core, ...]
    machines: Mapping[str, Machine]
    graph: Graph
    planned: PlannedModel
    operators: Mapping[str, int]
    companions: tuple[Path, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code_bytes(self) -> int:
        """Bytes that are loaded and are not packed weights, as `mavcg inspect` counts them."""
        return self.loaded_bytes - self.planned.program.constants_bytes


@dataclass(frozen=True)
class PreparedModel:
    """A model with all decided but its machine code and the bytes of its constants. bands: ranges of layers that are
    computed by bands of rows for speed."""

    machines: Mapping[str, Machine]
    choice: AlgorithmChoice
    planned: PlannedModel
    tiles: TilePlan
    bands: tuple[DepthFirst, ...] = ()


def prepare_model(request: ModelRequest, name: str, progress: Progress) -> PreparedModel:
    """Run the stages from the import to the step list. name: of the graph. Raises: as build_model."""
    machines = machines_for(request.cores, request.target)
    clusters = cores_of(tuple(machines), request.target, request.board)
    progress(f"reading {request.model.name}")
    graph = replace(request.graph or import_model(request.model, request.shapes, request.weights), name=name)
    dump("import", graph)
    # By parts of rows: first with the algorithms that are fastest, last with those that all go row by row.
    plain = replace(request, strategy=ENGINE, db=None, max_workspace_bytes=None, max_error=0)
    least: ArenaTooLargeError | None = None
    for own, image_rows in ((request, request.image_rows), (request, True), (plain, True)):
        try:
            return _prepared(graph, own, machines, clusters, image_rows, progress)
        except ArenaTooLargeError as error:
            least = error if least is None or error.least_bytes < least.least_bytes else least
    assert least is not None
    raise least


def _prepared(
    graph: Graph,
    request: ModelRequest,
    machines: Mapping[str, Machine],
    clusters: Mapping[str, Accelerator],
    image_rows: bool,
    progress: Progress,
) -> PreparedModel:
    """Choose and plan. image_rows: every kernel that can goes by rows of the image. Raises: ArenaTooLargeError."""
    choice = choose_for(graph, request, machines, progress)
    if image_rows:
        choice = replace(choice, lowered=with_image_rows(choice.lowered))
    tiles = plan_tiles(choice.lowered.specs, machines, clusters, cores_each(tuple(machines), request.board))
    dump("plan_tiles", tiles)
    planned, tiles, bands = plan_choice(choice, request, machines, clusters, tiles, progress)
    return PreparedModel(machines, choice, planned, tiles, bands)


def build_model(request: ModelRequest, progress: Progress = lambda message: None) -> ModelResult:
    """Build the library. Raises: MavcgError (bad input, an operator that is not there) with nothing written."""
    started = time.monotonic()
    name = library_stem(request.output)
    check_companions(name, request.output)
    prepared = prepare_model(request, name, progress)
    with scratch_folder("mavcg-model-") as folder:
        tasks = kernel_tasks(
            prepared.planned.lowered.specs, prepared.machines, request.cores, request.target, folder, request.tuning,
            prepared.tiles,
        )  # fmt: skip
        others = part_tasks(prepared, request, folder)
        made: list[Any] = run_tasks([*others, *tasks], request.workers, progress)
        parts, kernels = made[: len(others)], made[len(others) :]
        facts = made_with(request.model)
        return link_model(prepared, request, parts, kernels, facts, folder, started, progress)


def part_tasks(prepared: PreparedModel, request: ModelRequest, folder: Path) -> tuple[Task[Path], ...]:
    """Return the tasks that make the objects of a library beside its kernels'."""
    planned = prepared.planned
    lowered, memory = planned.lowered, planned.memory
    return model_tasks(
        planned.program, partial(pack_weights, memory, lowered.graph.constants),
        version_symbols(lowered.specs, tuple(prepared.machines)), CoreSet(request.cores), load_cores(), request.target,
        folder, request.threads, default_spin_us(request.board),
    )  # fmt: skip


def link_model(
    prepared: PreparedModel,
    request: ModelRequest,
    parts: Sequence[Path],
    kernel_objects: Sequence[KernelObject],
    facts: Mapping[str, Any],
    folder: Path,
    started: float,
    progress: Progress,
) -> ModelResult:
    """Link a library of its objects, and write its header and its other files beside it.

    parts: what part_tasks make. kernel_objects: in the order of kernel_modules. facts: made_with of the model's file.
    folder: for the note. started: by time.monotonic. Raises: ToolError.
    """
    planned, machines, graph = prepared.planned, prepared.machines, prepared.choice.graph
    kernels = kernel_code(kernel_objects, machines, prepared.tiles)
    dump("generate_code", kernels)
    dump("pack_weights", f"{len(planned.memory.constants)} constants, {planned.memory.constants_bytes} bytes\n")
    note = model_note(planned, kernels, prepared.choice.selection) | bands_note(prepared) | {"made_with": facts}
    link_with_note((*kernels.objects, *parts), note, request, folder, progress)
    companions = write_companions(planned.program, request.output, request.threads)
    if request.aar is not None:
        name, version = library_stem(request.output), program_version(planned.program)
        headers = [path for path in companions if path.suffix in HEADER_SUFFIXES]
        companions = (*companions, write_aar(request.aar, request.output, headers, name, version, request.target))
    return ModelResult(
        request.output, request.target, request.cores, machines, graph, planned,
        dict(Counter(node.op for node in graph.nodes).most_common()), tuple(companions),
        request.output.stat().st_size, loaded_bytes(request.output), time.monotonic() - started, note,
    )  # fmt: skip


def bands_note(prepared: PreparedModel) -> dict[str, Any]:
    """Return what a library's note says of layers by bands of rows; nothing where there are none."""
    return {"depth_first": [each.as_json() for each in prepared.bands]} if prepared.bands else {}


def choose_for(
    graph: Graph, request: ModelRequest, machines: Mapping[str, Machine], progress: Progress
) -> AlgorithmChoice:
    """Rewrite a graph and choose how each node is computed. Raises: MavcgError for what there is no kernel for."""
    progress("rewriting the graph")
    graph = optimise(graph, dump)
    dump("optimise", graph)
    question = ModelQuestion(request.strategy, request.db, request.max_error, request.max_workspace_bytes)
    choice = choose_algorithms(
        graph, question, request.max_size_bytes, machines, request.target, request.board, progress, dump,
        request.workers,
    )  # fmt: skip
    dump("lower", choice.lowered)
    return choice


def plan_choice(
    choice: AlgorithmChoice,
    request: ModelRequest,
    machines: Mapping[str, Machine],
    clusters: Mapping[str, Accelerator],
    tiles: TilePlan,
    progress: Progress,
    pool: ConstantPool | None = None,
) -> tuple[PlannedModel, TilePlan, tuple[DepthFirst, ...]]:
    """Plan memory, the step list, bands of rows that pay, and threads where the library is to choose them.

    pool: as plan_memory has it. Returns the plan, the tiles of all kernels, and the ranges by bands.
    Raises: ArenaTooLargeError.
    """
    lowered = choice.lowered
    memory = plan_memory(lowered, pool=pool)
    dump("plan_memory", memory)
    shares = kernel_core_shares(lowered.specs, machines, clusters, tiles)
    planned = PlannedModel(lowered, memory, make_step_list(lowered, memory, tiles, shares))
    bands: tuple[DepthFirst, ...] = ()
    limit = request.max_arena_bytes
    if request.board is not None and request.depth_first != OFF:
        banded = with_depth_first(
            planned, tiles, shares, machines, request.target, request.board, request.depth_first == AUTO, progress
        )
        if limit is None or banded.planned.program.arena_bytes <= limit:
            planned, tiles, bands = banded.planned, banded.tiles, banded.ranges
    if limit is not None:
        planned = plan_within(planned, limit, progress)
    dump("plan_phases", f"{len(planned.program.phases)} phases, arena {planned.program.arena_bytes} bytes\n")
    if not request.threads:
        planned = replace(planned, program=_with_thread_plans(request, planned, tiles, progress))
    return planned, tiles, bands


def link_with_note(
    objects: Sequence[Path],
    note: Mapping[str, Any],
    request: ModelRequest,
    folder: Path,
    progress: Progress,
) -> None:
    """Link the library of these objects, with its description of itself."""
    note_object = folder / "model-note.o"
    assemble(note_assembly(note, request.target), note_object, request.target, "the library's note")
    progress(f"linking {request.output}")
    linked = [*objects, note_object]
    # What bionic has is known to the link; for other systems the C library decides at load.
    strict = ("-Wl,-z,defs",) if request.target.system == "linux-android" else ()
    link_shared(linked, request.output, request.target, options=LinkOptions(strict, strip=request.strip))
    dump("link", "".join(f"{path.name}\n" for path in linked))


def _with_thread_plans(request: ModelRequest, planned: PlannedModel, tiles: TilePlan, progress: Progress) -> Program:
    """The program with numbers of threads for the engine to choose from. Raises: MavcgError without a board."""
    if request.board is None:
        raise MavcgError("--threads auto: needs a board to predict for; name a --board, or a number of threads")
    progress(f"predicting on {request.board.name} with each number of threads")
    prediction = predict(
        request.model.stem, step_works(planned), planned.specs, request.board, 0, request.target, request.workers,
        progress, plan=tiles, available=[core.name for core in request.cores],
    )  # fmt: skip
    return replace(planned.program, thread_plans=thread_plans(prediction))


def dump(stage: str, value: object) -> None:
    """Print the value that a stage made to stderr where MAVCG_DUMP names this stage, or all."""
    stages = os.environ.get("MAVCG_DUMP", "").split(",")
    if stage == "algorithms" and OLD_ALGORITHMS in stages:
        say(f"MAVCG_DUMP={OLD_ALGORITHMS}: is called algorithms now; the old name goes with the next release")
        stages.append(stage)
    if stage in stages or "all" in stages:
        show(f"// {stage}\n{value}", to_stderr=True)
