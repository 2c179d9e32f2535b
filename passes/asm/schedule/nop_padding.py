"""NOP padding: inserts NOPs that keep a software-pipelined kernel on its schedule on an in-order core.

An in-order core issues an op as soon as it can. An op that issues earlier than scheduled, in a slot that the schedule
leaves empty, may delay later ops through an issue rule of the core or a busy unit:

    fmla                        fmla
    (empty)          ->         nop           without it the load issues here, four cycles after another multiply-add,
    ldr  d                      ldr  d        which an A53 forbids, and waits

Source: Arm's kernels for the Cortex-A53, in which NOPs keep loads in their cycles (gemmlowp's standalone/
neon-gemm-kernel-benchmark.cc gives the reason).
"""

from collections.abc import Callable, Sequence

from mavcg.hardware.timing import MissingFact, Timing
from mavcg.passes.asm.isa.op import Op, Schedule
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.models.in_order import steady_cycles
from mavcg.passes.asm.models.issue_constraints import blocked_cycles

NOP = -1  # stands for a NOP in a kernel's order, whose other entries are indices into the body
NOP_INSTR = Instr("nop")
_NOP_OP = Op("nop", "nop")
TRIALS = 16  # maximum of simulations spent on removing needless NOPs


def pad_with_nops(order: Sequence[int], ops: Sequence[Op], timing: Timing, schedule: Schedule) -> tuple[int, ...]:
    """Return a kernel's order with NOPs if they make it faster by the core's model, else the order unchanged.

    order: as modulo.kernel_order returns it, the branch last.
    """
    loose = steady_cycles([ops[i] for i in order], timing)
    if loose <= schedule.interval:
        return tuple(order)
    try:
        timing.of("nop")
    except MissingFact:
        return tuple(order)

    def cycles(kernel: Sequence[int]) -> float:
        return float(steady_cycles(kernel_ops(ops, kernel), timing))

    full = _fill_empty_slots(order, ops, timing, schedule)
    best = cycles(full)
    return _remove_needless_nops(full, cycles, best) if best < loose else tuple(order)


def kernel_ops(ops: Sequence[Op], kernel: Sequence[int]) -> list[Op]:
    """Return the ops of a kernel in its order, NOPs included."""
    return [ops[i] if i != NOP else _NOP_OP for i in kernel]


def _fill_empty_slots(order: Sequence[int], ops: Sequence[Op], timing: Timing, schedule: Schedule) -> tuple[int, ...]:
    """Return the order with a NOP in every slot that the schedule leaves empty."""
    groups: list[list[int]] = [[] for _ in range(schedule.interval)]
    for op in order:
        groups[schedule.cycles[op] % schedule.interval].append(op)
    blocked = narrow = 0  # cycles left in which nothing else issues, and in which a slot less is free
    kernel: list[int] = []
    for group in groups:
        blocked = max(blocked, *(blocked_cycles(ops[op], timing) for op in group), 0)
        ends = [blocked_cycles(ops[op], timing) + timing.of(ops[op].op_class).narrows for op in group]
        narrow = max(narrow, *ends, 0)
        empty = 0 if blocked else max(0, timing.width - len(group) - (narrow > 0))
        branch = [order[-1]] if order[-1] in group else []
        kernel += [*(op for op in group if op not in branch), *[NOP] * empty, *branch]
        blocked, narrow = max(0, blocked - 1), max(0, narrow - 1)
    return tuple(kernel)


def _remove_needless_nops(
    kernel: tuple[int, ...], cycles: Callable[[Sequence[int]], float], most: float
) -> tuple[int, ...]:
    """Remove NOPs while the kernel takes at most `most` cycles: first all at once, then half as many, and so on."""
    trials = TRIALS
    batch = kernel.count(NOP)
    while batch and trials:
        first = 0
        while trials and first < kernel.count(NOP):
            chosen = [at for at, op in enumerate(kernel) if op == NOP][first : first + batch]
            fewer = tuple(op for at, op in enumerate(kernel) if at not in chosen)
            trials -= 1
            if cycles(fewer) <= most:
                kernel = fewer
            else:
                first += batch
        batch //= 2
    return kernel
