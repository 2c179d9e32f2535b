"""How each node of a graph is computed, and lowered: as the engine predicts, or as primitives are selected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mavcg.board import Board
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.kernel import Machine, Packing
from mavcg.lowering import Lowered, lower_graph
from mavcg.machines import packing_for
from mavcg.predict.ways import WORTH, Chosen, choose_ways
from mavcg.select_model import ENGINE, ModelQuestion, SelectedModel, select_for_library, within_weights
from mavcg.selection.weight_limit import Option, TooSmall, options_within
from mavcg.target import Target

T = TypeVar("T")
Progress = Callable[[str], None]
Dump = Callable[[str, Graph | Chosen], None]
TRIES = 4  # packed constants are aligned, and equal ones are there once: what that makes is seen only when it is done


@dataclass(frozen=True)
class Computed:
    """graph: with what was selected written into it. selection: for reports, and the library's note."""

    graph: Graph
    lowered: Lowered
    selection: Mapping[str, Any]


def computed(
    graph: Graph,
    question: ModelQuestion,
    max_size_bytes: int | None,
    machines: Mapping[str, Machine],
    target: Target,
    board: Board | None,
    progress: Progress,
    dump: Dump,
) -> Computed:
    """Choose and lower. max_size_bytes: of all packed constants.

    Raises: MavcgError, as select_for_library, and with the least size where no choice is as small as that.
    """
    packing = packing_for(target)
    if question.strategy != ENGINE:
        if board is None:
            raise MavcgError(f"--strategy {question.strategy}: costs are of a board; name a --board")
        found = select_for_library(graph, packing, board, question, progress)
        if found is not None:
            return _selected(found, graph, packing, max_size_bytes, progress, dump)
    progress("choosing kernels, packing weights")
    chosen = choose_ways(graph, packing, machines, target, board, question.max_error, progress)
    dump("ways", chosen)
    lowered = chosen.lowered
    if max_size_bytes is not None and lowered.program.constants_bytes > max_size_bytes:
        progress("choosing lighter kernels")
        lowered = _lighter(chosen, graph, packing, max_size_bytes)
    return Computed(graph, lowered, {"strategy": ENGINE})


def _selected(
    found: SelectedModel, graph: Graph, packing: Packing, max_size_bytes: int | None, progress: Progress, dump: Dump
) -> Computed:
    progress("packing weights")
    lowered = lower_graph(found.graph, packing, found.ways)
    if max_size_bytes is not None and lowered.program.constants_bytes > max_size_bytes:
        progress("choosing lighter primitives")
        first, start = found, lowered

        def lighter(budget: int) -> tuple[SelectedModel, Lowered]:
            lighter_one = within_weights(first, graph, packing, budget)
            return lighter_one, lower_graph(lighter_one.graph, packing, lighter_one.ways)

        found, lowered = _until_it_fits(lighter, start, max_size_bytes, lambda made: made[1])
    dump("legalised", found.graph)
    return Computed(found.graph, lowered, found.as_json())


def _lighter(chosen: Chosen, graph: Graph, packing: Packing, max_size_bytes: int) -> Lowered:
    """The engine's ways within a size."""
    options = {
        node: tuple(
            Option(way.name, way.mean_ms * (1 if way is ways[0] else 1 / WORTH), way.weight_bytes) for way in ways
        )
        for node, ways in chosen.considered.items()
    }
    others = sum(size for node, size in chosen.lowered.packed.items() if node not in options and _is_conv(chosen, node))

    def lighter(budget: int) -> Lowered:
        try:
            found = options_within(options, budget - others)
        except TooSmall as error:
            raise TooSmall(error.least_bytes + others) from None
        ways = {node: one.name for node, one in found.items() if one.name}
        return lower_graph(graph, packing, ways)

    return _until_it_fits(lighter, chosen.lowered, max_size_bytes, lambda made: made)


def _is_conv(chosen: Chosen, node: str) -> bool:
    return any(one.output == node and one.op == "conv2d" for one in chosen.lowered.nodes)


def conv_bytes(lowered: Lowered) -> int:
    """Of packed weights of convolutions, which can be packed in several ways."""
    names = {node.output for node in lowered.nodes if node.op in ("conv2d", "primitive_conv2d")}
    return sum(size for name, size in lowered.packed.items() if name in names)


def _until_it_fits(make: Callable[[int], T], start: Lowered, max_size_bytes: int, of: Callable[[T], Lowered]) -> T:
    """make(bytes that convolutions' weights may take), with less and less until all constants fit."""
    budget = max_size_bytes - (start.program.constants_bytes - conv_bytes(start))
    for _ in range(TRIES):
        try:
            made = make(budget)
        except TooSmall as error:
            least = error.least_bytes + start.program.constants_bytes - conv_bytes(start)
            raise MavcgError(
                f"--max-size {max_size_bytes}: packed weights take {least} bytes at least; allow that many"
            ) from None
        excess = of(made).program.constants_bytes - max_size_bytes
        if excess <= 0:
            return made
        budget -= excess
    raise MavcgError(f"--max-size {max_size_bytes}: packed weights take {excess} bytes more; allow that many")
