"""Computes the issue constraints of the ops of a loop: operands to wait for, units to occupy, rules of dual issue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mavcg.errors import MavcgError
from mavcg.hardware.instr_classes import lineage
from mavcg.hardware.timing import Timing, UnitUse
from mavcg.passes.asm.isa.op import Op

Use = tuple[tuple[int, ...], int]  # a micro-operation: the units that can execute it, and the cycles that it takes


class Dependence(NamedTuple):
    """A dependence on op `source` of the same iteration (distance 0) or of the previous one (1).

    The dependent op may issue `cycles` cycles after the source at the earliest. kind: "register" (it reads the register
    that the source writes) or "write order" (it writes the same register, and must do so later).
    """

    source: int
    distance: int
    cycles: int
    kind: str
    register: str


@dataclass(frozen=True)
class IssueConstraints:
    """The issue constraints of one op; ops are given by their indices in the body.

    dependences: ops that it waits for. uses: its micro-operations. blocks: cycles from its issue in which the core
    issues nothing else. no_dual_issue: ops that may not issue in the same cycle. forbidden_distances: (cycles, ops): it
    may not issue exactly `cycles` cycles after one of `ops`. first: it issues in the first slot of a cycle only.
    queued: it may wait in the core's queue of vector instructions. last: although it blocks, it issues beside an
    earlier op. narrows: cycles after those that it blocks in which it takes one slot.
    """

    dependences: tuple[Dependence, ...]
    uses: tuple[Use, ...]
    blocks: int
    no_dual_issue: frozenset[int]
    forbidden_distances: tuple[tuple[int, frozenset[int]], ...]
    first: bool = False
    queued: bool = False
    last: bool = False
    narrows: int = 0


_Beside = tuple[frozenset[int], tuple[tuple[int, frozenset[int]], ...]]


def issue_constraints(ops: Sequence[Op], timing: Timing) -> tuple[IssueConstraints, ...]:
    """Return the issue constraints of every op of a loop's body, in order.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when an op needs units that the core
    does not have.
    """
    units = unit_names(timing)
    dependences = op_dependences(ops, timing)
    indices_of: dict[str, list[int]] = {}
    for index, op in enumerate(ops):
        indices_of.setdefault(op.op_class, []).append(index)
    by_kind: dict[tuple[str, bool, bool], tuple[_Beside, tuple[Use, ...], int]] = {}
    constraints = []
    for op, earlier in zip(ops, dependences, strict=True):
        kind = _kind(op)
        if kind not in by_kind:
            beside = _no_dual_issue(op, indices_of, timing), _forbidden_distances(op, indices_of, timing)
            by_kind[kind] = beside, _uses(op, timing, units), blocked_cycles(op, timing)
        (excluded, distances), uses, blocks = by_kind[kind]
        own = timing.of(op.op_class)
        queued = timing.vector_queue > 0 and touches_vectors(op)
        slots = own.first, queued, own.last, own.narrows
        constraints.append(IssueConstraints(earlier, uses, blocks, excluded, distances, *slots))
    return tuple(constraints)


def _kind(op: Op) -> tuple[str, bool, bool]:
    """Return the properties that decide an op's units and rules: its class, if it has no writeback, if unaligned."""
    return op.op_class, op.writeback is None, op.unaligned


def op_dependences(ops: Sequence[Op], timing: Timing) -> tuple[tuple[Dependence, ...], ...]:
    """Return each op's dependences on the last writers, in this or the previous iteration, of its registers.

    A "write order" dependence is left out if the op must wait as long for a result of the same writer anyway.
    """
    # The last writer of each register: at first that of the previous iteration, then that of this one.
    last = {register: (index, 1) for index, op in enumerate(ops) for register in op.writes}
    # The last op before this one that ends the reach of adjacent forwardings.
    accumulating = [index for index, op in enumerate(ops) if timing.accumulates(op.op_class)]
    before = (accumulating[-1], 1) if accumulating else None
    dependences = []
    for index, op in enumerate(ops):
        dependences.append(_after(op, ops, timing, last, before))
        for register in op.writes:
            last[register] = index, 0
        if timing.accumulates(op.op_class):
            before = index, 0
    return tuple(dependences)


def unit_names(timing: Timing) -> tuple[str, ...]:
    """Return the pool name of each unit: a pool of two units appears twice."""
    return tuple(pool for pool, count in timing.pools.items() for _ in range(count))


def matches(op_class: str, classes: frozenset[str]) -> bool:
    """True if a rule over these classes applies to `op_class`: they contain it or a class that it takes facts from."""
    return not classes.isdisjoint(lineage(op_class))


def unit_uses(op: Op, timing: Timing) -> tuple[UnitUse, ...]:
    """Return the micro-operations of an op, the update of its address register included."""
    own = timing.of(op.op_class).units
    if op.unaligned and (more := timing.of(op.op_class).unaligned):
        own = tuple(replace(use, cycles=use.cycles + more) for use in own)
    return own if op.writeback is None else own + timing.of("writeback").units


def blocked_cycles(op: Op, timing: Timing) -> int:
    """Return for how many cycles from its issue an op keeps the core from issuing others; 0 if it may dual-issue."""
    own = timing.of(op.op_class).blocks
    own += timing.of(op.op_class).unaligned if op.unaligned and own else 0
    return own if op.writeback is None else max(own, timing.of("writeback").blocks)


def lone_cycles(op: Op, timing: Timing) -> int:
    """Return for how many cycles no other op can issue, whatever the order: one less if it may end a cycle."""
    return blocked_cycles(op, timing) - timing.of(op.op_class).last


def touches_vectors(op: Op) -> bool:
    """True if an op reads or writes a vector register, loads and stores of them included."""
    registers = (*(read.register for read in op.reads), *op.writes)
    return any(register.startswith("v") for register in registers)


def latency_class(op: Op, register: str) -> str:
    """Return the class whose latency applies to a register that this op writes."""
    return "writeback" if register == op.writeback else op.op_class


def assign_units(uses: Sequence[Use], free: Sequence[int], cycle: int) -> list[int] | None:
    """Assign a unit to every use from `cycle` on; return when each unit becomes free, or None if a use gets no unit.

    free: the first cycle in which each unit can start work.
    """
    if not uses:
        return list(free)
    candidates, cycles = uses[0]
    others = uses[1:]
    for unit in candidates:
        if free[unit] <= cycle:
            taken = list(free)
            taken[unit] = cycle + cycles
            after = assign_units(others, taken, cycle) if others else taken
            if after is not None:
                return after
    return None


def _after(
    op: Op,
    ops: Sequence[Op],
    timing: Timing,
    last: Mapping[str, tuple[int, int]],
    accumulated: tuple[int, int] | None,
) -> tuple[Dependence, ...]:
    """Return the dependences of one op. last: (op, distance) of each register's last writer. accumulated: the same of
    the last op that accumulates, which alone may forward to an adjacent one.
    """
    dependences: list[Dependence] = []
    for read in op.reads:
        if (writer := last.get(read.register)) is not None and not timing.independent(op.op_class, read.role):
            source, distance = writer
            made_by = latency_class(ops[source], read.register)
            cycles = timing.latency(made_by, op.op_class, read.role, adjacent=writer == accumulated)
            dependences.append(Dependence(source, distance, cycles, "register", read.register))
    for register in op.writes:
        if (writer := last.get(register)) is not None:
            source, distance = writer
            earlier = timing.of(latency_class(ops[source], register)).latency
            own = timing.of(latency_class(op, register)).latency
            cycles = timing.write_order(earlier, own)
            if not any((after.source, after.distance) == writer and after.cycles >= cycles for after in dependences):
                dependences.append(Dependence(source, distance, cycles, "write order", register))
    return tuple(dependences)


def _uses(op: Op, timing: Timing, units: tuple[str, ...]) -> tuple[Use, ...]:
    """Return the op's micro-operations, those that can use the fewest units first."""
    uses = [
        (tuple(unit for unit, pool in enumerate(units) if pool in use.any_of), use.cycles)
        for use in unit_uses(op, timing)
    ]
    uses.sort(key=lambda use: (len(use[0]), use))
    if assign_units(uses, [0] * len(units), 0) is None:
        raise MavcgError(
            f"cores/{timing.core}.toml: instr.{op.op_class}: `{op.text}` needs more units at once than the core has; "
            "correct its units or the pools' counts"
        )
    return tuple(uses)


def _no_dual_issue(op: Op, indices_of: Mapping[str, Sequence[int]], timing: Timing) -> frozenset[int]:
    """Return the indices of the ops that never issue in the same cycle as this one. indices_of: class -> its ops."""
    sides = [side for rule in timing.no_dual_issue for side in ((rule.these, rule.those), (rule.those, rule.these))]
    excluded = [classes for own, classes in sides if matches(op.op_class, own)]
    return frozenset[int]().union(*(_indices_matching(classes, indices_of) for classes in excluded))


def _forbidden_distances(
    op: Op, indices_of: Mapping[str, Sequence[int]], timing: Timing
) -> tuple[tuple[int, frozenset[int]], ...]:
    """Return (cycles, ops): this op may not issue that many cycles after any of them. indices_of: class -> its ops."""
    return tuple(
        (rule.cycles, _indices_matching(rule.first, indices_of))
        for rule in timing.forbidden_distances
        if matches(op.op_class, rule.then)
    )


def _indices_matching(classes: frozenset[str], indices_of: Mapping[str, Sequence[int]]) -> frozenset[int]:
    return frozenset(index for name, indices in indices_of.items() if matches(name, classes) for index in indices)
