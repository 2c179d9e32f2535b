"""The request for a model library: model, cores, target, limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.graph import Graph
from mavcg.hardware.board import Board
from mavcg.hardware.core import Core
from mavcg.hardware.target import Target
from mavcg.predict.depth_first import AUTO
from mavcg.selection.select_model import ENGINE
from mavcg.toolchain.codegen import default_workers

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
