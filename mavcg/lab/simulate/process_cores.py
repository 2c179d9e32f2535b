"""The simulated cores of a program's threads, to which the stream of its blocks and accesses is fed.

Each thread has a core with caches of its own, in the C library (csrc/process.c).
"""

from mavcg.cost.core_facts import SimulatedCore
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.emulator import RETURN_ADDRESS
from mavcg.lab.simulate.harness import ffi, library
from mavcg.lab.simulate.process_blocks import ProcessBlocks
from mavcg.lab.simulate.sampling import RunCounts, SamplePlan, estimated_counts, exact_counts
from mavcg.lab.simulate.tables import TimingTables, c_machine

_NO_LENGTH = 1 << 62
_RECORD = 8  # bytes


class _Thread:
    """A thread's simulated core."""

    def __init__(self, timing: Timing, figures: SimulatedCore, plan: SamplePlan | None, every: int) -> None:
        c = library()
        emulator = ffi().new("sim_emulator *")  # all 0: nothing runs in this process
        made = c.sim_new(emulator, c_machine(timing, figures), RETURN_ADDRESS)
        if made == ffi().NULL:
            raise MavcgError("simulate: no memory left; close other programs")
        self.simulation = ffi().gc(made, c.sim_delete)
        self.tables_made = (-1, -1)
        self.counting = False
        self.plan = plan
        if plan is not None:
            c.sim_sampling(self.simulation, every, plan.unit, plan.warm, plan.functional, _NO_LENGTH, plan.seed)

    def begin(self) -> None:
        """Count from here on; what ran before has warmed the core."""
        if self.plan is not None:
            library().sim_take_sample(self.simulation, ffi().new("sim_sample *"))
        library().sim_begin(self.simulation)
        self.counting = True

    def counts(self) -> RunCounts:
        """Return what was counted since `begin`."""
        if self.plan is not None:
            sample = ffi().new("sim_sample *")
            library().sim_take_sample(self.simulation, sample)
            return estimated_counts(sample)
        counts = ffi().new("sim_counts *")
        library().sim_end_counts(self.simulation, counts)
        return exact_counts(counts)


class ThreadCores:
    """Feeds the stream of one program to the cores of its threads; `threads` has them by number."""

    def __init__(
        self, timing: Timing, figures: SimulatedCore, plan: SamplePlan | None, every: int, first_counted: int
    ) -> None:
        """plan, every: as in ProcessSimulation. first_counted: number of the call from which on a thread counts."""
        self._timing, self._figures, self._plan, self._every = timing, figures, plan, every
        self.blocks = ProcessBlocks(timing, TimingTables(timing))
        self.threads: dict[int, _Thread] = {}
        self._first_counted = first_counted

    def thread(self, number: int) -> _Thread:
        """Return a thread's core, a new one for a thread that was not seen before."""
        if number not in self.threads:
            self.threads[number] = _Thread(self._timing, self._figures, self._plan, self._every)
        return self.threads[number]

    def feed(self, number: int, data: bytes) -> None:
        """Time the records of one thread. Raises: MavcgError where no memory is left."""
        c, thread = library(), self.thread(number)
        records, count = ffi().from_buffer("uint64_t[]", data), len(data) // _RECORD
        used, value = ffi().new("uint64_t *"), ffi().new("uint64_t *")
        while (fed := c.sim_feed(thread.simulation, records, count, used, value)) != c.SIM_FED:
            if fed == c.SIM_UNKNOWN_BLOCK:
                self._add_block(thread, value[0])
            elif fed == c.SIM_REGION_BEGINS:
                if not thread.counting and value[0] >= self._first_counted:
                    thread.begin()
            elif fed == c.SIM_FEED_NO_MEMORY:
                raise MavcgError("simulate: no memory left; close other programs")

    def _add_block(self, thread: _Thread, number: int) -> None:
        c, tables = library(), self.blocks.tables
        address, rows, count = self.blocks.rows(number)
        grown = len(tables.classes), len(tables.patterns)
        done = 1
        if grown != thread.tables_made:
            patterns, latencies = tables.pattern_table(), tables.latency_table()
            done = c.sim_tables(thread.simulation, latencies, tables.latency_room, patterns, len(patterns))
            thread.tables_made = grown
        if not done or not c.sim_number_block(thread.simulation, number, address, rows, count):
            raise MavcgError("simulate: no memory left; close other programs")
