"""Stages of the model pipeline from the import to the step list: everything but code generation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mavcg.choose.algorithms.select_model import ENGINE, ModelQuestion
from mavcg.choose.bands.banded_range import AUTO, OFF, DepthFirst
from mavcg.choose.bands.choose_bands import with_depth_first
from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.memory_plan import ConstantPool, plan_memory
from mavcg.choose.lowering.row_phases import ArenaTooLargeError, plan_within
from mavcg.choose.lowering.step_list import PlannedModel, make_step_list
from mavcg.choose.predict.predict import PredictedProgram, predict, thread_plans
from mavcg.choose.predict.work import step_works
from mavcg.choose.tiles.core_shares import kernel_core_shares
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import board_model
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.hardware.core_model import BoardModel
from mavcg.importers.load import import_model
from mavcg.model.choose_algorithms import AlgorithmChoice, choose_algorithms
from mavcg.model.dump import dump
from mavcg.model.model_request import ModelRequest
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.kernel import Machine
from mavcg.specs.model_program import Program
from mavcg.specs.tile_plan import TilePlan

Progress = Callable[[str], None]


@dataclass(frozen=True)
class PreparedModel:
    """A model with all decisions made, without machine code and bytes of constants.

    bands: ranges of layers that are computed by bands of rows for speed.
    """

    machines: Mapping[str, Machine]
    choice: AlgorithmChoice
    planned: PlannedModel
    tiles: TilePlan
    bands: tuple[DepthFirst, ...] = ()


def prepare_model(request: ModelRequest, name: str, progress: Progress) -> PreparedModel:
    """Run the stages from the import to the step list. name: of the graph. Raises: as build_model."""
    progress(f"reading {request.model.name}")
    graph = replace(request.graph or import_model(request.model, request.shapes, request.weights), name=name)
    dump("import", graph)
    return prepare_graph(graph, request, board_model(request.cores, request.target, request.board), progress)


def prepare_graph(graph: Graph, request: ModelRequest, board: BoardModel, progress: Progress) -> PreparedModel:
    """Run the stages after the import, with the first algorithms that keep a limit on the arena.

    Raises: ArenaTooLargeError with the smallest arena found; MavcgError for a node without a kernel.
    """
    # By parts of rows: first with the fastest algorithms, then with algorithms that all work row by row.
    plain = replace(request, strategy=ENGINE, db=None, max_workspace_bytes=None, max_error=0)
    least: ArenaTooLargeError | None = None
    for own, image_rows in ((request, request.image_rows), (request, True), (plain, True)):
        try:
            return _choose_and_plan(graph, own, board, image_rows, progress)
        except ArenaTooLargeError as error:
            least = error if least is None or error.least_bytes < least.least_bytes else least
    assert least is not None
    raise least


def _choose_and_plan(
    graph: Graph,
    request: ModelRequest,
    board: BoardModel,
    image_rows: bool,
    progress: Progress,
) -> PreparedModel:
    """Choose algorithms and plan.

    image_rows: every kernel that can works by rows of the image. Raises: ArenaTooLargeError.
    """
    choice = choose_for(graph, request, board, progress)
    if image_rows:
        choice = replace(choice, lowered=with_image_rows(choice.lowered))
    tiles = plan_tiles(choice.lowered.specs, board.versions, board.counts)
    dump("plan_tiles", tiles)
    planned, tiles, bands = plan_choice(choice, request, board, tiles, progress)
    return PreparedModel(board.machines, choice, planned, tiles, bands)


def choose_for(graph: Graph, request: ModelRequest, board: BoardModel, progress: Progress) -> AlgorithmChoice:
    """Rewrite a graph and choose how each node is computed. Raises: MavcgError for a node without a kernel."""
    progress("rewriting the graph")
    graph = optimise(graph, dump)
    dump("optimise", graph)
    question = ModelQuestion(request.strategy, request.db, request.max_error, request.max_workspace_bytes)
    choice = choose_algorithms(
        graph,
        question,
        request.max_size_bytes,
        board,
        progress,
        dump,
        request.workers,
    )
    dump("lower", choice.lowered)
    return choice


def plan_choice(
    choice: AlgorithmChoice,
    request: ModelRequest,
    board: BoardModel,
    tiles: TilePlan,
    progress: Progress,
    pool: ConstantPool | None = None,
) -> tuple[PlannedModel, TilePlan, tuple[DepthFirst, ...]]:
    """Plan memory, the step list, bands of rows that pay, and threads if the library chooses them.

    pool: as in plan_memory. Returns the plan, the tiles of all kernels, and the ranges by bands. Raises:
    ArenaTooLargeError.
    """
    lowered = choice.lowered
    memory = plan_memory(lowered, pool=pool)
    dump("plan_memory", memory)
    shares = kernel_core_shares(lowered.specs, board.versions, tiles)
    planned = PlannedModel(lowered, memory, make_step_list(lowered, memory, tiles, shares))
    bands: tuple[DepthFirst, ...] = ()
    limit = request.max_arena_bytes
    if board.named and request.depth_first != OFF:
        banded = with_depth_first(
            planned,
            tiles,
            shares,
            board,
            request.depth_first == AUTO,
            progress,
            request.workers,
        )
        if limit is None or banded.planned.program.arena_bytes <= limit:
            planned, tiles, bands = banded.planned, banded.tiles, banded.ranges
    if limit is not None:
        planned = plan_within(planned, limit, progress)
    dump("plan_phases", f"{len(planned.program.phases)} phases, arena {planned.program.arena_bytes} bytes\n")
    if not request.threads:
        planned = replace(planned, program=_with_thread_plans(request, planned, tiles, progress))
    return planned, tiles, bands


def _with_thread_plans(request: ModelRequest, planned: PlannedModel, tiles: TilePlan, progress: Progress) -> Program:
    """Return the program with the thread plans among which the engine chooses. Raises: MavcgError without a board."""
    if request.board is None:
        raise MavcgError("--threads auto: needs a board to predict for; name a --board, or a number of threads")
    progress(f"predicting on {request.board.name} with each number of threads")
    prediction = predict(
        PredictedProgram(
            request.model.stem,
            step_works(planned),
            planned.specs,
            tiles,
            available=[core.name for core in request.cores],
        ),
        request.board,
        0,
        request.target,
        request.workers,
        progress,
    )
    return replace(planned.program, thread_plans=thread_plans(prediction))
