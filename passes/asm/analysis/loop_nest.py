"""Finds the loop nest of a function and estimates block frequencies: how often each block runs in a call.

Trip counts that are constants in the code are used as they are; any other loop is assumed to run `ASSUMED_TRIPS` times.

A counted loop has a register that counts, an end and a step, found from the comparison before the branch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.analysis.blocks import Block, Function
from mavcg.passes.asm.analysis.components import strongly_connected
from mavcg.passes.asm.analysis.dependences import Code
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.isa.syntax import ZERO, Imm, Instr, Reg

_ENDS = {"b.ne", "b.lo", "b.cc", "b.lt", "b.hi", "b.gt"}


@dataclass(frozen=True)
class LoopCounter:
    """The counter of a loop: `register` changes by `step` each iteration until it reaches `end`.

    end: the register with the final value; None for 0. up: True if the register is incremented. drop: indices of
    instructions that only control the loop. plain: index -> that instruction in its form that sets no flags. guard:
    mnemonic of the branch that, after a comparison of register and end, is taken when the loop would not count towards
    its end; "" where no guard is needed.
    """

    register: Reg
    end: Reg | None
    step: int
    up: bool
    drop: tuple[int, ...]
    plain: dict[int, Instr]
    guard: str


def loop_counter(code: Sequence[Code]) -> LoopCounter | None:
    """Return the counter that controls the loop's branch; None for a loop that is not a counted loop."""
    last = code[-1].instr
    match last:
        case Instr("cbnz", (Reg() as register, *_)):
            return _stepping_counter(code, register, None, (), "", {})
    if last.mnemonic not in _ENDS:
        return None
    setters = [i for i, c in enumerate(code) if c.effects.writes_flags]
    if not setters or any(c.effects.reads_flags for c in code[setters[-1] : -1]):
        return None
    at = setters[-1]
    setter = code[at].instr
    match setter:
        case Instr("subs", (Reg() as register, source, _)) if register == source:
            guard = {"b.ne": "", "b.hi": "", "b.gt": "b.le"}.get(last.mnemonic)
            if guard is None or register.name == ZERO:
                return None
            # The branch is taken while more than a step is left, unsigned for b.hi, signed for b.gt.
            return _stepping_counter(code, register, None, (), guard, {at: replace(setter, mnemonic="sub")})
        case Instr("cmp", (Reg() as first, Reg() as second)):
            return _compared_counter(code, at, first, second)
    return None


def _compared_counter(code: Sequence[Code], at: int, first: Reg, second: Reg) -> LoopCounter | None:
    """Return the counter of a loop whose branch follows from the comparison of two registers at `at`."""
    branch = code[-1].instr.mnemonic
    written = {r for c in code for r in c.effects.writes()}
    moving, still = (first, second) if second.name not in written else (second, first)
    if still.name in written or moving.name not in written or ZERO in (first.name, second.name):
        return None
    below = {"b.ne": "", "b.lo": "b.hs", "b.cc": "b.hs", "b.lt": "b.ge"}  # goes on while first < second
    above = {"b.ne": "", "b.hi": "b.ls", "b.gt": "b.le"}  # goes on while first > second
    table = below if moving == first else {"b.ne": "", "b.hi": "b.hs", "b.gt": "b.ge"}
    if branch not in table:
        table = above if moving == first else {"b.ne": "", "b.lo": "b.ls", "b.cc": "b.ls", "b.lt": "b.le"}
        if branch not in table:
            return None
        return _stepping_counter(code, moving, still, (at,), table[branch], {}, up=False)
    guard = table[branch]
    return _stepping_counter(code, moving, still, (at,), guard, {}, up=True if guard else None)


def _stepping_counter(
    code: Sequence[Code],
    register: Reg,
    end: Reg | None,
    drop: tuple[int, ...],
    guard: str,
    plain: dict[int, Instr],
    up: bool | None = None,
) -> LoopCounter | None:
    """Return the loop's counter if one add or sub alone changes `register`; None otherwise.

    drop, guard, plain: as in LoopCounter. up: the direction that the counter must have; None for either.
    """
    writers = [i for i, c in enumerate(code) if register.name in c.effects.writes()]
    if len(writers) != 1:
        return None
    at = writers[0]
    instr = plain.get(at, code[at].instr)
    match instr:
        case Instr("add" | "sub" as sign, (to, source, Imm(step))) if to == source == register and step > 0:
            compares = drop[0] if drop else len(code)
            goes_up = sign == "add"
            if at > compares or (end is None and goes_up) or (up is not None and up != goes_up):
                return None
            return LoopCounter(register, end, step, goes_up, drop, plain, guard)
    return None


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
    successors = [block.successors for block in function.blocks]
    predecessors: list[list[int]] = [[] for _ in successors]
    for i, following in enumerate(successors):
        for j in dict.fromkeys(following):
            predecessors[j].append(i)
    groups: list[frozenset[int]] = []
    waiting: list[frozenset[int]] = [frozenset(range(len(successors)))]
    while waiting:
        for group in strongly_connected(successors, waiting.pop(0)):
            if len(group) == 1 and not any(i in successors[i] for i in group):
                continue
            groups.append(group)
            if len(group) == 1:
                continue
            headers = _headers(predecessors, group)
            groups += [frozenset({i}) for i in headers if i in successors[i]]
            waiting.append(group - headers)
    ordered = sorted(groups, key=lambda group: (-len(group), min(group)))
    return tuple(LoopRegion(group, _constant_trips(function, predecessors, group, statements)) for group in ordered)


def block_frequencies(function: Function, statements: Sequence[Statement]) -> tuple[int, ...]:
    """Estimate each block's frequency in a call: the product of the trip counts of the loops around it."""
    runs = [1] * len(function.blocks)
    for loop in loops_of(function, statements):
        for index in loop.blocks:
            runs[index] *= ASSUMED_TRIPS if loop.trips is None else loop.trips
    return tuple(runs)


def _headers(predecessors: Sequence[Sequence[int]], group: frozenset[int]) -> frozenset[int]:
    """Return the blocks through which control enters a loop from outside; its first block if there are none."""
    return frozenset(i for i in group if i == 0 or any(p not in group for p in predecessors[i])) or frozenset(
        {min(group)}
    )


def _constant_trips(
    function: Function, predecessors: Sequence[Sequence[int]], group: frozenset[int], statements: Sequence[Statement]
) -> int | None:
    """Return the trip count of a loop of one block that counts a constant down to 0; None for any other loop."""
    if len(group) != 1:
        return None
    (index,) = group
    before = [i for i in predecessors[index] if i != index]
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
        match instr:
            case Instr("mov" | "movz", (Reg(register), Imm(value))):
                constants[register] = value
    return constants
