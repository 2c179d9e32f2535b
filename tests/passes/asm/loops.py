"""Shared by the scheduler tests: two small cores, loops, edges from registers, and a checker of their own."""

from collections.abc import Sequence

from mavcg.hardware.instr_classes import lineage
from mavcg.hardware.timing import ClassTiming, ForbiddenDistance, NoDualIssue, Timing, UnitUse
from mavcg.passes.asm.isa.op import Edge, Op, RegisterRead, Schedule


def _class(name: str, latency: int, *pools: str, cycles: int = 1, blocks: int = 0) -> ClassTiming:
    return ClassTiming(name, latency, 1.0, tuple(UnitUse((pool,), cycles) for pool in pools), blocks)


def _timing(core: str, **more: tuple[NoDualIssue, ...] | tuple[ForbiddenDistance, ...]) -> Timing:
    classes = [
        _class("fmla_q", 4, "fp", "fp"),
        _class("fmla_lane_q", 4, "fp", "fp"),
        _class("fadd_q", 4, "fp", "fp"),
        _class("fmadd_s", 4, "fp"),
        _class("ldr_d", 3, "load"),
        _class("ldr_x", 3, "load"),
        _class("ldr_q", 3, "load", blocks=2),
        _class("str_q", 1, "store"),
        _class("ins", 2),
        _class("alu", 1, "alu"),
        _class("div_x", 12, "alu", cycles=6),
        _class("branch", 1, "branch"),
    ]
    return Timing(
        core=core,
        order="in",
        width=2,
        pools={"load": 1, "store": 1, "alu": 2, "fp": 2, "branch": 1},
        classes={fact.name: fact for fact in classes},
        forwards={("ldr_x", "ins", ""): 4},
        **more,  # type: ignore[arg-type]
    )


MULTIPLY = frozenset({"fmla_q", "fmla_lane_q"})
LIKE_A55 = _timing("like-a55")
LIKE_A53 = _timing(
    "like-a53",
    no_dual_issue=(
        NoDualIssue(MULTIPLY, frozenset({"ldr_d"}), "test"),
        NoDualIssue(MULTIPLY, frozenset({"ins"}), "test"),
    ),
    forbidden_distances=(ForbiddenDistance(MULTIPLY, frozenset({"ldr_d"}), 4, "test"),),
)


def op(op_class: str, writes: str = "", *reads: str) -> Op:
    """op("ins", "v0", "v0/acc", "x8"): registers separated by blanks, a role after a slash."""
    read = tuple(RegisterRead(*register.split("/")) for register in reads)
    return Op(f"{op_class} {writes} <- {' '.join(reads)}", op_class, read, tuple(writes.split()))


def edges_of(ops: Sequence[Op], timing: Timing, loop: bool = True) -> list[Edge]:
    """Read after write with its latency, write after read 0, write after write 1; across the back edge in a loop."""
    count = len(ops)
    stream = [*ops, *ops] if loop else list(ops)
    found = []
    for source, first in enumerate(ops):
        end = source + count + 1 if loop else count
        read = {operand.register for operand in first.reads}
        for register in sorted(read | set(first.writes)):
            for at in range(source + 1, end):
                then, distance = stream[at], at // count
                if register in first.writes:
                    for operand in then.reads:
                        if operand.register == register:
                            cycles = timing.latency(first.op_class, then.op_class, operand.role)
                            found.append(Edge(source, at % count, cycles, distance))
                if register in then.writes:
                    found.append(Edge(source, at % count, 1 if register in first.writes else 0, distance))
                    break
    return found


def outer_product(rows: int, cols: int, unroll: int = 1, scratch: int = 4) -> list[Op]:
    """C[rows][cols] += a * b in f32, q loads split: ldr d, ldr x and ins each; the pointers, the counter, the branch.

    Each unrolled step has its own registers for a and b; its loads take their addresses from x0 and x1, moved once.
    """
    ops: list[Op] = []
    halves = 0
    for step in range(unroll):
        for base, quads in (("x0", rows // 4), ("x1", cols // 4)):
            for quad in range(quads):
                into, by = f"{'a' if base == 'x0' else 'b'}{step}.{quad}", f"s{halves % scratch}"
                halves += 1
                ops.append(op("ldr_d", into, f"{base}/addr"))
                ops.append(op("ldr_x", by, f"{base}/addr"))
                ops.append(op("ins", into, f"{into}/acc", by))
        for row in range(rows):
            for quad in range(cols // 4):
                acc = f"c{row}.{quad}"
                ops.append(op("fmla_lane_q", acc, f"{acc}/acc", f"b{step}.{quad}", f"a{step}.{row // 4}"))
    ops += [op("alu", "x0", "x0"), op("alu", "x1", "x1"), op("alu", "x2 nzcv", "x2"), op("branch", "", "nzcv")]
    return ops


def complaints(schedule: Schedule, ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, last: int) -> list[str]:
    """Return the faults of a schedule of a loop, found by running many iterations of it cycle by cycle."""
    interval, found = schedule.interval, []
    if schedule.cycles[last] != interval - 1:
        found.append("the branch is not at the end of stage 0")
    if min(schedule.cycles) < 0:
        found.append("an op before cycle 0")
    kernel = sorted(
        range(len(ops)),
        key=lambda i: (schedule.cycles[i] % interval, i == last, -(schedule.cycles[i] // interval), i),
    )
    rounds = max(schedule.cycles) // interval + 1 + 12
    # The stream that the emitted code issues, and when: kernel n runs op i of iteration n - stage.
    stages = [cycle // interval for cycle in schedule.cycles]
    stream = [(n - stages[i], i) for n in range(rounds) for i in kernel if n >= stages[i]]
    order = {instance: at for at, instance in enumerate(stream)}
    when = {(n, i): n * interval + schedule.cycles[i] for n, i in stream}
    for edge in edges:
        for n in range(4):
            source, target = (n, edge.source), (n + edge.distance, edge.target)
            if when[target] < when[source] + edge.latency:
                found.append(f"{edge} is short")
            if source != target and order[target] < order[source]:
                found.append(f"{edge} is out of order")
    return found + cycle_complaints([(when[n, i], ops[i]) for n, i in stream], timing)


def cycle_complaints(issued: Sequence[tuple[int, Op]], timing: Timing) -> list[str]:
    """Return the violations of the core's limits in single cycles; (cycle, op) in any order."""
    found = []
    by_cycle: dict[int, list[Op]] = {}
    busy: dict[int, list[tuple[str, ...]]] = {}
    for cycle, one in issued:
        by_cycle.setdefault(cycle, []).append(one)
        for use in timing.of(one.op_class).units:
            for at in range(cycle, cycle + use.cycles):
                busy.setdefault(at, []).append(use.any_of)
    for cycle, here in by_cycle.items():
        if len(here) > timing.width:
            found.append(f"cycle {cycle}: {len(here)} ops")
        for one in here:
            blocks = timing.of(one.op_class).blocks
            company = sum(len(by_cycle.get(at, [])) for at in range(cycle, cycle + blocks))
            if blocks and company > 1:
                found.append(f"cycle {cycle}: {one.op_class} is not alone")
        for rule in timing.no_dual_issue:
            for a, first in enumerate(here):
                for b, then in enumerate(here):
                    if a != b and _is(first, rule.these) and _is(then, rule.those):
                        found.append(f"cycle {cycle}: {first.op_class} beside {then.op_class}")
        for spacing in timing.forbidden_distances:
            for first in here:
                for then in by_cycle.get(cycle + spacing.cycles, []):
                    if _is(first, spacing.first) and _is(then, spacing.then):
                        found.append(f"cycle {cycle}: {first.op_class} too near to {then.op_class}")
    found += [f"cycle {cycle}: {uses} find no units" for cycle, uses in busy.items() if not _served(uses, timing)]
    return found


def _is(one: Op, classes: frozenset[str]) -> bool:
    return any(name in classes for name in lineage(one.op_class))


def _served(uses: Sequence[tuple[str, ...]], timing: Timing) -> bool:
    """True if each of these finds a unit of its own, by backtracking."""

    def serve(rest: Sequence[tuple[str, ...]], free: dict[str, int]) -> bool:
        if not rest:
            return True
        return any(free[pool] and serve(rest[1:], {**free, pool: free[pool] - 1}) for pool in rest[0])

    return serve(uses, dict(timing.pools))
