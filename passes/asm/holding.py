"""Nops that hold a kernel to its schedule on an in-order core.

Such a core issues an op as soon as it can. One that could go earlier than its schedule has it, into a slot that was
left empty, may then bring a rule or a unit into the way of those after it:

    fmla                        fmla
    (empty)          ->         nop           else the load goes here, beside a multiply-add that ...
    ldr  d, ins                 ldr  d, ins

Source: Arm's kernels for the Cortex-A53, in which nops hold loads in their cycles (gemmlowp's standalone/
neon-gemm-kernel-benchmark.cc says why).
"""

from collections.abc import Callable, Sequence

from mavcg.passes.asm.demands import blocked_cycles
from mavcg.passes.asm.inorder import steady_cycles
from mavcg.passes.asm.op import Op, Schedule
from mavcg.passes.asm.syntax import Instr
from mavcg.timing import MissingFact, Timing

NOP = -1  # in a kernel's order: no op of the body
NOP_INSTR = Instr("nop")
_NOP_OP = Op("nop", "nop")
TRIALS = 16  # simulations at most to find nops that are not needed


def held(order: Sequence[int], ops: Sequence[Op], timing: Timing, schedule: Schedule) -> tuple[int, ...]:
    """A kernel's order with nops where they make it faster by the model, else as it is.

    order: as modulo.kernel_order, the branch last.
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

    full = _filled(order, ops, timing, schedule)
    best = cycles(full)
    return _without_needless(full, cycles, best) if best < loose else tuple(order)


def kernel_ops(ops: Sequence[Op], kernel: Sequence[int]) -> list[Op]:
    """The ops that a kernel runs, in its order."""
    return [ops[i] if i != NOP else _NOP_OP for i in kernel]


def _filled(order: Sequence[int], ops: Sequence[Op], timing: Timing, schedule: Schedule) -> tuple[int, ...]:
    """The order with a nop in every slot that the schedule leaves empty."""
    groups: list[list[int]] = [[] for _ in range(schedule.interval)]
    for op in order:
        groups[schedule.cycles[op] % schedule.interval].append(op)
    blocked = 0
    kernel: list[int] = []
    for group in groups:
        blocked = max(blocked, *(blocked_cycles(ops[op], timing) for op in group), 0)
        empty = 0 if blocked else timing.width - len(group)
        branch = [order[-1]] if order[-1] in group else []
        kernel += [*(op for op in group if op not in branch), *[NOP] * empty, *branch]
        blocked = max(0, blocked - 1)
    return tuple(kernel)


def _without_needless(
    kernel: tuple[int, ...], cycles: Callable[[Sequence[int]], float], most: float
) -> tuple[int, ...]:
    """The kernel with fewer nops, in no more than `most` cycles: many are tried at once, then fewer."""
    trials = TRIALS
    some = kernel.count(NOP)
    while some and trials:
        first = 0
        while trials and first < kernel.count(NOP):
            chosen = [at for at, op in enumerate(kernel) if op == NOP][first : first + some]
            fewer = tuple(op for at, op in enumerate(kernel) if at not in chosen)
            trials -= 1
            if cycles(fewer) <= most:
                kernel = fewer
            else:
                first += some
        some //= 2
    return kernel
