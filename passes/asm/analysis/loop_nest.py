"""Finds the loop nest of a function and estimates block frequencies: how often each block runs in a call.

Trip counts that are constants in the code are used as they are; any other loop is assumed to run `ASSUMED_TRIPS` times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from mavcg.passes.asm.analysis.blocks import Block, Function
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.analysis.trip_count import loop_counter
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.isa.syntax import Imm, Reg

# Assumed trip count of a loop whose trip count is not constant: small enough that a large body outweighs the short loop
# behind it that stores its results, and large enough that a kernel outweighs the prologue around it.
ASSUMED_TRIPS = 8


@dataclass(frozen=True)
class LoopRegion:
    """A loop: a set of blocks that can reach one another. trips: its trip count if it is a constant, else None."""

    blocks: frozenset[int]
    trips: int | None = None


def loops_of(function: Function, statements: Sequence[Statement]) -> tuple[LoopRegion, ...]:
    """Find every loop of a function, outer ones before those they contain.

    Two loops with the same header count as one, unless one of them is the header alone.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(function.blocks)))
    graph.add_edges_from((i, j) for i, block in enumerate(function.blocks) for j in block.successors)
    groups: list[frozenset[int]] = []
    waiting: list[frozenset[int]] = [frozenset(graph)]
    while waiting:
        inside = graph.subgraph(waiting.pop(0))
        for group in map(frozenset, nx.strongly_connected_components(inside)):
            if len(group) == 1 and not graph.has_edge(*(2 * tuple(group))):
                continue
            groups.append(group)
            if len(group) == 1:
                continue
            headers = _headers(graph, group)
            groups += [frozenset({i}) for i in headers if graph.has_edge(i, i)]
            waiting.append(group - headers)
    ordered = sorted(groups, key=lambda group: (-len(group), min(group)))
    return tuple(LoopRegion(group, _constant_trips(function, graph, group, statements)) for group in ordered)


def block_frequencies(function: Function, statements: Sequence[Statement]) -> tuple[int, ...]:
    """Estimate each block's frequency in a call: the product of the trip counts of the loops around it."""
    runs = [1] * len(function.blocks)
    for loop in loops_of(function, statements):
        for index in loop.blocks:
            runs[index] *= ASSUMED_TRIPS if loop.trips is None else loop.trips
    return tuple(runs)


def _headers(graph: "nx.DiGraph[int]", group: frozenset[int]) -> frozenset[int]:
    """Return the blocks through which control enters a loop from outside; its first block if there are none."""
    return frozenset(i for i in group if i == 0 or any(p not in group for p in graph.predecessors(i))) or frozenset(
        {min(group)}
    )


def _constant_trips(
    function: Function, graph: "nx.DiGraph[int]", group: frozenset[int], statements: Sequence[Statement]
) -> int | None:
    """Return the trip count of a loop of one block that counts a constant down to 0; None for any other loop."""
    if len(group) != 1:
        return None
    (index,) = group
    before = [i for i in graph.predecessors(index) if i != index]
    code = _code(function.blocks[index], statements)
    count = loop_counter(code) if code else None
    if len(before) != 1 or count is None or count.end is not None or count.up:
        return None
    constants = _constants(function.blocks[before[0]], statements)
    start = constants.get(count.register.name)
    return None if start is None or start <= 0 else -(-start // count.step)


def _code(block: Block, statements: Sequence[Statement]) -> list[Code]:
    """Return a block's instructions with their effects; [] if the effects of any instruction are unknown."""
    pairs = [(statements[line.statement].instr, line.effects) for line in block.lines]
    known = [Code(instr, effects) for instr, effects in pairs if instr is not None and effects is not None]
    return known if len(known) == len(pairs) else []


def _constants(block: Block, statements: Sequence[Statement]) -> Mapping[str, int]:
    """Return the registers that hold a constant, set by `mov`, at a block's end."""
    constants: dict[str, int] = {}
    for line in block.lines:
        instr, effects = statements[line.statement].instr, line.effects
        if instr is None or effects is None:
            constants.clear()
            continue
        for written in effects.writes():
            constants.pop(written, None)
        if instr.mnemonic in ("mov", "movz") and len(instr.operands) == 2:
            register, value = instr.operands
            if isinstance(register, Reg) and isinstance(value, Imm):
                constants[register.name] = value.value
    return constants
