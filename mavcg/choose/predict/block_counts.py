"""Counts the executions of each basic block of a kernel by following its control flow, without data.

Loop counts of kernels are constants or follow from the range of rows, so the control flow needs no data. Values on
which no branch depends are never computed. Each block becomes a Python function once, and the kernel is followed from
block to block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from llvmlite import ir
from llvmlite.ir import instructions as instr

MOST_STEPS = 400_000  # blocks entered one by one; loops of one block count once

_MASK = (1 << 64) - 1


class DataDependent(Exception):
    """Raised if a branch depends on data in memory, or if there are too many blocks to follow."""


@dataclass(frozen=True)
class _Loop:
    """A loop with a head and a body of one block: for (index = begin; index < end; index += step)."""

    index: instr.PhiInstr
    begin: ir.Value
    end: ir.Value
    step: int
    body: ir.Block
    after: ir.Block


def count_blocks(
    function: ir.Function, begin: int, end: int, loaded_iterations: float | None = None
) -> dict[str, float]:
    """Return the number of executions of each block, by name, of a call for rows begin to before end.

    loaded_iterations: mean iterations of a single-block loop whose bounds are loaded from memory; None if unknown.
    Raises: DataDependent.
    """
    if function not in _FOLLOWERS:
        _FOLLOWERS[function] = _Follower(function)
    return _FOLLOWERS[function].run(begin, end, loaded_iterations)


# Computes the values that a block's branch and later branches depend on; returns the number of the next block, or DONE.
_Block = Callable[[list[int | float | None], list[float]], int]
DONE = -1


class _Follower:
    """A function whose blocks are Python functions over a list of the values that branches depend on."""

    def __init__(self, function: ir.Function) -> None:
        self.name = function.name
        control = _control(function)
        self.needed = {block.name: [i for i in block.instructions if id(i) in control] for block in function.blocks}
        self.loops = {block.name: loop for block in function.blocks if (loop := self._loop(block)) is not None}
        self.numbers = {block.name: number for number, block in enumerate(function.blocks)}
        self.begin, self.end, self.loaded = 0, 1, 2
        arguments = dict(zip(("args", "begin", "end", "scratch"), function.args, strict=True))
        self.slots = {id(arguments["begin"]): self.begin, id(arguments["end"]): self.end, id(self): self.loaded}
        for instructions in self.needed.values():
            for instruction in instructions:
                self.slots[id(instruction)] = len(self.slots)
        source = "\n".join(line for block in function.blocks for line in self._source(block))
        names: dict[str, object] = {"DataDependent": DataDependent, "towards_zero": _towards_zero, "M": _MASK}
        exec(compile(source, f"<control flow of {self.name}>", "exec"), names)  # of numbers and our own text only
        self.blocks: list[_Block] = [names[f"block_{number}"] for number in self.numbers.values()]  # type: ignore[misc]

    def _loop(self, head: ir.Block) -> _Loop | None:
        """Return the loop that begins here; None if its body is more than one block or branches depend on other carried
        values."""
        match self._phis(head), head.terminator:
            case (
                [index],
                instr.ConditionalBranch(operands=[instr.ICMPInstr(op="slt", operands=[below, end]), body, after]),
            ) if below is index:
                pass
            case _:
                return None
        match body.terminator:
            case instr.Branch(operands=[following]) if following is head:
                incoming = {block.name: value for value, block in index.incomings}
                next_index = incoming.pop(body.name, None)
            case _:
                return None
        match next_index, [*incoming.values()]:
            # for_range writes a constant step.
            case instr.Instruction(opname="add", operands=[counter, ir.Constant(constant=step)]), [begin] if (
                counter is index and step > 0 and not [i for i in self.needed[body.name] if i is not next_index]
            ):
                return _Loop(index, begin, end, int(step), body, after)
        return None

    def _phis(self, block: ir.Block) -> list[instr.PhiInstr]:
        return [i for i in self.needed[block.name] if isinstance(i, instr.PhiInstr)]

    def run(self, begin: int, end: int, loaded_iterations: float | None) -> dict[str, float]:
        """Follow one call from the first block to the return."""
        values: list[int | float | None] = [None] * len(self.slots)
        values[self.begin], values[self.end], values[self.loaded] = begin, end, loaded_iterations
        counts: list[float] = [0] * len(self.blocks)
        number, blocks = 0, self.blocks
        for _ in range(MOST_STEPS):
            counts[number] += 1
            number = blocks[number](values, counts)
            if number == DONE:
                return dict(zip(self.numbers, counts, strict=True))
        raise DataDependent(f"{self.name}: more than {MOST_STEPS} blocks")

    def _source(self, block: ir.Block) -> list[str]:
        """Return the source of a block as a Python function. v: the values; n: number of runs of each block."""
        lines = [f"def block_{self.numbers[block.name]}(v, n):"]
        stop = f"raise DataDependent({f'{self.name}: {block.name}'!r})"
        loop = self.loops.get(block.name)
        if loop is not None:
            index, end = self._value(loop.index), self._value(loop.end)
            # Entered from outside, where the index has its first value. Afterwards nothing of the body is needed, and
            # of the head only the values that are computed from the index.
            unknown, loaded = _unknown_condition((index, end)), f"v[{self.loaded}]"
            lines += [
                f"    if {unknown}:",
                f"        if {loaded} is None: {stop}",
                f"        t = {loaded}",
                "    else:",
                f"        t = max(0, -(-({end} - {index}) // {loop.step}))",
                f"        {index} += t * {loop.step}",
                f"    n[{self.numbers[loop.body.name]}] += t",
                f"    n[{self.numbers[block.name]}] += t",
            ]
        for instruction in self.needed[block.name]:
            if not isinstance(instruction, instr.PhiInstr):
                lines.append(f"    {self._value(instruction)} = {self._result(instruction)}")
        if loop is not None:
            return lines + self._edge(block, loop.after, "    ")
        match block.terminator:
            case instr.Branch(operands=[following]):
                return lines + self._edge(block, following, "    ")
            case instr.ConditionalBranch(operands=[deciding, taken, other]):
                condition = self._value(deciding)
                lines += [f"    if {_unknown_condition((condition,))}: {stop}", f"    if {condition}:"]
                return lines + self._edge(block, taken, "        ") + self._edge(block, other, "    ")
            case instr.Ret():
                return [*lines, f"    return {DONE}"]
            case last:
                text = f"{self.name}: {block.name} ends in {type(last).__name__}"
                return [*lines, f"    raise DataDependent({text!r})"]

    def _edge(self, block: ir.Block, following: ir.Block, indent: str) -> list[str]:
        """Return code that sets the next block's phis, all at once, and goes there."""
        phis = self._phis(following)
        lines = []
        if phis:
            arriving = [next((value for value, source in phi.incomings if source is block), None) for phi in phis]
            left = ", ".join(map(self._value, phis))
            right = ", ".join("None" if value is None else self._value(value) for value in arriving)
            lines.append(f"{indent}{left} = {right}")
        return [*lines, f"{indent}return {self.numbers[following.name]}"]

    def _value(self, value: ir.Value) -> str:
        match value:
            case ir.Constant(constant=int() as number):
                return f"({int(number)})"
        return f"v[{self.slots[id(value)]}]" if id(value) in self.slots else "None"

    def _result(self, instruction: instr.Instruction) -> str:
        """Return the result of an integer instruction; None if it is not known. Kernels' counters never overflow."""
        source: str | None = None
        match instruction:
            case instr.LoadInstr() | instr.CallInstr():
                pass
            case instr.SelectInstr(operands=[condition, chosen, other]):
                deciding, first, second = map(self._value, (condition, chosen, other))
                return f"None if {_unknown_condition((deciding,))} else {first} if {deciding} else {second}"
            case instr.CastInstr(operands=[value]):
                return self._value(value) if instruction.opname in ("sext", "zext", "trunc") else "None"
            case instr.ICMPInstr(op=compared):
                source = _COMPARE.get(compared)
            case _:
                source = _ARITHMETIC.get(instruction.opname)
        if source is None or len(instruction.operands) != 2:
            return "None"
        a, b = map(self._value, instruction.operands)
        return f"None if {_unknown_condition((a, b))} else {source.format(a=a, b=b)}"


def _unknown_condition(operands: Sequence[str]) -> str:
    """Return a condition that is true if one of these values is unknown.

    A constant, in parentheses, is always known.
    """
    variable = [operand for operand in operands if not operand.startswith("(")]
    return " or ".join(f"{operand} is None" for operand in variable) or "False"


_FOLLOWERS: "WeakKeyDictionary[ir.Function, _Follower]" = WeakKeyDictionary()


def _control(function: ir.Function) -> set[int]:
    """Return everything that a branch depends on, by id."""
    waiting = [b.terminator.operands[0] for b in function.blocks if isinstance(b.terminator, instr.ConditionalBranch)]
    deciding: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in deciding:
            continue
        deciding.add(id(value))
        match value:
            case instr.PhiInstr():
                waiting += [incoming for incoming, _ in value.incomings]
            case instr.LoadInstr() | instr.CallInstr():
                pass
            case instr.Instruction():
                waiting += list(value.operands)
    return deciding


_COMPARE = {
    "eq": "int({a} == {b})",
    "ne": "int({a} != {b})",
    "slt": "int({a} < {b})",
    "sle": "int({a} <= {b})",
    "sgt": "int({a} > {b})",
    "sge": "int({a} >= {b})",
    "ult": "int({a} & M < {b} & M)",
    "ule": "int({a} & M <= {b} & M)",
    "ugt": "int({a} & M > {b} & M)",
    "uge": "int({a} & M >= {b} & M)",
}


def _towards_zero(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


_ARITHMETIC = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "shl": "{a} << {b}",
    "ashr": "{a} >> {b}",
    "lshr": "({a} & M) >> {b}",
    "udiv": "({a} // {b} if {b} else None)",
    "urem": "({a} % {b} if {b} else None)",
    "sdiv": "(towards_zero({a}, {b}) if {b} else None)",
    "srem": "({a} - {b} * towards_zero({a}, {b}) if {b} else None)",
}
