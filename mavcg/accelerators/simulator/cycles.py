"""Simulate a program cycle by cycle: execution units with queues, tokens between them, and a shared DDR memory.

Time advances from event to event. Between two events, every running instruction progresses at a constant rate, in
integers, so that the same program always takes the same cycles.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.isa.forms import UNITS
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.isa.vta import LOAD, STORE, VTA_UNITS
from mavcg.accelerators.simulator.timing import (
    FETCH_BYTES,
    QUEUE_DEPTH,
    SCALE,
    RunningWork,
    Work,
    progress_rates,
)
from mavcg.accelerators.simulator.vta_timing import timing_of
from mavcg.accelerators.target import VTA
from mavcg.errors import MavcgError

# Units whose next transfer is requested while another is under way.
_MOVERS = (UNITS.index("load"), UNITS.index("save"))
_VTA_MOVERS = (LOAD, STORE)
_MANY_PORTS = 1 << 20  # words a cycle: VTA's memories have a port for each unit that reads or writes them


@dataclass(frozen=True)
class Span:
    """Cycles [start, end) in which a unit executed an instruction."""

    unit: int
    index: int
    start: int
    end: int


@dataclass(frozen=True)
class SimulatedTime:
    """Result of a simulation for one run, of a batch.

    busy: cycles in which each unit executed. stalls: idle cycles of units with work left, and cycles lost inside of
    instructions, by cause. ddr_bytes: DDR traffic, including code. spans: all instructions, in the order of their ends.
    segments: cycles of each segment; () for a part of one.
    """

    cycles: int
    busy: dict[str, int]
    stalls: dict[str, int]
    ddr_bytes: int
    spans: tuple[Span, ...]
    segments: tuple[int, ...] = ()


@dataclass
class _UnitState:
    queue: deque[int] = field(default_factory=deque)
    running: RunningWork | None = None
    requested: RunningWork | None = None  # next transfer; its latency passes meanwhile
    busy: int = 0


def simulate(program: AccelProgram) -> SimulatedTime:
    """Return the cycles of a program for a batch on one core: of all segments, one after another.

    The CPU's time between segments is not included.
    Raises: MavcgError for a deadlock, naming the waiting instructions and the tokens that they wait for.
    """
    firsts = [first for first, _ in program.job_ranges()]
    return _in_sequence([_Simulation(job).run() for job in program.jobs()], firsts)


def _in_sequence(times: Sequence[SimulatedTime], firsts: Sequence[int]) -> SimulatedTime:
    """Return the time of several simulations, one after another. firsts: index of the first instruction of each."""
    busy, stalls, spans, start = dict.fromkeys(times[0].busy, 0), dict[str, int](), list[Span](), 0
    for time, first in zip(times, firsts, strict=True):
        for unit, cycles in time.busy.items():
            busy[unit] += cycles
        for cause, cycles in time.stalls.items():
            stalls[cause] = stalls.get(cause, 0) + cycles
        spans += [Span(span.unit, span.index + first, span.start + start, span.end + start) for span in time.spans]
        start += time.cycles
    ddr_bytes, own = sum(time.ddr_bytes for time in times), tuple(time.cycles for time in times)
    return SimulatedTime(start, busy, dict(sorted(stalls.items())), ddr_bytes, tuple(spans), own)


class _Simulation:
    """State of a simulation at one cycle."""

    def __init__(self, program: AccelProgram) -> None:
        self.program = program
        self.target = program.target
        foreign = program.target.isa == VTA
        self.names = VTA_UNITS if foreign else UNITS
        self.movers = _VTA_MOVERS if foreign else _MOVERS
        work_of = timing_of(program.target)
        self.works = [work_of(instruction) for instruction in program.instructions]
        self.units = [_UnitState() for _ in self.names]
        numbers = range(len(self.names))
        self.waits = [[u for u in numbers if instruction.wait >> u & 1] for instruction in program.instructions]
        self.signals = [[u for u in numbers if instruction.signal >> u & 1] for instruction in program.instructions]
        self.tokens = [[0] * len(self.names) for _ in self.names]
        self.time = 0
        self.stalls: dict[str, int] = {}
        self.spans: list[Span] = []
        self.ddr_bytes = 0
        self.ddr_rate = max(1, round(self.target.ddr_bytes_per_cycle * SCALE))
        self.port_rate = max(1, round(self.target.port_bytes_per_cycle * SCALE))
        self.port_words = _MANY_PORTS if foreign else datapath(program.target).banks
        self.next = 0  # instruction to dispatch
        self.dispatch_wait = 0
        self.fetch_ends = _fetches(program.instructions)
        self.fetched = 0  # number of instructions whose code has been fetched
        self.fetches = 0  # number of fetches that were started
        self.fetch: RunningWork | None = None

    def run(self) -> SimulatedTime:
        while True:
            while self._dispatch() | self._issue():
                pass
            if self.next == len(self.program.instructions) and not any(
                unit.queue or unit.running or unit.requested for unit in self.units
            ):
                break
            self._advance()
        busy = {name: unit.busy for name, unit in zip(self.names, self.units, strict=True)}
        return SimulatedTime(self.time, busy, dict(sorted(self.stalls.items())), self.ddr_bytes, tuple(self.spans))

    def _dispatch(self) -> bool:
        """Fetch code, and move the next instruction to its unit's queue if there is room. Return True on progress."""
        moved = False
        if self.fetch is None and self.fetched < len(self.program.instructions):
            # Two buffers: a third fetch waits until the first is dispatched.
            begun = self.fetches
            if begun < 2 or self.next >= self.fetch_ends[begun - 1]:
                end = self.fetch_ends[begun + 1]
                self.fetches += 1
                size = 4 * sum(instruction.form.words for instruction in self.program.instructions[self.fetched : end])
                self.fetch = RunningWork(end, Work(0, size), self.time, size * SCALE, self.target.ddr_latency_cycles)
                moved = True
        if self.dispatch_wait == 0 and self.next < self.fetched:
            instruction = self.program.instructions[self.next]
            queue = self.units[instruction.unit].queue
            if len(queue) < QUEUE_DEPTH:
                queue.append(self.next)
                self.dispatch_wait = instruction.form.words  # the dispatcher reads one word per cycle
                self.next += 1
                moved = True
        return moved

    def _issue(self) -> bool:
        """Start the instructions whose tokens have arrived. Return True if one started."""
        started = False
        for number, unit in enumerate(self.units):
            if unit.requested is not None and unit.running is None and unit.requested.wait == 0:
                unit.running, unit.requested = unit.requested, None
                unit.running.start = self.time
                started = True
            if not unit.queue:
                continue
            transfers = self.works[unit.queue[0]].ddr_bytes > 0
            overlaps = transfers and number in self.movers
            if unit.requested is not None or (unit.running is not None and not overlaps):
                continue
            if self._lacking(unit.queue[0], number) is not None:
                continue
            index = unit.queue.popleft()
            for signaller in self.waits[index]:
                self.tokens[signaller][number] -= 1
            work = self.works[index]
            if transfers:
                self.ddr_bytes += work.ddr_bytes
                wait = work.cycles + self.target.ddr_latency_cycles
                unit.requested = RunningWork(index, work, self.time, work.ddr_bytes * SCALE, wait)
            else:
                unit.running = RunningWork(index, work, self.time, work.cycles * SCALE, 0)
                if work.conflict_cycles:
                    self._stall(f"{self.names[number]}: bank conflicts of its own", work.conflict_cycles)
            started = True
        return started

    def _lacking(self, index: int, number: int) -> int | None:
        """Return the first unit whose token an instruction of unit `number` waits for; None if it can start."""
        for signaller in self.waits[index]:
            if not self.tokens[signaller][number]:
                return signaller
        return None

    def _stall(self, cause: str, cycles: int) -> None:
        self.stalls[cause] = self.stalls.get(cause, 0) + cycles

    def _rates(self) -> list[tuple[RunningWork, int]]:
        """Return the running instructions with the parts of work that each completes per cycle."""
        running = [unit.running for unit in self.units if unit.running]
        compute = [one for one in running if not one.work.ddr_bytes]
        moving = [one for one in running if one.work.ddr_bytes]
        if self.fetch is not None and self.fetch.wait == 0:
            moving.append(self.fetch)
        return progress_rates(compute, moving, self.ddr_rate, self.port_rate, self.port_words)

    def _advance(self) -> None:
        """Move to the next event. Raises: MavcgError if there is none."""
        rates = self._rates()
        waits = [u.requested.wait for u in self.units if u.requested and u.requested.wait]
        if self.fetch is not None and self.fetch.wait:
            waits.append(self.fetch.wait)
        if self.dispatch_wait:
            waits.append(self.dispatch_wait)
        ahead = [*waits, *(-(-running.left // rate) for running, rate in rates)]
        if not ahead:
            raise self._deadlock()
        passed = min(ahead)
        self._account(passed)
        self.time += passed
        for unit in self.units:
            if unit.requested is not None:
                unit.requested.wait = max(0, unit.requested.wait - passed)
        if self.fetch is not None and self.fetch.wait:
            self.fetch.wait -= passed
        self.dispatch_wait = max(0, self.dispatch_wait - passed)
        for running, rate in rates:
            running.left -= rate * passed
        self._complete()

    def _account(self, passed: int) -> None:
        """Count cycles since the last event (passed) as busy, or as stalled by a cause, for each unit."""
        for number, unit in enumerate(self.units):
            name = self.names[number]
            if unit.running is not None:
                unit.busy += passed
            elif unit.requested is not None:
                self._stall(f"{name}: DDR latency", passed)
            elif unit.queue:
                lacking = self._lacking(unit.queue[0], number)
                assert lacking is not None  # an instruction with all tokens would have been started
                self._stall(f"{name}: waits for {self.names[lacking]}", passed)

    def _complete(self) -> None:
        """Retire the instructions that have ended, and give their tokens."""
        for number, unit in enumerate(self.units):
            running = unit.running
            if running is None or running.left > 0:
                continue
            unit.running = None
            self.spans.append(Span(number, running.index, running.start, self.time))
            for receiver in self.signals[running.index]:
                self.tokens[number][receiver] += 1
        if self.fetch is not None and self.fetch.wait == 0 and self.fetch.left <= 0:
            self.fetched = self.fetch.index
            self.ddr_bytes += self.fetch.work.ddr_bytes
            self.fetch = None

    def _deadlock(self) -> MavcgError:
        heads = []
        for number, unit in enumerate(self.units):
            if unit.queue:
                instruction = self.program.instructions[unit.queue[0]]
                lacking = ", ".join(self.names[u] for u in self.waits[unit.queue[0]] if not self.tokens[u][number])
                heads.append(f"instruction {unit.queue[0]} ({instruction.form.name}) waits for a token of {lacking}")
        blocked = ""
        if self.next < len(self.program.instructions):
            instruction = self.program.instructions[self.next]
            blocked = (
                f"; instruction {self.next} ({instruction.form.name}) waits for room in its queue of {QUEUE_DEPTH}"
            )
        return MavcgError(f"{self.program.network}: deadlock at cycle {self.time}: {'; '.join(heads)}{blocked}")


def _fetches(instructions: tuple[AccelInstruction, ...]) -> list[int]:
    """Return the index of the instruction before which each fetch ends; the first is 0."""
    ends, size = [0], 0
    for index, instruction in enumerate(instructions):
        if size + 4 * instruction.form.words > FETCH_BYTES:
            ends.append(index)
            size = 0
        size += 4 * instruction.form.words
    return [*ends, len(instructions)] if instructions else ends
