"""The value that the stages of a model's build pass on: each takes a plan and returns one in which more is decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mavcg.choose.bands.banded_range import DepthFirst
from mavcg.choose.lengths.sampled_graphs import SampledGraphs
from mavcg.choose.lowering.lower import LoweredGraph
from mavcg.choose.lowering.memory_plan import MemoryPlan
from mavcg.graph import Graph
from mavcg.memory.arena import Arena
from mavcg.memory.locations import Storage
from mavcg.memory.row_segments import RowDivision
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.model_program import Program
from mavcg.specs.tile_plan import TilePlan

NOT_LOWERED = LoweredGraph(Storage(Graph("", (), (), (), {}), {}, frozenset(), frozenset()), (), ())
NO_MEMORY = MemoryPlan(Arena({}, 0, 0), (), (), 0, {})
NO_PROGRAM = Program("", (), (), (), 0, 0, 0, 0)


@dataclass(frozen=True)
class Plan:
    """A model with all that is decided so far, without machine code and bytes of constants.

    A field is empty until its stage has run (STAGES in mavcg/model/stages.py). graph: with the selected primitives and
    layouts. machines: the versions of kernels, by label. selection: how algorithms were chosen, for reports and the
    library's note. precision: the error of another precision than f32, likewise. lowered: the graph as kernels. rows:
    the order by parts of rows that keeps the limit on the arena, or by bands. tiles: of these kernels. memory: where
    buffers and constants lie. program: the engine's steps. bands: ranges of steps that are computed by bands of rows
    for speed. lengths: the graphs of a sample of lengths, for a library of any length; `graph` is that of the longest.
    """

    graph: Graph
    machines: Mapping[str, Machine] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict)
    precision: Mapping[str, Any] = field(default_factory=dict)
    lowered: LoweredGraph = NOT_LOWERED
    rows: RowDivision = RowDivision()
    tiles: TilePlan = field(default_factory=TilePlan)
    memory: MemoryPlan = NO_MEMORY
    program: Program = NO_PROGRAM
    bands: tuple[DepthFirst, ...] = ()
    lengths: SampledGraphs | None = None

    @property
    def specs(self) -> tuple[KernelSpec, ...]:
        """All kernels, without repetition."""
        return self.lowered.specs
