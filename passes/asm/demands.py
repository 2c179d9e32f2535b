"""What each op of a loop asks of a core before it issues: results of earlier ops, units, and who issues beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.instr_classes import lineage
from mavcg.passes.asm.op import Op
from mavcg.timing import Timing, UnitUse

Use = tuple[tuple[int, ...], int]  # the units that will do, and the cycles that one of them is busy


@dataclass(frozen=True)
class After:
    """An op may issue `cycles` after op `source` of the same iteration (distance 0) or of the one before (1).

    kind: "register" (it reads what the source writes) or "write order" (it writes it too, and must do so later).
    """

    source: int
    distance: int
    cycles: int
    kind: str
    register: str


@dataclass(frozen=True)
class Demand:
    """What one op asks; other ops of the body by their indices.

    blocks: cycles from its issue in which the core issues nothing else. apart_from: ops that may not share its cycle.
    spaced: (cycles, ops), where it may not issue exactly so many cycles after one of these. first: nothing may issue
    before it in its cycle.
    """

    after: tuple[After, ...]
    uses: tuple[Use, ...]
    blocks: int
    apart_from: frozenset[int]
    spaced: tuple[tuple[int, frozenset[int]], ...]
    first: bool = False


_Beside = tuple[frozenset[int], tuple[tuple[int, frozenset[int]], ...]]


def demands(ops: Sequence[Op], timing: Timing) -> tuple[Demand, ...]:
    """The demands of every op of a loop's body, in order.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when an op needs units that the core
    does not have.
    """
    units = unit_names(timing)
    after = dependences(ops, timing)
    alike: dict[tuple[str, bool], tuple[_Beside, tuple[Use, ...], int, bool]] = {}  # of a class, with write-back or not
    for op in ops:
        kind = op.op_class, op.writeback is None
        if kind not in alike:
            beside = _apart(op, ops, timing), _spaced(op, ops, timing)
            alike[kind] = beside, _uses(op, timing, units), blocked_cycles(op, timing), timing.of(op.op_class).first
    found = []
    for index, op in enumerate(ops):
        (apart, spaced), uses, blocks, first = alike[op.op_class, op.writeback is None]
        found.append(Demand(after[index], uses, blocks, apart, spaced, first))
    return tuple(found)


def dependences(ops: Sequence[Op], timing: Timing) -> tuple[tuple[After, ...], ...]:
    """For each op, the last writers of what it reads and of what it writes, one iteration ago where need be.

    The order of two writes is left out where the later op must wait as long for a result of the earlier one anyway.
    """
    writers: dict[str, list[int]] = {}
    for index, op in enumerate(ops):
        for register in op.writes:
            writers.setdefault(register, []).append(index)
    return tuple(_after(index, ops, timing, writers) for index in range(len(ops)))


def unit_names(timing: Timing) -> tuple[str, ...]:
    """The pool of each single unit: a pool of two is there twice."""
    return tuple(pool for pool, count in timing.pools.items() for _ in range(count))


def matches(op: Op, classes: frozenset[str]) -> bool:
    """Whether a rule that names these classes speaks of this op: of its class or one that it borrows facts from."""
    return any(name in classes for name in lineage(op.op_class))


def unit_uses(op: Op, timing: Timing) -> tuple[UnitUse, ...]:
    """The micro-operations of an op, that of the address register's update included."""
    own = timing.of(op.op_class).units
    return own if op.writeback is None else own + timing.of("writeback").units


def blocked_cycles(op: Op, timing: Timing) -> int:
    """For how many cycles from its issue the op has the core for itself; 0: it shares its cycle."""
    own = timing.of(op.op_class).blocks
    return own if op.writeback is None else max(own, timing.of("writeback").blocks)


def written_as(op: Op, register: str) -> str:
    """The class whose latency a register follows that this op writes."""
    return "writeback" if register == op.writeback else op.op_class


def placed(uses: Sequence[Use], free: Sequence[int], cycle: int) -> list[int] | None:
    """When each unit is free again once every use has a unit of its own from this cycle on; None where that cannot be.

    free: the first cycle in which each unit can start work.
    """
    if not uses:
        return list(free)
    candidates, cycles = uses[0]
    for unit in candidates:
        if free[unit] <= cycle:
            taken = list(free)
            taken[unit] = cycle + cycles
            if (found := placed(uses[1:], taken, cycle)) is not None:
                return found
    return None


def _after(index: int, ops: Sequence[Op], timing: Timing, writers: dict[str, list[int]]) -> tuple[After, ...]:
    op, found = ops[index], []
    for read in op.reads:
        if (last := _last_writer(index, writers.get(read.register, []))) is not None:
            source, distance = last
            cycles = timing.latency(written_as(ops[source], read.register), op.op_class, read.role)
            found.append(After(source, distance, cycles, "register", read.register))
    for register in op.writes:
        if (last := _last_writer(index, writers[register])) is not None:
            source, distance = last
            earlier = timing.of(written_as(ops[source], register)).latency
            own = timing.of(written_as(op, register)).latency
            # Neither before nor with the earlier result; and never in one cycle, however fast both are.
            cycles = max(1, earlier - own + 1)
            if not any((after.source, after.distance) == last and after.cycles >= cycles for after in found):
                found.append(After(source, distance, cycles, "write order", register))
    return tuple(found)


def _last_writer(index: int, writers: list[int]) -> tuple[int, int] | None:
    """The op that wrote last before this one and how many iterations ago; an op may follow itself."""
    if not writers:
        return None
    before = [writer for writer in writers if writer < index]
    return (before[-1], 0) if before else (writers[-1], 1)


def _uses(op: Op, timing: Timing, units: tuple[str, ...]) -> tuple[Use, ...]:
    """The op's micro-operations, those with the least choice of units first."""
    uses = [
        (tuple(unit for unit, pool in enumerate(units) if pool in use.any_of), use.cycles)
        for use in unit_uses(op, timing)
    ]
    uses.sort(key=lambda use: (len(use[0]), use))
    if placed(uses, [0] * len(units), 0) is None:
        raise MavcgError(
            f"cores/{timing.core}.toml: instr.{op.op_class}: `{op.text}` needs more units at once than the core has; "
            "correct its units or the pools' counts"
        )
    return tuple(uses)


def _apart(op: Op, ops: Sequence[Op], timing: Timing) -> frozenset[int]:
    sides = [side for rule in timing.apart for side in ((rule.these, rule.those), (rule.those, rule.these))]
    foes = [theirs for mine, theirs in sides if matches(op, mine)]
    return frozenset(index for index, other in enumerate(ops) if any(matches(other, foe) for foe in foes))


def _spaced(op: Op, ops: Sequence[Op], timing: Timing) -> tuple[tuple[int, frozenset[int]], ...]:
    return tuple(
        (rule.cycles, frozenset(index for index, other in enumerate(ops) if matches(other, rule.first)))
        for rule in timing.spacings
        if matches(op, rule.then)
    )
