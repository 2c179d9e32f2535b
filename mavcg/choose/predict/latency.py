"""The latency of each step on each cluster, for each number of threads: the sum of its tasks by the engine's rule.

The time of a step on one core is its kernel's computing time (kernel_cycles.py) plus its exposed memory time
(exposure.py), but at least the time of its memory traffic (memory.py), plus a fixed overhead for the step and each
task. Several threads take chunks of rows by the engine's rule (cost/guided_chunks.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.choose.predict.exposure import LineTimes, StepLines, line_fetch, step_lines, touches_of_operands
from mavcg.choose.predict.kernel_cycles import KernelModel, task_cycles
from mavcg.choose.predict.memory import Distances, Moved, step_traffic
from mavcg.choose.predict.work import StepWork
from mavcg.cost.guided_chunks import core_shares, simulated_ns
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.machine import LINE_BYTES

COMPUTE, MEMORY, OVERHEAD = "compute", "memory", "overhead"
MODELLED, SIMULATED = "modelled", "simulated"


@dataclass(frozen=True)
class StepCost:
    """A step on one core alone: what it computes, moves and pays besides, in ms.

    exposed_ms: of the memory's time, beside the arithmetic. factor: simulated over modelled time, of all but the
    overhead; None where nothing was simulated. lines: times of the cache lines; None where they are not counted.
    """

    compute_ms: float
    memory_ms: float
    overhead_ms: float
    exposed_ms: float = 0.0
    factor: float | None = None
    lines: LineTimes | None = None

    @property
    def kernel_ms(self) -> float:
        """Modelled time: arithmetic and exposed memory time, or all of the memory time if that is longer."""
        return max(self.compute_ms + self.exposed_ms, self.memory_ms)

    @property
    def ms(self) -> float:
        """Time of the kernel's calls, simulated if known, and of the overhead."""
        return self.kernel_ms * (1.0 if self.factor is None else self.factor) + self.overhead_ms

    def of_all_trips(self, trips: int) -> "StepCost":
        """Return the cost of all iterations of a loop, of which this is one."""
        times = {name: getattr(self, name) * trips for name in ("compute_ms", "memory_ms", "overhead_ms", "exposed_ms")}
        return replace(self, **times)

    @property
    def source(self) -> str:
        """MODELLED or SIMULATED."""
        return MODELLED if self.factor is None else SIMULATED

    @property
    def bound(self) -> str:
        """The resource that bounds most of the time."""
        if self.overhead_ms > max(self.compute_ms, self.memory_ms):
            return OVERHEAD
        return COMPUTE if self.compute_ms >= self.memory_ms else MEMORY


@dataclass(frozen=True)
class StepModel:
    """A step with its kernel's model on each cluster, by the cluster's number on the board.

    factors: by cluster, simulated over modelled time of the kernel on one core alone, where it was simulated.
    """

    work: StepWork
    distances: Distances
    kernels: Mapping[int, KernelModel]
    factors: Mapping[int, float] = field(default_factory=dict)
    _moved: dict[tuple[object, ...], Moved] = field(default_factory=dict, compare=False, repr=False)
    _lines: dict[tuple[object, ...], StepLines | None] = field(default_factory=dict, compare=False, repr=False)

    def bytes_moved(self, worker: CoreModel) -> Moved:
        """Return the bytes of a worker's share that move through the memory levels."""
        lines = self.lines(worker)
        if lines is not None:
            return lines.moved
        levels = worker.levels
        key = tuple(level.shared_bytes for level in levels)
        if key not in self._moved:
            self._moved[key] = step_traffic(
                self.work, self.distances, levels, waits_for_write_backs=worker.fit.exposed is None
            )
        return self._moved[key]

    def lines(self, worker: CoreModel) -> StepLines | None:
        """Return the cache lines of the step on a worker, by its kernel's loops.

        None where the core's kind has no fitted fractions, or the kernel's loops are unknown.
        """
        if worker.fit.exposed is None:
            return None
        levels = worker.levels
        sizes = tuple(level.shared_bytes for level in levels)
        key = (worker.number, worker.ghz, *sizes, *(level.bandwidth_gb_per_s for level in levels))
        if key not in self._lines:
            self._lines[key] = self._count_lines(worker, sizes)
        return self._lines[key]

    def _count_lines(self, worker: CoreModel, sizes: tuple[int, ...]) -> StepLines | None:
        work, fetch = self.work, line_fetch(worker)
        if fetch is None or not work.operands:
            return None
        # A line more, because operands may begin within one.
        most = {name: work.touches[n].span / LINE_BYTES + 1 for name, n in touches_of_operands(work).items()}
        kernel = self.kernels[worker.number].lines(
            work.rows, work.call_rows, work.first_weight_bytes, sizes, most, fetch.miss_slots
        )
        if kernel is None:
            return None
        compute_ns = self._cycles(worker) / worker.ghz
        return step_lines(work, self.distances, sizes, kernel.fills, kernel.runs, fetch, compute_ns)

    def alone(self, worker: CoreModel) -> StepCost:
        """Return the cost of the whole step on one core, in one iteration of its loop."""
        cycles, tasks = self._cycles(worker), self.work.tasks
        fit = worker.fit.steps
        overhead = fit.step_cycles + fit.call_cycles * tasks
        memory_ns = self.bytes_moved(worker).ns(worker.levels)
        exposed, lines = self._exposed_ns(worker), self.lines(worker)
        return StepCost(
            cycles / worker.ghz / 1e6,
            memory_ns / 1e6,
            overhead / worker.ghz / 1e6,
            exposed / 1e6,
            self.factors.get(worker.number),
            lines.times if lines is not None else None,
        )

    def with_simulated(self, times: Sequence[tuple[CoreModel, float]]) -> "StepModel":
        """Return the step with simulated times of its kernel, in ms, each by a worker that is alone with it.

        What a call costs before its first row is in that time, and is modelled as overhead: it counts once.
        """
        factors = {}
        for worker, simulated_ms in times:
            calls_ms = worker.fit.steps.call_cycles * self.work.tasks / worker.ghz / 1e6
            modelled_ms = replace(self, factors={}).alone(worker).kernel_ms
            if modelled_ms > 0:
                factors[worker.number] = max(simulated_ms - calls_ms, 0.0) / modelled_ms
        return replace(self, factors=factors)

    def _cycles(self, worker: CoreModel) -> float:
        work = self.work
        first, last, tasks = task_cycles(
            self.kernels[worker.number], work.rows, work.call_rows, work.first_weight_bytes
        )
        return first * (tasks - 1) + last

    def _exposed_ns(self, worker: CoreModel) -> float:
        lines, fit = self.lines(worker), worker.fit.exposed
        return 0.0 if lines is None or fit is None else lines.times.exposed_ns(fit)

    def together(self, workers: Sequence[CoreModel]) -> float:
        """Return the ms of all iterations on several cores; the first one is the caller's."""
        if self.work.chunk_rows >= self.work.rows or len(workers) == 1:
            return self.alone(workers[0]).ms * self.work.trips
        row_ns = []
        for worker in workers:
            cycles = self._cycles(worker)
            memory_ns = self.bytes_moved(worker).ns(worker.levels)
            ns = max(cycles / worker.ghz + self._exposed_ns(worker), memory_ns)
            row_ns.append(ns * self.factors.get(worker.number, 1.0) / self.work.rows)
        fits = [worker.fit.steps for worker in workers]
        own_ns = [fit.call_cycles / worker.ghz for fit, worker in zip(fits, workers, strict=True)]
        ends = simulated_ns(self.work.rows, self.work.chunk_rows, row_ns, own_ns)
        handover = max(fit.handover_cycles / worker.ghz for fit, worker in zip(fits, workers, strict=True))
        return (ends + fits[0].step_cycles / workers[0].ghz + handover) / 1e6 * self.work.trips

    def weights(self, workers: Sequence[CoreModel]) -> list[int]:
        """Return the relative speeds of these cores in this step, each timed as if it worked alone, for the engine's
        core shares."""
        return core_shares([self.alone(worker).ms for worker in workers])


def total_ms(steps: Sequence[StepModel], workers: Sequence[CoreModel]) -> float:
    """Time of a whole run, in ms."""
    return sum(step.together(workers) for step in steps)
