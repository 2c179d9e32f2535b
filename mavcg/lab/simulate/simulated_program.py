"""Simulate a call of a function: run it in the emulator, decode each new basic block, count cycles in the C library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mavcg.assembly.code_image import EXTERNAL_BASE, CodeImage
from mavcg.cost.core_facts import SimulatedCore
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.lab.simulate.call_arguments import CallState
from mavcg.lab.simulate.callees import CALLEES, CalleeEffect
from mavcg.lab.simulate.emulator import EXTERNAL_LIMIT, RETURN_ADDRESS, Emulator
from mavcg.lab.simulate.harness import ffi, library
from mavcg.lab.simulate.rows import PREFETCH, UNSIZED, WORD, decode, for_core
from mavcg.lab.simulate.tables import TimingTables, c_machine, c_rows

INSTRUCTION_LIMIT = 1_000_000_000
_SYSTEM_CALL = 2  # unicorn's number of the exception

# Stall causes in the order of sim_cause in simulate_api.h: the names of in_order.Wait, and causes that it lacks.
CAUSES = (
    "register",
    "write order",
    "unit",
    "no dual issue",
    "issue distance",
    "blocked",
    "alone",
    "first",
    "memory",
    "branch",
    "store buffer",
    "window",
    "issue queue",
    "load queue",
    "call",
)
LEVELS = ("l1", "l2", "l3")  # nearest first; on a core without a level 2, the second entry is its level 3


@dataclass(frozen=True)
class CallCounts:
    """Counts of one call.

    stalls: cycles without issue (in order) or without retirement (out of order), by cause. caches: (hits, misses) of
    demand accesses by level of LEVELS; an access counts once for each line. unaligned: accesses across a multiple of
    16 bytes. memory_lines, written_lines: 64-byte lines read from and written to memory, prefetched lines included.
    unmodelled: executed instructions without timing facts, with the reason. callees: calls of external functions, by
    name.
    """

    cycles: int
    instructions: int
    stalls: Mapping[str, int]
    caches: Mapping[str, tuple[int, int]]
    branches: int
    mispredicts: int
    unaligned: int
    prefetched_lines: int
    memory_lines: int
    written_lines: int
    unmodelled: Mapping[str, str] = field(default_factory=dict)
    callees: Mapping[str, int] = field(default_factory=dict)


def cache_report(counts: CallCounts, core: SimulatedCore) -> dict[str, dict[str, int]]:
    """Return hits and misses of each cache by its name: l1, l2 and l3, or l1 and l3 on a core without a level 2."""
    return {
        level.name: {"hits": hits, "misses": misses}
        for level, (hits, misses) in zip(core.levels, counts.caches.values(), strict=False)
    }


class SimulatedProgram:
    """A code image on a simulated core; a call starts with the caches and predictors that earlier calls left."""

    def __init__(self, image: CodeImage, timing: Timing | None, core: SimulatedCore | None) -> None:
        """Load the image. timing, core: None to run the code without timing it.

        Raises: MavcgError when unicorn is not installed.
        """
        self.image, self.timing, self.core = image, timing, core
        self.emulator = Emulator(image)
        self.tables = None if timing is None else TimingTables(timing)
        machine = ffi().NULL if timing is None or core is None else c_machine(timing, core)
        self._c_emulator = self.emulator.c_emulator()
        made = library().sim_new(self._c_emulator, machine, RETURN_ADDRESS)
        if made == ffi().NULL:
            raise MavcgError("simulate: no memory left; close other programs")
        self._sim = ffi().gc(made, library().sim_delete)
        library().sim_externals(self._sim, EXTERNAL_BASE, EXTERNAL_LIMIT)
        self.host_functions: Mapping[str, Callable[[Any], CalleeEffect]] = {}  # in addition to CALLEES
        self.system_call: Callable[[Any], None] | None = None  # None: a system call ends the call with an error
        self.unmodelled: dict[str, str] = {}
        self.callees: dict[str, int] = {}
        self._rows: dict[bytes, Any] = {}  # row of each instruction word
        self._watched: set[int] = set()
        self._tables_made = (-1, -1)  # numbers of classes and patterns that the C library has tables for

    def call(self, address: int, state: CallState, limit: int = INSTRUCTION_LIMIT, follows: bool = False) -> CallCounts:
        """Call the function at an address and return the counts of the call. limit: maximum instructions.

        follows: True if its instructions follow those of the call before at once, as in a loop that calls the function;
        otherwise they wait until that call has ended.

        Raises: MavcgError if the call faults, exceeds the limit, or makes a system call or calls an external function
        that the simulator does not know.
        """
        self.emulator.begin(state)
        self.callees = {}
        c = library()
        if follows:
            c.sim_begin_next(self._sim)
        else:
            c.sim_begin(self._sim)
        where, size = ffi().new("uint64_t *"), ffi().new("uint32_t *")
        while True:
            end = c.sim_run(self._sim, address, limit, where, size)
            if end == c.SIM_RETURNED:
                break
            if end == c.SIM_NEW_BLOCK:
                address = where[0]
                self._add_block(address, size[0])
            elif end == c.SIM_EXTERNAL:
                address = self._callee(where[0])
            elif end == c.SIM_EXCEPTION and size[0] == _SYSTEM_CALL and self.system_call is not None:
                self.system_call(self.emulator)
                address = self.emulator.pc()
            else:
                raise self._fault(end, where[0], size[0], state, limit)
        return self._counts()

    @property
    def simulation(self) -> Any:
        """The C library's handle of the simulation."""
        return self._sim

    def now(self) -> int:
        """Return the current cycle of the simulated core."""
        return int(library().sim_now(self._sim))

    def _add_block(self, address: int, size: int) -> None:
        assert self.tables is not None and self.timing is not None
        code = self.emulator.code(address, size)
        rows, watched = [], False
        for at in range(0, size, WORD):
            word = code[at : at + WORD]
            if (known := self._rows.get(word)) is not None:
                rows.append(known)
                continue
            decoded = for_core(decode(word, address + at), self.timing)
            if decoded.why:
                self.unmodelled[decoded.op.text] = decoded.why
            row = self.tables.row(decoded)
            rows.append(row)
            if decoded.memory not in (PREFETCH, UNSIZED):  # these are watched at each address
                self._rows[word] = row
            if decoded.memory in (PREFETCH, UNSIZED) and address + at not in self._watched:
                self._watched.add(address + at)
                watched = True
                watch = library().sim_watch_prefetch if decoded.memory == PREFETCH else library().sim_watch
                more = (row,) if decoded.memory == PREFETCH else ()
                self._need_memory(watch(self._sim, address + at, *more))
        grown = len(self.tables.classes), len(self.tables.patterns)
        if grown != self._tables_made:
            patterns, latencies = self.tables.pattern_table(), self.tables.latency_table()
            self._need_memory(
                library().sim_tables(self._sim, latencies, self.tables.latency_room, patterns, len(patterns))
            )
            self._tables_made = grown
        self._need_memory(library().sim_add_block(self._sim, address, size, c_rows(rows), len(rows)))
        if watched:
            self.emulator.retranslate(address, size)

    def _need_memory(self, allocated: int) -> None:
        if not allocated:
            raise MavcgError("simulate: no memory left; close other programs")

    def _callee(self, address: int) -> int:
        """Execute an external function and charge its cycles; return the address where its caller continues."""
        name = self.image.externals.get(address, f"{address:#x}")
        effect = CALLEES.get(name) or self.host_functions.get(name)
        if effect is None:
            known = ", ".join(CALLEES)
            raise MavcgError(
                f"simulate: calls {name}, which the file does not define; link it in, or simulate a function that does "
                f"not call it (known functions of other libraries: {known})"
            )
        try:
            done = effect(self.emulator)
        except self.emulator.error as error:
            raise MavcgError(
                f"simulate: {name} of memory that is not there ({error}); check the arguments (--args)"
            ) from None
        self.callees[name] = self.callees.get(name, 0) + 1
        if self.timing is not None:
            library().sim_callee(self._sim, done.source, done.target, done.size)
        return self.emulator.return_from(done.value)

    def _counts(self) -> CallCounts:
        counts = ffi().new("sim_counts *")
        library().sim_end_counts(self._sim, counts)
        return CallCounts(
            cycles=counts.cycles,
            instructions=counts.instructions,
            stalls=MappingProxyType({name: counts.stalls[n] for n, name in enumerate(CAUSES) if counts.stalls[n]}),
            caches=MappingProxyType({name: (counts.hits[n], counts.misses[n]) for n, name in enumerate(LEVELS)}),
            branches=counts.branches,
            mispredicts=counts.mispredicts,
            unaligned=counts.unaligned,
            prefetched_lines=counts.prefetched_lines,
            memory_lines=counts.memory_lines,
            written_lines=counts.written_lines,
            unmodelled=MappingProxyType(dict(self.unmodelled)),
            callees=MappingProxyType(dict(self.callees)),
        )

    def _fault(self, end: int, where: int, size: int, state: CallState, limit: int) -> MavcgError:
        c, pc = library(), self.emulator.pc()
        at = self.image.location(pc)
        if end == c.SIM_LIMIT:
            return MavcgError(
                f"simulate: no end within {limit} instructions, at {at}; give a higher --limit or other --args"
            )
        if end == c.SIM_FAULT:
            places = "; ".join(state.places) or "no argument is a buffer"
            return MavcgError(
                f"simulate: {at} accesses {size} bytes at {where:#x}, outside all buffers ({places}); give --args in "
                f"the order of the function's prototype, with large enough buffers"
            )
        if end == c.SIM_MISMATCH:
            return MavcgError(
                f"simulate: {self.image.location(where)}: the emulator saw {size} bytes, the tables say otherwise"
            )
        if end == c.SIM_NO_MEMORY:
            return MavcgError("simulate: no memory left; close other programs")
        word = self._word(pc - WORD) if size == _SYSTEM_CALL else self._word(pc)
        if size == _SYSTEM_CALL:
            return MavcgError(
                f"simulate: {at}: a system call (`{word}`); the simulator has no kernel; name a function without"
            )
        return MavcgError(
            f"simulate: {at}: `{word}` ends the run: a trap, or an instruction that the emulator does not know"
        )

    def _word(self, address: int) -> str:
        try:
            return decode(self.emulator.code(address, WORD), address).op.text
        except self.emulator.error:
            return f"code at {address:#x}, where nothing is"
