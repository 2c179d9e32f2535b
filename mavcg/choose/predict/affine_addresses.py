"""Addresses of an emitted function as affine functions of its loops' iterations.

Where a loop's counter is divided by a constant, quotient and remainder count as two loops, named `loop/` and `loop%`.
Parts of an address that depend on data count as strides that no prefetcher foresees (UNKNOWN).
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from llvmlite import ir
from llvmlite.ir import instructions as instr

UNKNOWN = inf  # stride of an address that depends on data
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "ult": operator.lt,
    "ule": operator.le,
    "ugt": operator.gt,
    "uge": operator.ge,
}


@dataclass(frozen=True)
class Address:
    """An affine address: base + offset + the sum of stride * iteration over loops, in bytes.

    base: an operand's pointer, as a name; "" for a number. strides: by loop. A number has the same form.
    """

    base: str = ""
    offset: float = 0
    strides: Mapping[str, float] = field(default_factory=dict)

    def plus(self, other: "Address", sign: int = 1) -> "Address":
        names = dict.fromkeys((*self.strides, *other.strides))
        strides = {n: self.strides.get(n, 0) + sign * other.strides.get(n, 0) for n in names}
        return Address(self.base or other.base, self.offset + sign * other.offset, strides)

    def times(self, factor: float) -> "Address":
        return Address(self.base, self.offset * factor, {n: s * factor for n, s in self.strides.items()})


class AddressReader:
    """Reads the addresses of one function for a call of rows begin to before end.

    loops: the blocks of each loop by its head. trips: mean iterations of each loop. splits: by loop, the constant that
    its counter is divided by, as far as addresses were read.
    """

    def __init__(
        self,
        function: ir.Function,
        loops: Mapping[str, frozenset[str]],
        trips: Mapping[str, float],
        begin: int,
        end: int,
    ) -> None:
        self.function, self.heads, self.trips = function, loops, trips
        self.splits: dict[str, int] = {}
        arguments = dict(zip(("args", "begin", "end", "scratch"), function.args, strict=True))
        self.known: dict[int, Address] = {
            id(arguments["args"]): Address("args"),
            id(arguments["scratch"]): Address("scratch"),
            id(arguments["begin"]): Address("", begin),
            id(arguments["end"]): Address("", end),
        }

    def address(self, value: ir.Value) -> Address:
        """Return a value as a function of the loops around it."""
        match value:
            case ir.Constant(constant=int() as number):
                return Address("", number)
            case ir.Constant():
                return Address("", 0)
        if id(value) not in self.known:
            self.known[id(value)] = Address("", 0, {"?": UNKNOWN})  # of a value that depends on itself
            self.known[id(value)] = self._address(value)
        return self.known[id(value)]

    def _address(self, value: ir.Value) -> Address:
        match value:
            case instr.PhiInstr():
                return self._phi(value)
            case instr.GEPInstr():
                address = self.address(value.operands[0])
                step = _item_bytes(value)
                return address.plus(self.address(value.operands[1]).times(step)) if step else _opaque(address)
            case instr.LoadInstr():
                source = self.address(value.operands[0])
                if source.base == "args" and not source.strides:
                    return Address(f"operand {int(source.offset) // 8}")
                return Address("", 0, {**{n: UNKNOWN for n in source.strides}, "?": UNKNOWN})
            case instr.CastInstr():
                return self.address(value.operands[0])
            case instr.SelectInstr(operands=[condition, chosen, other]):  # clamped at edges: in the middle of the loops
                return self.address(chosen if self._holds(condition) else other)
            case instr.Instruction(operands=[_, _]):
                return self._arithmetic(value)
        return Address("", 0, {"?": UNKNOWN})

    def _holds(self, condition: ir.Value) -> bool:
        """Return whether a comparison holds in the middle of all loops; False for any other condition."""
        if not isinstance(condition, instr.ICMPInstr) or condition.op not in _COMPARE:
            return False
        first, second = (self._in_the_middle(self.address(each)) for each in condition.operands)
        return _COMPARE[condition.op](first, second)

    def _in_the_middle(self, value: Address) -> float:
        return value.offset + sum(stride * self._middle(name) for name, stride in value.strides.items())

    def _middle(self, name: str) -> float:
        """Return the iteration in the middle of a loop, or of the two that its counter is divided into."""
        head = name.rstrip("/%")
        trips, divisor = self.trips.get(head, 1.0), self.splits.get(head, 1)
        if name.endswith("/"):
            return trips / divisor // 2
        return (min(divisor, trips) if name.endswith("%") else trips) // 2

    def _arithmetic(self, value: instr.Instruction) -> Address:
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

    def _quotient_or_remainder(self, value: Address, divisor: int, remainder: bool) -> Address:
        """Return quotient or remainder by a constant; a loop's plain counter is split into two loops."""
        if not value.strides:
            whole, rest = divmod(int(value.offset), divisor)
            return Address("", rest if remainder else whole)
        if len(value.strides) == 1 and value.offset == 0:
            ((name, stride),) = value.strides.items()
            if stride == 1 and self.splits.setdefault(name, divisor) == divisor:
                return Address("", 0, {f"{name}%": 1} if remainder else {f"{name}/": 1})
        if remainder:
            return _opaque(value)
        return Address("", value.offset // divisor, {n: s / divisor for n, s in value.strides.items()})

    def _phi(self, phi: instr.PhiInstr) -> Address:
        block = next(b for b in self.function.blocks if any(i is phi for i in b.instructions))
        inside = self.heads.get(block.name, frozenset())
        starts = [value for value, source in phi.incomings if source.name not in inside]
        nexts = [value for value, source in phi.incomings if source.name in inside]
        if not inside or len(starts) != 1 or len(nexts) != 1:
            return max((self.address(value) for value, _ in phi.incomings), key=lambda a: len(a.strides))
        start, step = self.address(starts[0]), self._step(phi, nexts[0])
        if step is None:
            return _opaque(start.plus(Address("", 0, {block.name: UNKNOWN})))
        return start.plus(Address("", 0, {block.name: step}))

    def _step(self, phi: instr.PhiInstr, following: ir.Value) -> float | None:
        """Return what an iteration adds to a counter or pointer; None if it is no constant."""
        total = 0.0
        while following is not phi:
            match following:
                case instr.GEPInstr(operands=[before, index, *_]):
                    step = self.address(index).times(_item_bytes(following))
                case instr.Instruction(opname="add", operands=[before, added]):
                    step = self.address(added)
                case _:
                    return None
            following = before
            if step.strides:
                return None
            total += step.offset
        return total


def _opaque(value: Address) -> Address:
    """Return an address of the same operand, of which only the loops that move it are known."""
    return Address(value.base, 0, {**dict.fromkeys(value.strides, UNKNOWN), "?": UNKNOWN})


def type_bytes(typ: ir.Type) -> int:
    """Return the size of a value in memory, in bytes."""
    match typ:
        case ir.VectorType():
            return int(typ.count) * type_bytes(typ.element)
        case ir.IntType():
            return max(1, int(typ.width) // 8)
    return {ir.HalfType: 2, ir.FloatType: 4, ir.DoubleType: 8}.get(type(typ), 8)


def _item_bytes(gep: instr.GEPInstr) -> int:
    """Return the bytes per index of a pointer's arithmetic; 0 for one with several indices."""
    return type_bytes(gep.source_etype) if len(gep.operands) == 2 else 0
