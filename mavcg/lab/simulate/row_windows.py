"""Estimate the simulated cycles of a job's kernels in about a second, by stratified sampling of their calls.

A job is a sequence of kernels on the same memory that is run repeatedly. A short job is simulated whole, twice, and the
second run counts. In a long job each kernel's calls are cut into strata of equal length, and a window of calls in the
middle of each stratum is timed. Before a window, the last calls before it are simulated, which may be those of the
kernels before this one; before these, the caches are warmed with the accesses that a run makes: all operands in the
kernels' order, then this kernel's operands up to the first such call. A single call with very many instructions is
itself sampled (sampling.py).
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot, sqrt

from mavcg.lab.simulate.call_arguments import CallState
from mavcg.lab.simulate.harness import library
from mavcg.lab.simulate.sampling import SampledRun, SamplePlan
from mavcg.lab.simulate.simulated_program import SimulatedProgram

_NEVER = 1 << 62


@dataclass(frozen=True)
class TouchedMemory:
    """Memory that a kernel reads or writes.

    address, bytes: start and size. by_rows: True if each row accesses a part of its own; False if each row may access
    all of it, such as weights.
    """

    address: int
    bytes: int
    written: bool
    by_rows: bool


@dataclass(frozen=True)
class KernelCalls:
    """A kernel of a job with the arguments of its calls.

    address: of its code. arguments: address of the array of its operands' pointers. scratch: address of its scratch
    memory. rows: rows of work; each call computes at most call_rows. operands: memory that all calls together access.
    """

    address: int
    arguments: int
    scratch: int
    rows: int
    call_rows: int
    operands: tuple[TouchedMemory, ...]

    def state(self, begin: int, end: int) -> CallState:
        """Return the registers at the call that computes rows begin to end - 1."""
        return CallState((self.arguments, begin, end, self.scratch), (), b"", ())

    def ranges(self) -> list[tuple[int, int]]:
        """Return the rows of each call, as (first row, end) with the end excluded."""
        return [(begin, min(begin + self.call_rows, self.rows)) for begin in range(0, self.rows, self.call_rows)]


@dataclass(frozen=True)
class WindowPlan:
    """Sizes of the samples, in instructions unless noted otherwise.

    whole: largest job that is simulated whole. windows: number of windows of a kernel. window: length of a window,
    rounded to whole calls. warm: length of the calls simulated before a window and not counted, rounded so too.
    long_call: a call longer than this number of windows is itself sampled. within: sampling plan of such a call.
    """

    whole: int = 1_500_000
    windows: int = 3
    window: int = 250_000
    warm: int = 100_000
    long_call: int = 4
    within: SamplePlan = SamplePlan(units=12, unit=20_000, warm=4_000, functional=300_000)

    def samples(self, call: float) -> bool:
        """True if a call of so many instructions is itself sampled."""
        return call > self.long_call * self.window


DEFAULT_PLAN = WindowPlan()


@dataclass(frozen=True)
class WindowEstimate:
    """Estimated cycles of one run of a job or kernel.

    error: standard error of the cycles by sampling; 0 if every instruction was timed. timed: number of timed
    instructions. instructions: number of all instructions.
    """

    cycles: float
    error: float
    timed: int
    instructions: int


def estimate_cycles(
    program: SimulatedProgram, kernels: Sequence[KernelCalls], limit: int, plan: WindowPlan = DEFAULT_PLAN
) -> WindowEstimate:
    """Estimate the cycles of one run of a job, after an earlier run of the same job.

    limit: maximum instructions of a call. Raises: MavcgError if a call does not return within the limit.
    """
    kernels = [kernel for kernel in kernels if kernel.rows]
    lengths = [_instructions(program, kernel, limit) for kernel in kernels]
    if sum(lengths) <= plan.whole:
        return _whole(program, kernels, limit)
    cycles, variance, timed = 0.0, 0.0, 0
    job = [_Measured(kernel, length) for kernel, length in zip(kernels, lengths, strict=True)]
    for number, measured in enumerate(job):

        def warm(start: int, number: int = number) -> None:
            _warm_up(program, [*job[number:], *job[: number + 1]], start, limit, plan)

        estimate = _windows(program, measured, warm, limit, plan)
        cycles, variance, timed = cycles + estimate.cycles, variance + estimate.error**2, timed + estimate.timed
    return WindowEstimate(cycles, sqrt(variance), timed, sum(lengths))


def estimate_after(
    program: SimulatedProgram,
    kernel: KernelCalls,
    before: Sequence[TouchedMemory],
    limit: int,
    plan: WindowPlan = DEFAULT_PLAN,
) -> WindowEstimate:
    """Estimate the cycles of a kernel whose caches hold what other kernels left there.

    before: memory that the other kernels accessed, in the order of access. The branch predictor is trained on the
    kernel. limit: maximum instructions of a call.
    Raises: MavcgError if a call does not return within the limit.
    """
    length = _instructions(program, kernel, limit)
    if length > plan.whole:
        measured = _Measured(kernel, length)
        return _windows(
            program, measured, lambda start: _warm_up(program, [measured], start, limit, plan, before), limit, plan
        )
    for _ in range(2):
        _touch_before(program, kernel, before, 0.0)
        cycles, instructions = _time_calls(program, kernel, kernel.ranges(), limit)
    return WindowEstimate(float(cycles), 0.0, instructions, instructions)


def _instructions(program: SimulatedProgram, kernel: KernelCalls, limit: int) -> int:
    """Return the dynamic instructions of a kernel, from its first and last call; the others count as the first."""
    ranges = kernel.ranges()
    first = _of_call(program, kernel, ranges[0], limit)
    return first if len(ranges) == 1 else first * (len(ranges) - 1) + _of_call(program, kernel, ranges[-1], limit)


def _of_call(program: SimulatedProgram, kernel: KernelCalls, rows: tuple[int, int], limit: int) -> int:
    """Run a call without timing it, and return its dynamic instructions."""
    run = SampledRun(program.simulation, SamplePlan())
    program.call(kernel.address, kernel.state(*rows), limit)
    run.end_part()
    return run.parts[0].instructions


def _time_all(program: SimulatedProgram) -> None:
    library().sim_sampling(program.simulation, 0, 0, 0, 0, 0, 0)


def _time_calls(
    program: SimulatedProgram, kernel: KernelCalls, calls: Sequence[tuple[int, int]], limit: int
) -> tuple[int, int]:
    """Run these calls of a kernel, given by their rows; return cycles and instructions of all."""
    counts = [program.call(kernel.address, kernel.state(*rows), limit) for rows in calls]
    return sum(each.cycles for each in counts), sum(each.instructions for each in counts)


def _whole(program: SimulatedProgram, kernels: Sequence[KernelCalls], limit: int) -> WindowEstimate:
    _time_all(program)
    for _ in range(2):
        counts = [_time_calls(program, kernel, kernel.ranges(), limit) for kernel in kernels]
    instructions = sum(number for _, number in counts)
    return WindowEstimate(float(sum(cycles for cycles, _ in counts)), 0.0, instructions, instructions)


@dataclass(frozen=True)
class _Measured:
    """A kernel with its dynamic instructions."""

    kernel: KernelCalls
    length: int

    @property
    def of_a_call(self) -> float:
        """Instructions of a call, at least 1."""
        return max(1.0, self.length / len(self.kernel.ranges()))


def _windows(
    program: SimulatedProgram, measured: _Measured, warm_up: Callable[[int], None], limit: int, plan: WindowPlan
) -> WindowEstimate:
    """Estimate the cycles of one kernel from windows of its calls.

    warm_up: brings the caches into the state before a call, by its number.
    """
    kernel, length, ranges = measured.kernel, measured.length, measured.kernel.ranges()
    window_calls = max(1, round(plan.window / measured.of_a_call))
    starts = window_starts(len(ranges), window_calls, plan.windows)
    windows: list[tuple[float, int]] = []  # cycles and instructions
    timed, error = 0, 0.0
    for start in starts:
        calls = ranges[start : start + window_calls] if len(starts) > 1 else ranges
        warm_up(start)
        if plan.samples(measured.of_a_call):
            cycles, instructions, sampled, of_calls = _sample_calls(program, kernel, calls, limit, plan.within)
            error = hypot(error, of_calls * length / instructions / len(starts))
            timed += sampled
        else:
            cycles, instructions = _time_calls(program, kernel, calls, limit)
            timed += instructions
        windows.append((cycles, instructions))
    rates = [cycles / instructions for cycles, instructions in windows]
    if len(rates) > 1:
        error = hypot(error, statistics.stdev(rates) / sqrt(len(rates)) * length)
    total = sum(cycles for cycles, _ in windows) / sum(instructions for _, instructions in windows) * length
    return WindowEstimate(total, error, timed, length)


def _warm_up(
    program: SimulatedProgram,
    order: Sequence[_Measured],
    start: int,
    limit: int,
    plan: WindowPlan,
    before: Sequence[TouchedMemory] = (),
) -> None:
    """Bring the caches into the state before call number `start` of the last of these kernels.

    order: kernels that run one after the other; the first may be the last one's run before, of which the calls from
    `start` on precede. before: memory accessed before them. Calls that are sampled themselves are not simulated here.
    """
    left, number, first = float(plan.warm), len(order) - 1, start
    simulated: list[tuple[KernelCalls, list[tuple[int, int]]]] = []
    while not plan.samples(order[number].of_a_call):
        measured, least = order[number], start if 0 == number < len(order) - 1 else 0
        wanted = round(left / measured.of_a_call) or int(measured is order[-1])
        end, first = first, max(least, first - wanted)
        simulated.insert(0, (measured.kernel, measured.kernel.ranges()[first:end]))
        left -= (end - first) * measured.of_a_call
        if left <= 0 or first > least or number == 0:
            break
        number, first = number - 1, len(order[number - 1].kernel.ranges())
    if first == len(order[number].kernel.ranges()):  # none of its calls is simulated
        number, first = number + 1, 0
    kernel = order[number].kernel
    # All that ran before, once: a whole run of the job that ends where the simulated calls begin.
    whole = [*order[number:-1], *order[:number]] if len(order) > 1 else order
    touched = [*before, *(operand for measured in whole for operand in measured.kernel.operands)]
    _touch_before(program, kernel, touched, kernel.ranges()[first][0] / kernel.rows)
    for each, calls in simulated:
        _time_calls(program, each, calls, limit)


def window_starts(calls: int, window_calls: int, windows: int) -> list[int]:
    """Return the first call of each window, in the middle of its stratum; [0] if the windows cover all calls.

    calls: number of calls. window_calls: calls of a window. windows: number of windows.
    """
    if window_calls * windows >= calls:
        return [0]
    return [max(0, (2 * n + 1) * calls // (2 * windows) - window_calls // 2) for n in range(windows)]


def _sample_calls(
    program: SimulatedProgram, kernel: KernelCalls, calls: Sequence[tuple[int, int]], limit: int, plan: SamplePlan
) -> tuple[float, int, int, float]:
    """Sample each of these long calls, and return (cycles, instructions, timed instructions, standard error)."""
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
    """Warm the caches with the memory accessed before a kernel, and with its operands up to a fraction of its rows.

    Operands that each row may access whole count as accessed whole after the first rows.
    """
    _time_all(program)
    last_level = max((level.size for level in program.core.levels), default=0) if program.core is not None else 0
    for operand in before:
        _touch(program, operand, operand.bytes, last_level)
    for operand in kernel.operands if fraction else ():
        _touch(program, operand, round(operand.bytes * fraction) if operand.by_rows else operand.bytes, last_level)
    library().sim_settle(program.simulation)


def _touch(program: SimulatedProgram, operand: TouchedMemory, size: int, last_level: int) -> None:
    """Simulate an access to the first `size` bytes of an operand, so that the caches hold them.

    If `size` exceeds twice the last-level cache, only the end of that size is accessed: earlier lines would be evicted.
    """
    skipped = max(0, size - 2 * last_level)
    address, size = operand.address + skipped, size - skipped
    if size > 0:
        source, target = (0, address) if operand.written else (address, 0)
        library().sim_callee(program.simulation, source, target, size)
