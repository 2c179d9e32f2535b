"""Memory accesses of a kernel as affine functions of its loops, read from the emitter's LLVM IR.

An address is an operand's pointer, plus an offset, plus a stride for each loop around the access. Where a loop's
counter is divided by a constant, quotient and remainder count as two loops. Parts of an address that depend on data
count as strides that no prefetcher foresees (UNKNOWN).
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from llvmlite import ir
from llvmlite.ir import instructions as instr

from mavcg.predict.block_counts import count_blocks

UNKNOWN = inf  # stride of an address that depends on data
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge, "eq": operator.eq,
    "ne": operator.ne, "ult": operator.lt, "ule": operator.le, "ugt": operator.gt, "uge": operator.ge,
}  # fmt: skip


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
    """A loop with the accesses of its body outside of inner loops. trips: mean iterations each time it is with_entries.

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


@dataclass(frozen=True)
class _Address:
    """base + offset + strides * iterations. base: "" for a number."""

    base: str = ""
    offset: float = 0
    strides: Mapping[str, float] = field(default_factory=dict)

    def plus(self, other: "_Address", sign: int = 1) -> "_Address":
        names = dict.fromkeys((*self.strides, *other.strides))
        strides = {n: self.strides.get(n, 0) + sign * other.strides.get(n, 0) for n in names}
        return _Address(self.base or other.base, self.offset + sign * other.offset, strides)

    def times(self, factor: float) -> "_Address":
        return _Address(self.base, self.offset * factor, {n: s * factor for n, s in self.strides.items()})


class _LoopReader:
    """Reads the loops of one function for calls of rows begin to before end."""

    def __init__(self, function: ir.Function, begin: int, end: int, counts: Mapping[str, float]) -> None:
        self.function, self.counts = function, counts
        self.blocks = {block.name: block for block in function.blocks}
        self.heads = self._loops()
        self.trips = {head: self._trips(head)[0] for head in self.heads}
        self.known: dict[int, _Address] = {}
        self.splits: dict[str, int] = {}
        arguments = dict(zip(("args", "begin", "end", "scratch"), function.args, strict=True))
        self.known[id(arguments["args"])] = _Address("args")
        self.known[id(arguments["scratch"])] = _Address("scratch")
        self.known[id(arguments["begin"])] = _Address("", begin)
        self.known[id(arguments["end"])] = _Address("", end)

    def _loops(self) -> dict[str, frozenset[str]]:
        """Return the blocks of each loop, by the name of its head."""
        before: dict[str, list[str]] = {name: [] for name in self.blocks}
        for block in self.function.blocks:
            for following in _successors(block):
                before[following.name].append(block.name)
        dominators = _dominators(self.function)
        heads: dict[str, set[str]] = {}
        for block in self.function.blocks:
            for following in _successors(block):
                if following.name in dominators[block.name]:
                    inside = heads.setdefault(following.name, {following.name})
                    waiting = [block.name]
                    while waiting:
                        name = waiting.pop()
                        if name not in inside:
                            inside.add(name)
                            waiting += before[name]
        return {name: frozenset(inside) for name, inside in heads.items()}

    def address(self, value: ir.Value) -> _Address:
        """Return a value as a function of the loops around it."""
        if isinstance(value, ir.Constant):
            return _Address("", value.constant if isinstance(value.constant, int) else 0)
        if id(value) not in self.known:
            self.known[id(value)] = _Address("", 0, {"?": UNKNOWN})  # of a value that depends on itself
            self.known[id(value)] = self._address(value)
        return self.known[id(value)]

    def _address(self, value: ir.Value) -> _Address:
        if isinstance(value, instr.PhiInstr):
            return self._phi(value)
        if isinstance(value, instr.GEPInstr):
            address = self.address(value.operands[0])
            step = _item_bytes(value)
            return address.plus(self.address(value.operands[1]).times(step)) if step else _opaque(address)
        if isinstance(value, instr.LoadInstr):
            source = self.address(value.operands[0])
            if source.base == "args" and not source.strides:
                return _Address(f"operand {int(source.offset) // 8}")
            return _Address("", 0, {**{n: UNKNOWN for n in source.strides}, "?": UNKNOWN})
        if isinstance(value, instr.CastInstr):
            return self.address(value.operands[0])
        if isinstance(value, instr.SelectInstr):  # clamped at edges: what it is in the middle of the loops
            condition, chosen, other = value.operands
            return self.address(chosen if self._holds(condition) else other)
        if isinstance(value, instr.Instruction) and len(value.operands) == 2:
            return self._arithmetic(value)
        return _Address("", 0, {"?": UNKNOWN})

    def _holds(self, condition: ir.Value) -> bool:
        """Return whether a comparison holds in the middle of all loops; False for any other condition."""
        if not isinstance(condition, instr.ICMPInstr) or condition.op not in _COMPARE:
            return False
        first, second = (self._in_the_middle(self.address(each)) for each in condition.operands)
        return _COMPARE[condition.op](first, second)

    def _in_the_middle(self, value: _Address) -> float:
        return value.offset + sum(stride * self._middle(name) for name, stride in value.strides.items())

    def _middle(self, name: str) -> float:
        """Return the iteration in the middle of a loop, or of the two that its counter is divided into."""
        head = name.rstrip("/%")
        trips, divisor = self.trips.get(head, 1.0), self.splits.get(head, 1)
        if name.endswith("/"):
            return trips / divisor // 2
        return (min(divisor, trips) if name.endswith("%") else trips) // 2

    def _arithmetic(self, value: instr.Instruction) -> _Address:
        first, second = (self.address(each) for each in value.operands)
        name = value.opname
        if name in ("add", "sub", "or"):
            return first.plus(second, -1 if name == "sub" else 1)
        if name == "mul" and not (first.strides and second.strides):
            return first.times(second.offset) if not second.strides else second.times(first.offset)
        if name == "shl" and not second.strides:
            return first.times(2 ** int(second.offset))
        if name in ("udiv", "sdiv", "urem", "srem", "lshr", "ashr", "and") and not second.strides and second.offset > 0:
            divisor = int(second.offset)
            divisor = 2**divisor if name in ("lshr", "ashr") else divisor + 1 if name == "and" else divisor
            return self._quotient_or_remainder(first, divisor, name in ("urem", "srem", "and"))
        return _opaque(first.plus(second))

    def _quotient_or_remainder(self, value: _Address, divisor: int, remainder: bool) -> _Address:
        """Return quotient or remainder by a constant; a loop's plain counter is split into two loops."""
        if not value.strides:
            whole, rest = divmod(int(value.offset), divisor)
            return _Address("", rest if remainder else whole)
        if len(value.strides) == 1 and value.offset == 0:
            ((name, stride),) = value.strides.items()
            if stride == 1 and self.splits.setdefault(name, divisor) == divisor:
                return _Address("", 0, {f"{name}%": 1} if remainder else {f"{name}/": 1})
        if remainder:
            return _opaque(value)
        return _Address("", value.offset // divisor, {n: s / divisor for n, s in value.strides.items()})

    def _phi(self, phi: instr.PhiInstr) -> _Address:
        block = next(b for b in self.function.blocks if any(i is phi for i in b.instructions))
        inside = self.heads.get(block.name, frozenset())
        starts = [value for value, source in phi.incomings if source.name not in inside]
        nexts = [value for value, source in phi.incomings if source.name in inside]
        if not inside or len(starts) != 1 or len(nexts) != 1:
            return max((self.address(value) for value, _ in phi.incomings), key=lambda a: len(a.strides))
        start, step = self.address(starts[0]), self._step(phi, nexts[0])
        if step is None:
            return _opaque(start.plus(_Address("", 0, {block.name: UNKNOWN})))
        return start.plus(_Address("", 0, {block.name: step}))

    def _step(self, phi: instr.PhiInstr, following: ir.Value) -> float | None:
        """Return what an iteration adds to a counter or pointer; None if it is no constant."""
        total = 0.0
        while following is not phi:
            if isinstance(following, instr.GEPInstr):
                step = self.address(following.operands[1]).times(_item_bytes(following))
                following = following.operands[0]
            elif isinstance(following, instr.Instruction) and following.opname == "add":
                step, following = self.address(following.operands[1]), following.operands[0]
            else:
                return None
            if step.strides:
                return None
            total += step.offset
        return total

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
        """Return the mean iterations of a loop each time it is with_entries, and how often it is."""
        latches = (n for n in self.heads[head] if any(s.name == head for s in _successors(self.blocks[n])))
        iterations = sum(self.counts[name] for name in latches)
        times = self.counts[head] - iterations
        return (iterations / times if times > 0 else 0.0), times

    def _accesses(self, block: ir.Block) -> Iterator[LoopAccess]:
        if not self.counts[block.name]:
            return
        for instruction in block.instructions:
            for pointer, typ, is_store in _pointers(instruction):
                address = self.address(pointer)
                if address.base != "args":
                    yield LoopAccess(
                        address.base, is_store, _bytes(typ), int(address.offset),
                        {n: s for n, s in address.strides.items() if s}, self.counts[block.name],
                    )  # fmt: skip


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
        for name, divisor in reader.splits.items():
            stride = strides.pop(name, 0)
            if stride:
                strides[f"{name}/"] = strides.get(f"{name}/", 0) + divisor * stride
                strides[f"{name}%"] = strides.get(f"{name}%", 0) + stride
        return strides

    def accesses(of: Loop) -> tuple[LoopAccess, ...]:
        return tuple(
            LoopAccess(a.base, a.is_store, a.bytes, a.offset, strides(a), a.executions) for a in of.accesses
        )  # fmt: skip

    inner = tuple(_split(each, reader) for each in loop.inner)
    divisor = reader.splits.get(loop.name, 0)
    if divisor:
        rest = Loop(f"{loop.name}%", min(divisor, loop.trips), max(1.0, loop.trips / divisor) * loop.entries,
                    accesses(loop), inner)  # fmt: skip
        return Loop(f"{loop.name}/", max(1.0, loop.trips / divisor), loop.entries, (), (rest,))
    return Loop(loop.name, loop.trips, loop.entries, accesses(loop), inner)


def _opaque(value: _Address) -> _Address:
    return _Address(value.base, 0, {**dict.fromkeys(value.strides, UNKNOWN), "?": UNKNOWN})


def _successors(block: ir.Block) -> list[ir.Block]:
    return [operand for operand in block.terminator.operands if isinstance(operand, ir.Block)]


def _dominators(function: ir.Function) -> dict[str, set[str]]:
    """Return the blocks through which every path from the entry to a block leads, by the block's name."""
    names = [block.name for block in function.blocks]
    before: dict[str, list[str]] = {name: [] for name in names}
    for block in function.blocks:
        for following in _successors(block):
            before[following.name].append(block.name)
    dominators = {name: set(names) for name in names}
    dominators[names[0]] = {names[0]}
    changed = True
    while changed:
        changed = False
        for name in names[1:]:
            through = [dominators[each] for each in before[name]]
            now = {name, *(set.intersection(*through) if through else ())}
            if now != dominators[name]:
                dominators[name], changed = now, True
    return dominators


def _pointers(instruction: instr.Instruction) -> Iterator[tuple[ir.Value, ir.Type, bool]]:
    if isinstance(instruction, instr.LoadInstr):
        yield instruction.operands[0], instruction.type, False
    elif isinstance(instruction, instr.StoreInstr):
        yield instruction.operands[1], instruction.operands[0].type, True
    elif isinstance(instruction, instr.CallInstr):
        name = str(instruction.callee.name)
        if name.startswith("llvm.masked.load"):
            yield instruction.args[0], instruction.type, False
        elif name.startswith("llvm.masked.store"):
            yield instruction.args[1], instruction.args[0].type, True


def _bytes(typ: ir.Type) -> int:
    if isinstance(typ, ir.VectorType):
        return int(typ.count) * _bytes(typ.element)
    if isinstance(typ, ir.IntType):
        return max(1, int(typ.width) // 8)
    return {ir.HalfType: 2, ir.FloatType: 4, ir.DoubleType: 8}.get(type(typ), 8)


def _item_bytes(gep: instr.GEPInstr) -> int:
    """Return the bytes per index of a pointer's arithmetic; 0 for one with several indices."""
    return _bytes(gep.source_etype) if len(gep.operands) == 2 else 0
