"""The caches against a model in Python that keeps each set as a list, on random accesses."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.lab.simulate.harness import ffi, library
from tests.conftest import examples

LINE = 64
LOAD, STORE, PREFETCH = 1, 2, 4


class _SetLists:
    """Levels of sets as lists, the line used last at the end; write-back, write-allocate."""

    def __init__(self, levels: Sequence[tuple[int, int]]) -> None:
        self.levels = levels  # (sets, ways)
        self.sets: list[list[list[int]]] = [[[] for _ in range(sets)] for sets, _ in levels]
        self.dirty: list[set[int]] = [set() for _ in levels]
        self.hits, self.misses = [0] * len(levels), [0] * len(levels)
        self.read = self.written = 0

    def access(self, line: int, store: bool, level: int = 0) -> None:
        if level == len(self.levels):
            self.read += 1
            return
        lines = self.sets[level][line % self.levels[level][0]]
        if line in lines:
            self.hits[level] += 1
            lines.remove(line)
            lines.append(line)
        else:
            self.misses[level] += 1
            self.access(line, False, level + 1)
            self.insert(level, line)
        if store:
            self.dirty[level].add(line)

    def insert(self, level: int, line: int) -> None:
        lines = self.sets[level][line % self.levels[level][0]]
        if len(lines) == self.levels[level][1]:
            victim = lines.pop(0)
            if victim in self.dirty[level]:
                self.dirty[level].remove(victim)
                self.write_back(level + 1, victim)
        lines.append(line)

    def write_back(self, level: int, line: int) -> None:
        if level == len(self.levels):
            self.written += 1
            return
        if line not in self.sets[level][line % self.levels[level][0]]:
            self.insert(level, line)
        self.dirty[level].add(line)


def caches(levels: Sequence[tuple[int, int]], prefetch_lines: int = 0, **more: float) -> Any:
    """A simulator of caches alone; levels: (sets, ways)."""
    machine = ffi().new("sim_machine *")
    machine.in_order, machine.width, machine.line_bytes, machine.level_count = 1, 2, LINE, len(levels)
    machine.memory_latency, machine.miss_slots, machine.prefetch_lines = 100, 4, prefetch_lines
    for level, (sets, ways) in zip(machine.levels, levels, strict=False):
        level.bytes, level.ways, level.latency = sets * ways * LINE, ways, 10
    for name, value in more.items():
        setattr(machine, name, value)
    made = library().sim_new(ffi().new("sim_emulator *"), machine, 0)
    return ffi().gc(made, library().sim_delete)


def put(sim: Any, accesses: Sequence[tuple[int, int, int]], cycles: Sequence[int] | None = None) -> list[int]:
    """Cycles by which each (address, bytes, kind) is late."""
    table = ffi().new("sim_access[]", [{"address": a, "bytes": size, "kind": kind} for a, size, kind in accesses])
    late = ffi().new("uint64_t[]", len(accesses))
    library().sim_trace(sim, table, ffi().new("uint64_t[]", list(cycles or [0] * len(accesses))), len(accesses), late)
    return list(late)


def counted(sim: Any) -> Any:
    counts = ffi().new("sim_counts *")
    library().sim_end_counts(sim, counts)
    return counts


@settings(max_examples=examples(60, 10))
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 4000), st.sampled_from([1, 4, 8, 16, 64, 130]), st.booleans()), max_size=300),
)
def test_hits_misses_and_traffic_are_those_of_sets_as_lists(
    levels: list[tuple[int, int]], accesses: list[tuple[int, int, bool]]
) -> None:
    expected, sim = _SetLists(levels), caches(levels)
    put(sim, [(address, size, STORE if store else LOAD) for address, size, store in accesses])
    for address, size, store in accesses:
        for line in range(address // LINE, (address + size - 1) // LINE + 1):
            expected.access(line, store)

    counts_by_kind = counted(sim)
    assert list(counts_by_kind.hits)[: len(levels)] == expected.hits
    assert list(counts_by_kind.misses)[: len(levels)] == expected.misses
    assert (counts_by_kind.memory_lines, counts_by_kind.written_lines) == (expected.read, expected.written)


def test_a_miss_is_late_by_the_level_that_has_the_line() -> None:
    sim = caches([(1, 1), (8, 4)])
    # From memory, a hit, another line from memory, the first one again from level 2.
    assert put(sim, [(0, 8, LOAD), (8, 8, LOAD), (64, 8, LOAD), (0, 8, LOAD)], [0, 200, 400, 600]) == [100, 0, 100, 10]


def test_a_line_under_way_is_waited_for_and_no_second_miss() -> None:
    sim = caches([(8, 4)])
    assert put(sim, [(0, 8, LOAD), (8, 8, LOAD)], [0, 30]) == [100, 70]
    assert counted(sim).misses[0] == 1


def test_line_fills_take_turns_at_the_memory_and_in_the_slots() -> None:
    lines = [(64 * n, 8, LOAD) for n in range(4)]
    assert put(caches([(64, 4)], memory_line_cycles=20.0), lines) == [100, 120, 140, 160]
    assert put(caches([(64, 4)], miss_slots=2), lines) == [100, 100, 200, 200]


def test_a_prefetch_brings_the_line_before_its_use() -> None:
    sim = caches([(8, 4)])
    assert put(sim, [(0, 0, PREFETCH), (0, 8, LOAD)], [0, 150]) == [0, 0]
    assert counted(sim).misses[0] == 0 and counted(sim).prefetched_lines == 1


def test_the_stride_prefetcher_hides_a_stream_and_leaves_random_accesses() -> None:
    def misses(addresses: Sequence[int], lines: int) -> int:
        sim = caches([(64, 4)], prefetch_lines=lines)
        for number, address in enumerate(addresses):  # one trace each: the same instruction
            put(sim, [(address, 8, LOAD)], [number * 200])
        return int(counted(sim).misses[0])

    stream = range(0, 64 * 60, 16)  # within a page
    assert misses(stream, 0) == 60 and misses(stream, 4) <= 4
    scattered = [64 * (n * n * 7 % 61) for n in range(60)]
    assert misses(scattered, 4) == misses(scattered, 0)


def _stream_misses(lines: int, **facts: float) -> int:
    """Misses of a load that goes through so many lines one after the other, with time for each fill."""
    sim = caches([(64, 4), (512, 8)], prefetch_lines=4, **facts)
    for number in range(4 * lines):
        put(sim, [(16 * number, 16, LOAD)], [number * 100])
    return int(counted(sim).misses[0])


def test_a_stream_goes_on_into_the_next_page_where_the_core_reads_by_virtual_addresses() -> None:
    page = 4096 // LINE
    assert _stream_misses(8 * page, prefetch_pages=1) <= 4
    # Without, each page's first line is not expected.
    assert _stream_misses(8 * page) >= _stream_misses(8 * page, prefetch_pages=1) + 7


def test_a_long_stream_runs_ahead_in_the_last_level() -> None:
    """What four lines in flight leave of the memory's latency, sixteen in the last level hide."""

    def late(**facts: float) -> int:
        sim = caches([(64, 4), (512, 8)], prefetch_lines=4, prefetch_pages=1, **facts)
        clock = total = 0
        for number in range(400):  # 10 cycles of work beside each line; 100 of latency
            (waited,) = put(sim, [(64 * number, 16, LOAD)], [clock])
            clock += 10 + waited
            total += waited
        return total

    assert late(far_lines=16) < late() / 2


def _store_lines(sim: Any, lines: range, step: int = 16) -> list[int]:
    accesses = [(64 * line + at, 16, STORE) for line in lines for at in range(0, 64, step)]
    return put(sim, accesses, [4 * number for number in range(len(accesses))])


def test_stores_that_fill_lines_bring_none_once_four_were_full() -> None:
    sim = caches([(64, 4), (512, 8)], stream_lines=4)
    _store_lines(sim, range(100))
    counts_by_kind = counted(sim)
    assert counts_by_kind.memory_lines == 4 and counts_by_kind.streamed == 4 * 96
    without = caches([(64, 4), (512, 8)])
    _store_lines(without, range(100))
    assert counted(without).memory_lines == 100


def test_a_streamed_line_that_stays_incomplete_is_read_after_all() -> None:
    sim = caches([(64, 4), (512, 8)], stream_lines=4)
    _store_lines(sim, range(10))
    assert counted(sim).memory_lines == 4
    late = put(sim, [(64 * 20, 16, STORE), (64 * 20, 16, LOAD)], [9000, 9001])
    assert late == [0, 100]  # the load waits for the rest of the line
    library().sim_begin(sim)
    _store_lines(sim, range(30, 40), step=32)  # halves of lines: streaming has ended
    assert counted(sim).streamed == 0 and counted(sim).memory_lines == 10


def test_streamed_stores_wait_for_the_memory_behind() -> None:
    slow = caches([(64, 4), (64, 8)], stream_lines=4, memory_line_cycles=40.0)
    _store_lines(slow, range(10))  # without waiting, as a store buffer has them
    clock = start = 1000
    for line in range(10, 2010):
        for at in range(0, 64, 16):
            clock += 1 + put(slow, [(64 * line + at, 16, STORE)], [clock])[0]
    # All but what the second level keeps leaves for the memory.
    assert 0.9 <= (clock - start) / (40 * (2000 - 64 * 8)) <= 1.1


def test_predictors_learn_what_they_can() -> None:
    def wrong(history_bits: int, outcomes: Sequence[int]) -> int:
        sim = caches([(1, 1)], history_bits=history_bits)
        return sum(library().sim_branch(sim, 0x1000, taken) for taken in outcomes)

    assert wrong(0, [1] * 100) == 0
    assert wrong(0, [0] * 100) == 1  # counters begin weakly taken
    loop = ([1] * 7 + [0]) * 40
    assert wrong(0, loop) == 40  # two-bit counters miss each exit, and nothing else
    assert wrong(12, loop) < 40  # a history of 12 branches knows the eighth
