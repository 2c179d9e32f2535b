"""The model road, top to bottom: an ONNX or TFLite file, the cores -> an engine library with its header."""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mavcg.assembly.tuning import FAST, Tuning
from mavcg.binaries import loaded_bytes, note_assembly
from mavcg.board import Board
from mavcg.codegen import assemble, default_workers
from mavcg.core import Core
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.load import import_model
from mavcg.kernel import Machine
from mavcg.kernel_code import kernel_objects
from mavcg.library import link_shared
from mavcg.link_options import LinkOptions
from mavcg.lowering import Lowered, with_tasks
from mavcg.machines import machines_for
from mavcg.model_program import ThreadPlan
from mavcg.model_road.computed import computed
from mavcg.model_road.note import model_note
from mavcg.passes.graph.pipeline import optimise
from mavcg.planner.engine_parts import cores_each
from mavcg.planner.engine_tiles import cores_of, plan_tiles
from mavcg.planner.engine_weights import with_weights
from mavcg.predict.predict import predict, thread_plans
from mavcg.predict.ways import Chosen
from mavcg.predict.work import step_works
from mavcg.profiles.load import load_cores
from mavcg.runtime.companions import check_companions, library_stem, write_companions
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.made_with import made_with
from mavcg.runtime.model_build import build_model_objects
from mavcg.scratch import scratch_folder
from mavcg.selection.select_model import ENGINE, ModelQuestion
from mavcg.target import Target
from mavcg.terminal import show
from mavcg.tile_plan import TilePlan

Progress = Callable[[str], None]
# Admits Winograd's F(2x2) and F(4x4) of 3x3 and 5x5; F(6x6) is off by more (kernels/primitives/winograd.py).
MAX_ERROR = 1e-4


@dataclass(frozen=True)
class ModelRequest:
    """Everything that a model library depends on.

    shapes: of inputs with free dimensions, by name. threads: what a context uses when its user does not say; 0: what
    is predicted to be fastest on the board, of the CPUs that the context may use.
    board: whose caches the kernels are tiled for; without one they are tiled for typical caches of their cores.
    max_error: that a way to compute an operator may be off by in f32, over its largest sum before the activation; 0:
    sums by definition.
    strategy: how primitives and layouts are selected, by what --strategy calls it; db, max_workspace_bytes: for these,
    see ModelQuestion. max_size_bytes: that packed weights may take. strip: leave local symbols out of the library.
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
    strip: bool = False


@dataclass(frozen=True)
class ModelResult:
    """What was built. operators: how many nodes of each operator the graph has after all passes; library_bytes: of
    the file; loaded_bytes: that it adds to a program's image; companions: header, pkg-config and CMake files; note:
    what the library says of itself."""

    output: Path
    target: Target
    cores: tuple[Core, ...]
    machines: Mapping[str, Machine]
    graph: Graph
    lowered: Lowered
    operators: Mapping[str, int]
    companions: tuple[Path, ...]
    library_bytes: int
    loaded_bytes: int
    seconds: float
    note: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code_bytes(self) -> int:
        """What is loaded and is not packed weights, as `mavcg inspect` has it too."""
        return self.loaded_bytes - self.lowered.program.constants_bytes


def build_model(request: ModelRequest, progress: Progress = lambda message: None) -> ModelResult:
    """Build the library. Raises: MavcgError (bad input, an operator that is not there) with nothing written."""
    started = time.monotonic()
    check_companions(library_stem(request.output), request.output)
    progress(f"reading {request.model.name}")
    machines = machines_for(request.cores, request.target)
    graph = replace(import_model(request.model, request.shapes), name=library_stem(request.output))
    dump("import", graph)
    progress("rewriting the graph")
    graph = optimise(graph, dump)
    question = ModelQuestion(request.strategy, request.db, request.max_error, request.max_workspace_bytes)
    chosen = computed(
        graph, question, request.max_size_bytes, machines, request.target, request.board, progress, dump
    )  # fmt: skip
    lowered = chosen.lowered
    clusters = cores_of(tuple(machines), request.target, request.board)
    together = cores_each(tuple(machines), request.board)
    plan = plan_tiles(lowered.specs, machines, clusters, together)
    dump("plan_tiles", plan)
    lowered = with_tasks(lowered, plan)
    program = with_weights(lowered.program, lowered.specs, machines, clusters, plan)
    if not request.threads:
        program = replace(program, thread_plans=_thread_plans(request, lowered, plan, progress))
    lowered = replace(lowered, program=program)
    core_set = CoreSet(request.cores)
    with scratch_folder("mavcg-model-") as folder:
        kernels = kernel_objects(
            lowered.specs, machines, request.cores, request.target, folder, request.workers, progress, request.tuning,
            plan,
        )  # fmt: skip
        progress("compiling the engine")
        engine = build_model_objects(
            lowered.program, lowered.constants, kernels.objects, core_set, load_cores(), request.target, folder,
            request.threads,
        )  # fmt: skip
        note = model_note(lowered, kernels, chosen.selection) | {"made_with": made_with(request.model)}
        note_object = folder / "model-note.o"
        assemble(note_assembly(note, request.target), note_object, request.target, "the library's note")
        progress(f"linking {request.output}")
        link_shared([*engine, note_object], request.output, request.target, options=LinkOptions(strip=request.strip))
    companions = write_companions(lowered.program, request.output, request.threads)
    return ModelResult(
        request.output, request.target, request.cores, machines, chosen.graph, lowered,
        dict(Counter(node.op for node in chosen.graph.nodes).most_common()), tuple(companions),
        request.output.stat().st_size, loaded_bytes(request.output), time.monotonic() - started, note,
    )  # fmt: skip


def _thread_plans(
    request: ModelRequest, lowered: Lowered, plan: TilePlan, progress: Progress
) -> tuple[ThreadPlan, ...]:
    """What the engine chooses its threads from. Raises: MavcgError without a board."""
    if request.board is None:
        raise MavcgError("--threads auto: needs a board to predict for; name a --board, or a number of threads")
    progress(f"predicting on {request.board.name} with each number of threads")
    found = predict(
        request.model.stem, step_works(lowered), lowered.specs, request.board, 0, request.target, request.workers,
        progress, plan=plan, available=[core.name for core in request.cores],
    )  # fmt: skip
    return thread_plans(found)


def dump(stage: str, found: Graph | TilePlan | Chosen) -> None:
    """Print what a stage made to stderr where MAVCG_DUMP asks for this stage or for all."""
    wanted = os.environ.get("MAVCG_DUMP", "").split(",")
    if stage in wanted or "all" in wanted:
        show(f"// {stage}\n{found}", to_stderr=True)
