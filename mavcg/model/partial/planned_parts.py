"""The subgraphs of a model that are linked as one library: what the planning of each format returns, and the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mavcg.choose.lengths.samples import ReadGraph
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph.counts import Dimension
from mavcg.model.link_programs import ProgramEntry
from mavcg.model.partial.plan import PartialPlan
from mavcg.model.partial.request import PartialRequest
from mavcg.runtime.companions import library_stem
from mavcg.runtime.drop_in_text import DropInFile, ModelFile
from mavcg.runtime.model_header import api_name

Choose = Callable[[ReadGraph, Sequence[Dimension]], Plan]  # by the part's graph at lengths of the dimensions
Made = tuple[ProgramEntry, ...]  # a subgraph, in each size
Division = PartialPlan[Made]


@dataclass(frozen=True)
class PlannedParts:
    """A library to be linked.

    plan: of the first size. entries: of all sizes, the sizes of one operator next to each other, first size first.
    model: to be written. model_files: the user's files.
    """

    plan: Division
    entries: tuple[ProgramEntry, ...]
    file: DropInFile
    model: Any = None
    model_files: tuple[ModelFile, ...] = ()


@dataclass(frozen=True)
class PartialResult:
    """A library, and the model that was written.

    plan: of the first size. planned: the plan's programs, in order. sizes: with several sizes, the share of
    multiply-accumulates of each.
    """

    request: PartialRequest
    plan: Division
    planned: tuple[Plan, ...]
    sizes: tuple[tuple[str, float], ...]
    weight_bytes: int
    library_bytes: int
    loaded_bytes: int
    seconds: float


def subgraph_name(request: PartialRequest, first: int) -> str:
    """Return a subgraph's name: the library's, with the number of its first node."""
    return f"{api_name(library_stem(request.build.output))}_{first}"


def check_any(request: PartialRequest, plan: Division) -> None:
    """Raise MavcgError with the reasons if no subgraph can be built."""
    if plan.subgraphs:
        return
    most = "; ".join(f"{left.count} {left.op}: {left.why}" for left in plan.left[:3])
    remedies = "--shape fixes free dimensions, --min-share 0 takes subgraphs of any size"
    raise MavcgError(f"{request.build.model}: no subgraph can be built ({most}); {remedies}")
