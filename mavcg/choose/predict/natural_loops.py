"""Natural loops of an emitted function: the blocks of each loop, by the block at its head."""

from llvmlite import ir


def successors(block: ir.Block) -> list[ir.Block]:
    """Return the blocks to which a block's terminator may branch."""
    return [operand for operand in block.terminator.operands if isinstance(operand, ir.Block)]


def natural_loops(function: ir.Function) -> dict[str, frozenset[str]]:
    """Return the names of the blocks of each loop, by the name of its head.

    A branch to a block that dominates its source closes a loop (natural loop of a back edge; Aho, Lam, Sethi, Ullman:
    Compilers, 9.6). Loops with the same head count as one.
    """
    predecessors = _predecessors(function)
    dominators = _dominators(function, predecessors)
    loops: dict[str, set[str]] = {}
    for block in function.blocks:
        for head in successors(block):
            if head.name not in dominators[block.name]:
                continue
            body = loops.setdefault(head.name, {head.name})
            waiting = [block.name]
            while waiting:
                name = waiting.pop()
                if name not in body:
                    body.add(name)
                    waiting += predecessors[name]
    return {head: frozenset(body) for head, body in loops.items()}


def _predecessors(function: ir.Function) -> dict[str, list[str]]:
    predecessors: dict[str, list[str]] = {block.name: [] for block in function.blocks}
    for block in function.blocks:
        for successor in successors(block):
            predecessors[successor.name].append(block.name)
    return predecessors


def _dominators(function: ir.Function, predecessors: dict[str, list[str]]) -> dict[str, set[str]]:
    """Return the blocks through which every path from the entry to a block leads, by the block's name."""
    names = [block.name for block in function.blocks]
    dominators = {name: set(names) for name in names}
    dominators[names[0]] = {names[0]}
    changed = True
    while changed:
        changed = False
        for name in names[1:]:
            of_predecessors = [dominators[predecessor] for predecessor in predecessors[name]]
            updated = {name, *(set.intersection(*of_predecessors) if of_predecessors else ())}
            if updated != dominators[name]:
                dominators[name], changed = updated, True
    return dominators
