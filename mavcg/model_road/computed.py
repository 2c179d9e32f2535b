"""How each node of a graph is computed, and lowered: as the engine predicts, or as primitives are selected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mavcg.board import Board
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.kernel import Machine, Packing
from mavcg.lowering import Lowered, lower_graph
from mavcg.machines import packing_for
from mavcg.predict.ways import WORTH, Chosen, choose_ways
from mavcg.selection.select_model import ENGINE, ModelQuestion, SelectedModel, select_for_library, within_weights
from mavcg.selection.weight_limit import Option, TooSmall, options_within
from mavcg.target import Target
from mavcg.weight_sizes import weight_sizes

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
    if question.strategy != ENGINE and board is None:
        raise MavcgError(f"--strategy {question.strategy}: costs are of a board; name a --board")
    progress("choosing kernels, packing weights")
    chosen = choose_ways(graph, packing, machines, target, board, question.max_error, progress)
    dump("ways", chosen)
    if question.strategy != ENGINE and board is not None:
        found = select_for_library(graph, packing, board, question, chosen, progress)
        if found is not None:
            return _selected(found, chosen, graph, packing, max_size_bytes, progress, dump)
    plain = Computed(graph, chosen.lowered, {"strategy": ENGINE})
    if max_size_bytes is None or chosen.lowered.program.constants_bytes <= max_size_bytes:
        return plain
    progress("choosing lighter kernels")
    return _until_it_fits(partial(_lighter, chosen, plain, packing), plain, max_size_bytes)


def _selected(
    found: SelectedModel,
    engine: Chosen,
    graph: Graph,
    packing: Packing,
    max_size_bytes: int | None,
    progress: Progress,
    dump: Dump,
) -> Computed:
    if found.graph is graph and found.ways == engine.ways:  # there already
        made = Computed(graph, engine.lowered, found.as_json())
    else:
        progress("packing weights")
        made = _lowered(found, packing)
    if max_size_bytes is not None and made.lowered.program.constants_bytes > max_size_bytes:
        progress("choosing lighter primitives")

        def lighter(budget: int) -> Computed:
            return _lowered(within_weights(found, graph, packing, budget), packing)

        made = _until_it_fits(lighter, made, max_size_bytes)
    dump("legalised", made.graph)
    return made


def _lowered(found: SelectedModel, packing: Packing) -> Computed:
    return Computed(found.graph, lower_graph(found.graph, packing, found.ways), found.as_json())


def _lighter(chosen: Chosen, plain: Computed, packing: Packing, budget: int) -> Computed:
    """The engine's ways, with so many bytes of convolutions' weights at most."""
    options = {
        node: tuple(
            Option(way.name, way.mean_ms * (1 if way is ways[0] else 1 / WORTH), way.weight_bytes) for way in ways
        )
        for node, ways in chosen.considered.items()
    }
    packed = chosen.lowered.packed
    others = weight_sizes(chosen.lowered).packed_bytes - sum(packed.get(node, 0) for node in options)
    try:
        found = options_within(options, budget - others)
    except TooSmall as error:
        raise TooSmall(error.least_bytes + others) from None
    ways = {node: one.name for node, one in found.items() if one.name}
    return replace(plain, lowered=lower_graph(plain.graph, packing, ways))


def _until_it_fits(make: Callable[[int], Computed], start: Computed, max_size_bytes: int) -> Computed:
    """make(bytes that convolutions' weights may take), with less and less until all constants fit."""
    others = start.lowered.program.constants_bytes - weight_sizes(start.lowered).packed_bytes
    budget = max_size_bytes - others
    for _ in range(TRIES):
        try:
            made = make(budget)
        except TooSmall as error:
            raise MavcgError(
                f"--max-size {max_size_bytes}: packed weights take {error.least_bytes + others} bytes at least; allow "
                f"that many"
            ) from None
        excess = made.lowered.program.constants_bytes - max_size_bytes
        if excess <= 0:
            return made
        budget -= excess
    raise MavcgError(f"--max-size {max_size_bytes}: packed weights take {excess} bytes more; allow that many")
