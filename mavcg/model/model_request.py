"""The request for a model library: model, cores, target, limits; and what of it the stages of planning need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.strategies import ENGINE
from mavcg.choose.bands.banded_range import AUTO
from mavcg.choose.lengths.sampled_graphs import SampledGraphs
from mavcg.choose.lowering.memory_plan import ConstantPool
from mavcg.cost.board_model import board_model, with_half_arithmetic
from mavcg.graph import Graph
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.core_model import BoardModel
from mavcg.hardware.feature_levels import MODELLED_LEVELS
from mavcg.model.calibration import RANDOM, Calibration
from mavcg.model.precision import F32, MAX_HALF_ERROR, needs_half_cores, used_precision
from mavcg.model.sizes import BoundedShapes
from mavcg.toolchain.codegen import default_workers
from mavcg.toolchain.target import Target

# Allows Winograd's F(2x2) and F(4x4) of 3x3 and 5x5; F(6x6) has a larger error (kernels/primitives/winograd/family.py).
MAX_ERROR = 1e-4
MAX_HALF_ALGORITHM_ERROR = 0.06  # the same of a model in f16: F(2x2) and F(4x4) of 3x3
Progress = Callable[[str], None]


@dataclass(frozen=True)
class ModelRequest:
    """Everything that a model library depends on.

    shapes: of inputs with free dimensions, by name. sizes: shapes of each size, for a library of several sizes; the
    first is also in shapes. bounds: shapes with a bounded dimension; those of its longest length are in shapes.
    threads: default of a context; 0: the number predicted to be fastest on the board among the context's CPUs. board:
    for whose caches the kernels are tiled; None: typical caches of their cores. max_error: largest error of an
    algorithm relative to its largest sum before the activation; 0: sums by definition. strategy: of selection, as in
    --strategy. db, max_workspace_bytes: as in ModelQuestion. max_size_bytes: limit of packed weights. max_arena_bytes:
    limit of a context's buffers. depth_first: "auto", "on" or "off": whether layers are computed by bands of rows for
    speed, on a board (choose/bands/choose_bands.py). strip: drop local symbols of the library. weights: of a Caffe
    network; None for the file beside the model. aar: path of an Android archive to write. image_rows: every kernel that
    can works by rows of the image, for programs by parts of rows. graph, or sampled with a bounded dimension: the model
    as a graph, or graphs, if it was not read from the file, which is then used for its name and hash only. precision:
    of arithmetic (precision.py). max_half_error: limit of the measured error of AUTO_PRECISION. calibration: the inputs
    on which errors are measured. stored_weights: f16 or bf16: type in which weights lie in memory where that is
    predicted to save time, or, if store_all, wherever a kernel reads it; "": their own. levels: of LEVELS, the feature
    levels of cores that get versions (kernel_levels.py). states: patterns INPUT=OUTPUT of tensors that stay in a
    context between runs (passes/graph/states.py).
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
    precision: str = F32
    max_half_error: float = MAX_HALF_ERROR
    calibration: Calibration = RANDOM
    stored_weights: str = ""
    store_all: bool = False
    levels: str = MODELLED_LEVELS
    states: tuple[str, ...] = ()
    bounds: BoundedShapes | None = None
    sampled: SampledGraphs | None = None


@dataclass(frozen=True)
class PlanContext:
    """The inputs of the stages beside the plan.

    question: strategy and limits of the choice of algorithms. max_size_bytes: limit of packed weights. max_arena_bytes:
    limit of a context's buffers. image_rows, depth_first, threads, precision, max_half_error, calibration,
    stored_weights, store_all: as in ModelRequest, but f32 for AUTO_PRECISION and cores without f16. pool: constants of
    all models of the same library; None: each model has its own.
    """

    board: BoardModel
    question: ModelQuestion = ModelQuestion()
    max_size_bytes: int | None = None
    max_arena_bytes: int | None = None
    image_rows: bool = False
    depth_first: str = AUTO
    threads: int = 1
    workers: int = 1
    progress: Progress = lambda message: None
    pool: ConstantPool | None = None
    precision: str = F32
    max_half_error: float = MAX_HALF_ERROR
    calibration: Calibration = RANDOM
    stored_weights: str = ""
    store_all: bool = False


@dataclass(frozen=True)
class CodeContext:
    """The inputs of code generation beside the plan.

    cores, target, tuning, levels, workers: as in ModelRequest. folder: where objects are written.
    """

    cores: tuple[Core, ...]
    target: Target
    tuning: Tuning
    levels: str
    workers: int
    folder: Path
    progress: Progress


def code_context(request: ModelRequest, folder: Path, progress: Progress) -> CodeContext:
    """Return what code generation needs of a request for a library."""
    return CodeContext(request.cores, request.target, request.tuning, request.levels, request.workers, folder, progress)


def plan_context(request: ModelRequest, progress: Progress) -> PlanContext:
    """Return what the stages need of a request for a library. Raises: MavcgError as board_model."""
    board = board_model(request.cores, request.target, request.board)
    precision = used_precision(request.precision, request.cores)
    return PlanContext(
        with_half_arithmetic(board) if needs_half_cores(precision) else board,
        ModelQuestion(request.strategy, request.db, request.max_error, request.max_workspace_bytes),
        request.max_size_bytes,
        request.max_arena_bytes,
        request.image_rows,
        request.depth_first,
        request.threads,
        request.workers,
        progress,
        precision=precision,
        max_half_error=request.max_half_error,
        calibration=request.calibration,
        stored_weights=request.stored_weights,
        store_all=request.store_all,
    )
