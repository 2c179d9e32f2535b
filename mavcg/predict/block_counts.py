"""How often each basic block of a kernel runs, counted by following its control flow and nothing else.

Kernels count their loops in whole numbers that are known when they are emitted or follow from the range of rows: so
their control flow can be followed without any data. What a branch does not depend on is never computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llvmlite import ir
from llvmlite.ir import instructions as instr

MOST_STEPS = 400_000  # blocks entered one by one; loops of one block count once

_MASK = (1 << 64) - 1


class DataDependent(Exception):
    """A branch depends on what is in memory, or there are too many blocks to follow."""


@dataclass(frozen=True)
class _Loop:
    """A head and a body of one block: for (index = ..; index < end; index += step)."""

    index: instr.PhiInstr
    begin: ir.Value
    end: ir.Value
    step: int
    body: ir.Block
    after: ir.Block


def count_blocks(function: ir.Function, begin: int, end: int) -> dict[str, int]:
    """Block name -> how often it runs when the kernel is called for rows begin to end.

    Raises: DataDependent.
    """
    return _Walk(function).run(begin, end)


class _Walk:
    """One function, its control flow prepared."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        wanted = _control(function)
        self.needed = {block.name: [i for i in block.instructions if id(i) in wanted] for block in function.blocks}
        self.loops = {block.name: loop for block in function.blocks if (loop := self._loop(block)) is not None}

    def _loop(self, head: ir.Block) -> _Loop | None:
        """The loop that begins here, where its body is one block and carries nothing that branches ask for."""
        end_of_head = head.terminator
        phis = [i for i in self.needed[head.name] if isinstance(i, instr.PhiInstr)]
        if not isinstance(end_of_head, instr.ConditionalBranch) or len(phis) != 1:
            return None
        condition, body, after = end_of_head.operands
        index = phis[0]
        if not isinstance(condition, instr.ICMPInstr) or condition.op != "slt" or condition.operands[0] is not index:
            return None
        if not isinstance(body.terminator, instr.Branch) or body.terminator.operands[0] is not head:
            return None
        incoming = {block.name: value for value, block in index.incomings}
        step = incoming.pop(body.name, None)
        # Whether the step is a constant: what for_range writes.
        if len(incoming) != 1 or getattr(step, "opname", "") != "add" or step.operands[0] is not index:
            return None
        if not isinstance(step.operands[1], ir.Constant) or step.operands[1].constant <= 0:
            return None
        if [i for i in self.needed[body.name] if i is not step]:
            return None
        first = next(iter(incoming.values()))
        return _Loop(index, first, condition.operands[1], int(step.operands[1].constant), body, after)

    def run(self, begin: int, end: int) -> dict[str, int]:
        names = dict(zip(("args", "begin", "end", "scratch"), self.function.args, strict=True))
        values: dict[int, int | None] = {id(names["begin"]): begin, id(names["end"]): end}
        counts = {block.name: 0 for block in self.function.blocks}
        block, before = self.function.entry_basic_block, None
        for _ in range(MOST_STEPS):
            counts[block.name] += 1
            loop = self.loops.get(block.name)
            if loop is not None and before is not loop.body:
                first, last = _value(loop.begin, values), _value(loop.end, values)
                if first is None or last is None:
                    raise DataDependent(f"{self.function.name}: {block.name}")
                turns = max(0, -(-(last - first) // loop.step))
                counts[loop.body.name] += turns
                counts[block.name] += turns
                values[id(loop.index)] = first + turns * loop.step
                # Of the body nothing is asked for afterwards; of the head only what is computed from the index.
                self._compute(block, None, values, skip_phis=True)
                block, before = loop.after, block
                continue
            self._compute(block, before, values)
            following = self._next(block, values)
            if following is None:
                return counts
            block, before = following, block
        raise DataDependent(f"{self.function.name}: more than {MOST_STEPS} blocks")

    def _compute(
        self, block: ir.Block, before: ir.Block | None, values: dict[int, int | None], skip_phis: bool = False
    ) -> None:
        arriving: dict[int, int | None] = {}
        for one in self.needed[block.name]:
            if isinstance(one, instr.PhiInstr):
                if not skip_phis:
                    arriving[id(one)] = next(
                        (_value(value, values) for value, source in one.incomings if source is before), None
                    )
                continue
            values.update(arriving)  # all phis of a block change at once
            arriving.clear()
            values[id(one)] = _result(one, values)
        values.update(arriving)

    def _next(self, block: ir.Block, values: Mapping[int, int | None]) -> ir.Block | None:
        end = block.terminator
        if isinstance(end, instr.Branch):
            return end.operands[0]
        if isinstance(end, instr.ConditionalBranch):
            condition = _value(end.operands[0], values)
            if condition is None:
                raise DataDependent(f"{self.function.name}: {block.name}")
            return end.operands[1 if condition else 2]
        if isinstance(end, instr.Ret):
            return None
        raise DataDependent(f"{self.function.name}: {block.name} ends in {type(end).__name__}")


def _control(function: ir.Function) -> set[int]:
    """Everything that a branch depends on, by id."""
    waiting = [b.terminator.operands[0] for b in function.blocks if isinstance(b.terminator, instr.ConditionalBranch)]
    found: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in found or not isinstance(value, instr.Instruction):
            continue
        found.add(id(value))
        if isinstance(value, instr.PhiInstr):
            waiting += [incoming for incoming, _ in value.incomings]
        elif not isinstance(value, (instr.LoadInstr, instr.CallInstr)):
            waiting += list(value.operands)
    return found


def _value(value: ir.Value, values: Mapping[int, int | None]) -> int | None:
    if isinstance(value, ir.Constant):
        return int(value.constant) if isinstance(value.constant, int) else None
    return values.get(id(value))


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b, "ult": lambda a, b: a & _MASK < b & _MASK,
    "ule": lambda a, b: a & _MASK <= b & _MASK, "ugt": lambda a, b: a & _MASK > b & _MASK,
    "uge": lambda a, b: a & _MASK >= b & _MASK,
}  # fmt: skip


def _towards_zero(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


_ARITHMETIC: dict[str, Callable[[int, int], int | None]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b, "ashr": lambda a, b: a >> b,
    "lshr": lambda a, b: (a & _MASK) >> b, "udiv": lambda a, b: a // b if b else None,
    "urem": lambda a, b: a % b if b else None, "sdiv": lambda a, b: _towards_zero(a, b) if b else None,
    "srem": lambda a, b: a - b * _towards_zero(a, b) if b else None,
}  # fmt: skip


def _result(one: instr.Instruction, values: Mapping[int, int | None]) -> int | None:
    """What an integer instruction gives; None where that is not known. Kernels' counters never overflow."""
    if isinstance(one, (instr.LoadInstr, instr.CallInstr)):
        return None
    operands = [_value(operand, values) for operand in one.operands]
    if isinstance(one, instr.SelectInstr):
        return None if operands[0] is None else operands[1 if operands[0] else 2]
    if isinstance(one, instr.CastInstr):
        return operands[0] if one.opname in ("sext", "zext", "trunc") else None
    if len(operands) != 2 or operands[0] is None or operands[1] is None:
        return None
    if isinstance(one, instr.ICMPInstr):
        return int(_COMPARE[one.op](operands[0], operands[1]))
    act = _ARITHMETIC.get(one.opname)
    return None if act is None else act(operands[0], operands[1])
