"""Simulated cycles of kernels in about a second: some windows of a kernel's rows are timed and stand for all of them.

A job is kernels that run one after the other on the same memory, again and again. A short job runs whole, twice; the
second run counts. Of a long one each kernel's calls are cut into strata of equal length, and in the middle of each some
calls are timed. Before a window the caches see what a run would have touched last: all operands in the kernels' order,
then the part of this kernel's operands that lies before the window; then the calls just before it run. A single call
of very many instructions is sampled itself (sampling.py).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt

from mavcg.simulate.call_arguments import CallState
from mavcg.simulate.harness import library
from mavcg.simulate.run import SimulatedProgram
from mavcg.simulate.sampling import SampledRun, SamplePlan

_NEVER = 1 << 62


@dataclass(frozen=True)
class TouchedMemory:
    """Memory that a kernel reads or writes. by_rows: a part of it for each row; else every row may need all of it."""

    address: int
    bytes: int
    written: bool
    by_rows: bool


@dataclass(frozen=True)
class KernelCalls:
    """A kernel of a job. arguments, scratch: what each call gets beside its rows, which are up to call_rows of them."""

    address: int
    arguments: int
    scratch: int
    rows: int
    call_rows: int
    operands: tuple[TouchedMemory, ...]

    def state(self, begin: int, end: int) -> CallState:
        """Return the arguments of the call for these rows."""
        return CallState((self.arguments, begin, end, self.scratch), (), b"", ())

    def ranges(self) -> list[tuple[int, int]]:
        """Return the rows of each call."""
        return [(begin, min(begin + self.call_rows, self.rows)) for begin in range(0, self.rows, self.call_rows)]


@dataclass(frozen=True)
class WindowPlan:
    """Sizes, in instructions. whole: of a job that runs whole; window, warm: timed calls, and calls before them.

    windows: of a kernel. within: how a call is sampled that is longer than so many windows (long_call).
    """

    whole: int = 1_500_000
    windows: int = 3
    window: int = 250_000
    warm: int = 100_000
    long_call: int = 4
    within: SamplePlan = SamplePlan(units=12, unit=20_000, warm=4_000, functional=300_000)


DEFAULT_PLAN = WindowPlan()


@dataclass(frozen=True)
class WindowEstimate:
    """Cycles of a run of a job. error: their standard error by sampling; 0 where all was timed. timed: instructions."""

    cycles: float
    error: float
    timed: int
    instructions: int


def estimate_cycles(
    program: SimulatedProgram, kernels: Sequence[KernelCalls], limit: int, plan: WindowPlan = DEFAULT_PLAN
) -> WindowEstimate:
    """Return the cycles of a run of these kernels after another like it. limit: instructions of a call.

    Raises: MavcgError where a call does not return.
    """
    kernels = [kernel for kernel in kernels if kernel.rows]
    lengths = [_instructions(program, kernel, limit) for kernel in kernels]
    if sum(lengths) <= plan.whole:
        return _whole(program, kernels, limit)
    cycles, variance, timed = 0.0, 0.0, 0
    for number, (kernel, length) in enumerate(zip(kernels, lengths, strict=True)):
        before = [operand for each in (*kernels[number:], *kernels[:number]) for operand in each.operands]
        found = _windows(program, kernel, length, before, limit, plan)
        cycles, variance, timed = cycles + found.cycles, variance + found.error**2, timed + found.timed
    return WindowEstimate(cycles, sqrt(variance), timed, sum(lengths))


def estimate_after(
    program: SimulatedProgram, kernel: KernelCalls, before: Sequence[TouchedMemory], limit: int,
    plan: WindowPlan = DEFAULT_PLAN,
) -> WindowEstimate:  # fmt: skip
    """Return the cycles of a kernel that finds the caches as others left them, which touched this memory in order.

    The branch predictor has seen the kernel. limit: instructions of a call. Raises: MavcgError where a call does not
    return.
    """
    length = _instructions(program, kernel, limit)
    if length > plan.whole:
        return _windows(program, kernel, length, before, limit, plan)
    cycles = instructions = 0
    for _ in range(2):
        _touch_before(program, kernel, before, 0.0)
        cycles = instructions = 0
        for begin, end in kernel.ranges():
            counts = program.call(kernel.address, kernel.state(begin, end), limit)
            cycles, instructions = cycles + counts.cycles, instructions + counts.instructions
    return WindowEstimate(float(cycles), 0.0, instructions, instructions)


def _instructions(program: SimulatedProgram, kernel: KernelCalls, limit: int) -> int:
    """Return a kernel's instructions: all calls but the last one are taken to have as many as the first."""
    ranges = kernel.ranges()
    first = _of_call(program, kernel, ranges[0], limit)
    return first if len(ranges) == 1 else first * (len(ranges) - 1) + _of_call(program, kernel, ranges[-1], limit)


def _of_call(program: SimulatedProgram, kernel: KernelCalls, rows: tuple[int, int], limit: int) -> int:
    """Return the instructions of a call, which is not timed."""
    run = SampledRun(program.simulation, SamplePlan())
    program.call(kernel.address, kernel.state(*rows), limit)
    run.end_part()
    return run.parts[0].instructions


def _time_all(program: SimulatedProgram) -> None:
    library().sim_sampling(program.simulation, 0, 0, 0, 0, 0, 0)


def _whole(program: SimulatedProgram, kernels: Sequence[KernelCalls], limit: int) -> WindowEstimate:
    _time_all(program)
    cycles = instructions = 0
    for _ in range(2):
        cycles = instructions = 0
        for kernel in kernels:
            for begin, end in kernel.ranges():
                counts = program.call(kernel.address, kernel.state(begin, end), limit)
                cycles, instructions = cycles + counts.cycles, instructions + counts.instructions
    return WindowEstimate(float(cycles), 0.0, instructions, instructions)


def _windows(
    program: SimulatedProgram, kernel: KernelCalls, length: int, before: Sequence[TouchedMemory], limit: int,
    plan: WindowPlan,
) -> WindowEstimate:  # fmt: skip
    """Return the estimate of one kernel. length: its instructions. before: what was touched last, in order."""
    ranges = kernel.ranges()
    of_a_call = max(1.0, length / len(ranges))
    each, warm = (max(1, round(size / of_a_call)) for size in (plan.window, plan.warm))
    starts = _starts(len(ranges), each, plan.windows)
    windows: list[tuple[float, int]] = []  # cycles and instructions
    timed, error = 0, 0.0
    for start in starts:
        calls = ranges[start : start + each] if len(starts) > 1 else ranges
        _touch_before(program, kernel, before, calls[0][0] / kernel.rows)
        if of_a_call > plan.long_call * plan.window:
            cycles, instructions, measured, of_calls = _within(program, kernel, calls, limit, plan.within)
            error = hypot(error, of_calls * length / instructions / len(starts))
        else:
            _time_all(program)
            for begin, end in ranges[max(0, start - warm) : start]:
                program.call(kernel.address, kernel.state(begin, end), limit)
            counts = [program.call(kernel.address, kernel.state(begin, end), limit) for begin, end in calls]
            cycles = float(sum(c.cycles for c in counts))
            instructions = measured = sum(c.instructions for c in counts)
        windows.append((cycles, instructions))
        timed += measured
    rates = [cycles / instructions for cycles, instructions in windows]
    if len(rates) > 1:
        error = hypot(error, statistics.stdev(rates) / sqrt(len(rates)) * length)
    total = sum(cycles for cycles, _ in windows) / sum(instructions for _, instructions in windows) * length
    return WindowEstimate(total, error, timed, length)


def _starts(calls: int, each: int, windows: int) -> list[int]:
    """Return the first call of each window, in the middle of its stratum; one window of all where they are not more."""
    if each * windows >= calls:
        return [0]
    return [max(0, (2 * n + 1) * calls // (2 * windows) - each // 2) for n in range(windows)]


def _within(
    program: SimulatedProgram, kernel: KernelCalls, calls: Sequence[tuple[int, int]], limit: int, plan: SamplePlan
) -> tuple[float, int, int, float]:
    """Return the cycles of long calls, each of them sampled, their instructions, those timed, the standard error."""
    cycles, instructions, timed, error = 0.0, 0, 0, 0.0
    for rows in calls:
        length = _of_call(program, kernel, rows, limit)
        run = SampledRun(program.simulation, plan, [length])
        program.call(kernel.address, kernel.state(*rows), limit)
        run.end_part()
        cycles, timed = cycles + run.parts[0].cycles, timed + run.parts[0].measured
        instructions, error = instructions + length, hypot(error, run.parts[0].error)
    return cycles, instructions, timed, error


def _touch_before(
    program: SimulatedProgram, kernel: KernelCalls, before: Sequence[TouchedMemory], fraction: float
) -> None:
    """Let the caches see what was touched before a kernel, and its own operands up to this fraction of its rows.

    What every row may need has been seen once the first rows are done.
    """
    _time_all(program)
    last_level = max((level.size for level in program.core.levels), default=0) if program.core is not None else 0
    for operand in before:
        _touch(program, operand, operand.bytes, last_level)
    for operand in kernel.operands if fraction else ():
        _touch(program, operand, round(operand.bytes * fraction) if operand.by_rows else operand.bytes, last_level)
    library().sim_settle(program.simulation)


def _touch(program: SimulatedProgram, operand: TouchedMemory, size: int, last_level: int) -> None:
    """Read or write the first bytes of an operand; of more than two last levels, the end: the rest is gone again."""
    skipped = max(0, size - 2 * last_level)
    address, size = operand.address + skipped, size - skipped
    if size > 0:
        source, target = (0, address) if operand.written else (address, 0)
        library().sim_callee(program.simulation, source, target, size)
