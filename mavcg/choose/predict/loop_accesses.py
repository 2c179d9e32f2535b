"""Loops of a kernel, and its memory accesses by the loops around them, read from the emitter's LLVM IR.

An address is an operand's pointer, plus an offset, plus a stride for each loop around the access (affine_addresses.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from llvmlite import ir
from llvmlite.ir import instructions as instr

from mavcg.choose.predict.affine_addresses import AddressReader, type_bytes
from mavcg.choose.predict.block_counts import count_blocks


@dataclass(frozen=True)
class LoopAccess:
    """A load or store. base: the operand's pointer, as a name. offset, bytes: of the first access, and its size.

    strides: bytes per iteration, by loop; loops that do not move it are absent. executions: runs in a call.
    """

    base: str
    is_store: bool
    bytes: int
    offset: int
    strides: Mapping[str, float]
    executions: float


@dataclass(frozen=True)
class Loop:
    """A loop with the accesses of its body outside of inner loops. trips: mean iterations each time it is entered.

    The loop named "" is the whole call.
    """

    name: str
    trips: float
    entries: float
    accesses: tuple[LoopAccess, ...]
    inner: tuple["Loop", ...]

    def all_accesses(self) -> Iterator[LoopAccess]:
        """Yield the accesses in the loop and in inner loops."""
        yield from self.accesses
        for loop in self.inner:
            yield from loop.all_accesses()


class _LoopReader:
    """Reads the loops of one function for calls of rows begin to before end. counts: executions of each block."""

    def __init__(self, function: ir.Function, begin: int, end: int, counts: Mapping[str, float]) -> None:
        self.counts = counts
        self.blocks = {block.name: block for block in function.blocks}
        self.heads = natural_loops(function)
        trips = {head: self._trips(head)[0] for head in self.heads}
        self.addresses = AddressReader(function, self.heads, trips, begin, end)

    def read(self) -> Loop:
        """Return the whole call as a loop of one iteration."""
        return self._loop("", frozenset(self.blocks), 1.0, 1.0)

    def _loop(self, name: str, inside: frozenset[str], trips: float, entries: float) -> Loop:
        nested = {n: b for n, b in self.heads.items() if n != name and b < inside}
        children = {n: b for n, b in nested.items() if not any(b < other for other in nested.values())}
        own = inside - frozenset().union(*children.values())
        accesses = tuple(a for n in self.blocks if n in own for a in self._accesses(self.blocks[n]))
        inner = []
        for child, blocks in children.items():
            each, times = self._trips(child)
            if each > 0:
                inner.append(self._loop(child, blocks, each, times))
        return Loop(name, trips, entries, accesses, tuple(inner))

    def _trips(self, head: str) -> tuple[float, float]:
        """Return the mean iterations of a loop each time it is entered, and how often it is entered."""
        latches = (n for n in self.heads[head] if any(s.name == head for s in successors(self.blocks[n])))
        iterations = sum(self.counts[name] for name in latches)
        times = self.counts[head] - iterations
        return (iterations / times if times > 0 else 0.0), times

    def _accesses(self, block: ir.Block) -> Iterator[LoopAccess]:
        if not self.counts[block.name]:
            return
        for instruction in block.instructions:
            for pointer, typ, is_store in _pointers(instruction):
                address = self.addresses.address(pointer)
                if address.base != "args":
                    yield LoopAccess(
                        address.base,
                        is_store,
                        type_bytes(typ),
                        int(address.offset),
                        {n: s for n, s in address.strides.items() if s},
                        self.counts[block.name],
                    )


def read_loops(function: ir.Function, begin: int, end: int, loaded_iterations: float | None = None) -> Loop:
    """Return the loops of a call for rows begin to before end, with their accesses.

    loaded_iterations: as count_blocks has it. Raises: DataDependent.
    """
    reader = _LoopReader(function, begin, end, count_blocks(function, begin, end, loaded_iterations))
    return _split(reader.read(), reader)


def with_calls(loop: Loop, calls: float) -> Loop:
    """Return the loops of this many calls, one after the other, as if they were one: outer loops run so often."""

    def with_entries(each: Loop) -> Loop:
        return replace(each, entries=each.entries * calls, inner=tuple(map(with_entries, each.inner)))

    outer = (replace(each, trips=each.trips * calls, inner=tuple(map(with_entries, each.inner))) for each in loop.inner)
    return replace(loop, inner=tuple(outer))


def _split(loop: Loop, reader: _LoopReader) -> Loop:
    """Return the loops with those in two whose counters are divided: one of quotients, in it one of remainders."""

    def strides(access: LoopAccess) -> dict[str, float]:
        strides = dict(access.strides)
        for name, divisor in reader.addresses.splits.items():
            stride = strides.pop(name, 0)
            if stride:
                strides[f"{name}/"] = strides.get(f"{name}/", 0) + divisor * stride
                strides[f"{name}%"] = strides.get(f"{name}%", 0) + stride
        return strides

    def accesses(of: Loop) -> tuple[LoopAccess, ...]:
        return tuple(LoopAccess(a.base, a.is_store, a.bytes, a.offset, strides(a), a.executions) for a in of.accesses)

    inner = tuple(_split(each, reader) for each in loop.inner)
    divisor = reader.addresses.splits.get(loop.name, 0)
    if divisor:
        rest = Loop(
            f"{loop.name}%",
            min(divisor, loop.trips),
            max(1.0, loop.trips / divisor) * loop.entries,
            accesses(loop),
            inner,
        )
        return Loop(f"{loop.name}/", max(1.0, loop.trips / divisor), loop.entries, (), (rest,))
    return Loop(loop.name, loop.trips, loop.entries, accesses(loop), inner)


def _pointers(instruction: instr.Instruction) -> Iterator[tuple[ir.Value, ir.Type, bool]]:
    """Yield (pointer, type, whether it is a store) of the memory access of an instruction, if it is one."""
    match instruction:
        case instr.LoadInstr(operands=[pointer, *_]):
            yield pointer, instruction.type, False
        case instr.StoreInstr(operands=[value, pointer, *_]):
            yield pointer, value.type, True
        case instr.CallInstr(args=[first, *others]):
            name = str(instruction.callee.name)
            if name.startswith("llvm.masked.load"):
                yield first, instruction.type, False
            elif name.startswith("llvm.masked.store"):
                yield others[0], first.type, True


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
