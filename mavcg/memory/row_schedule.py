"""Orders the parts of steps so that rows are computed just before they are read, and plans a window for each buffer.

A step's work is in units; what unit u touches of a buffer is an interval of bytes that moves up with u. To complete the
outputs, each step computes its next units, after those of earlier steps that write what these read: so a buffer holds
only bytes that are written and still to be read. These lie one after the other in its window, as in the whole buffer:
where the window's end is reached, what is still to be read is moved to its beginning.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

ALIGN = 64  # of a window's first byte in its buffer, and of all moves


@dataclass(frozen=True)
class ByteAccess:
    """Bytes of a buffer that unit u of a step touches: `extent` of them from `begin + u * step` on, as far as these are
    in it."""

    buffer: str
    begin: int
    step: int
    extent: int
    written: bool = False


@dataclass(frozen=True)
class UnitStep:
    """A step of a program in units. block: units that are computed at once, at most."""

    units: int
    accesses: tuple[ByteAccess, ...]
    block: int


@dataclass(frozen=True)
class Firing:
    """Units `begin` to `end` of a step. origins: the byte of each buffer that its window begins with then."""

    step: int
    begin: int
    end: int
    origins: Mapping[str, int]


@dataclass(frozen=True)
class Move:
    """`size` bytes of a buffer's window, from `source` to `target`, which do not overlap; offsets in the window."""

    buffer: str
    source: int
    target: int
    size: int


@dataclass(frozen=True)
class RowSchedule:
    """phases: in order. windows: bytes of each buffer's window. lifetimes: its first and last phase."""

    phases: tuple[Firing | Move, ...]
    windows: Mapping[str, int]
    lifetimes: Mapping[str, tuple[int, int]]

    @property
    def moved_bytes(self) -> int:
        """Bytes that all moves copy."""
        return sum(phase.size for phase in self.phases if isinstance(phase, Move))


@dataclass(frozen=True)
class SegmentCost:
    """Cost of the steps between two cuts. peak: bytes of buffers in use at once, those that only lie there included;
    phases, moved_bytes: as of a RowSchedule."""

    peak: int
    phases: int
    moved_bytes: int


def schedule_rows(
    steps: Sequence[UnitStep],
    sizes: Mapping[str, int],
    outputs: Sequence[str],
    cuts: Sequence[int] = (),
    slack: float = 0.0,
    first: Sequence[int] = (),
) -> RowSchedule:
    """Schedule a program.

    steps: in a valid order. sizes: bytes of the buffers that may be windows; others, inputs and outputs of the model,
    lie as they are. outputs: buffers that are to be complete. cuts: numbers of steps, in order; all that they and those
    after them read of earlier ones is computed before them. slack: of each window, how much larger than it needs to be,
    as a share of that, so that less is moved. first: numbers of steps; before a cut, all units of those before it are
    computed first of all.
    """
    demand = _Demand(steps, sizes, outputs)
    with _deep_recursion(len(steps)):
        for cut in (*cuts, len(steps)):
            for number in first:
                if number < cut:
                    demand.compute(number, steps[number].units)
            demand.complete_before(cut)
    windows = {
        buffer: min(_up(size), _up(int(demand.windows.get(buffer, 0) * (1 + slack)))) for buffer, size in sizes.items()
    }
    return _place_windows(steps, demand, windows)


def schedule_in_order(
    steps: Sequence[UnitStep], sizes: Mapping[str, int], outputs: Sequence[str], order: Sequence[tuple[int, int]]
) -> RowSchedule:
    """Schedule a program in a given order: (number of a step, units that are to be complete then).

    What a firing reads and the order has not computed is computed just before it; what is left at the end, then.
    Others, as of schedule_rows.
    """
    demand = _Demand(steps, sizes, outputs)
    with _deep_recursion(len(steps)):
        for number, end in order:
            demand.compute(number, end)
        demand.complete_before(len(steps))
    return _place_windows(
        steps, demand, {b: min(_up(size), _up(demand.windows.get(b, 0))) for b, size in sizes.items()}
    )


def segment_cost(
    steps: Sequence[UnitStep], sizes: Mapping[str, int], begin: int, end: int, outputs: Sequence[str]
) -> SegmentCost:
    """Return what the steps from `begin` to before `end` take between two cuts. Others, as of schedule_rows."""
    demand = _Demand(steps, sizes, outputs)
    demand.done = [step.units if number < begin else 0 for number, step in enumerate(steps)]
    with _deep_recursion(len(steps)):
        demand.complete_before(end)
    last, count = dict[str, int](), len(demand.fired)
    first = dict[str, int]()
    for time, (_, _, _, live) in enumerate(demand.fired):
        for buffer in live:
            first.setdefault(buffer, time)
            last[buffer] = time
    deltas = [0] * (count + 2)
    for buffer, size in sizes.items():
        numbers = [number for number, _ in demand.users.get(buffer, [])]
        before = any(number < begin for number, _ in demand.writers.get(buffer, []))
        if not numbers or max(numbers) < begin or (not before and buffer not in first):
            continue
        start = 0 if before else first[buffer]
        stop = count if max(numbers) >= end else last.get(buffer, 0)
        held = _up(size) if before or max(numbers) >= end else min(_up(size), _up(demand.windows[buffer]))
        deltas[start] += held
        deltas[stop + 1] -= held
    peak, now = 0, 0
    for delta in deltas:
        now += delta
        peak = max(peak, now)
    placed = _place_windows(
        steps, demand, {b: min(_up(size), _up(demand.windows.get(b, 0))) for b, size in sizes.items()}
    )
    return SegmentCost(peak, len(placed.phases), placed.moved_bytes)


@contextlib.contextmanager
def _deep_recursion(steps: int) -> Iterator[None]:
    """Allow as many calls within each other as a chain of steps needs; Python's own limit is for faults."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 2000 + 8 * steps))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _up(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


class _Demand:
    """The order of firings, found by completing outputs; `fired` also has what is live at each one."""

    def __init__(self, steps: Sequence[UnitStep], sizes: Mapping[str, int], outputs: Sequence[str]) -> None:
        self.steps, self.sizes, self.outputs = steps, sizes, frozenset(outputs)
        self.done = [0] * len(steps)
        self.fired: list[tuple[int, int, int, dict[str, tuple[int, int]]]] = []
        self.windows: dict[str, int] = {}
        self.writers: dict[str, list[tuple[int, ByteAccess]]] = {}
        self.users: dict[str, list[tuple[int, ByteAccess]]] = {}
        for number, step in enumerate(steps):
            for access in step.accesses:
                self.users.setdefault(access.buffer, []).append((number, access))
                if access.written:
                    self.writers.setdefault(access.buffer, []).append((number, access))

    def complete_before(self, cut: int) -> None:
        """Compute all that steps from number `cut` on read of earlier ones, and all that these write of outputs."""
        for buffer, users in self.users.items():
            if buffer in self.outputs or any(number >= cut for number, _ in users):
                for number, _ in self.writers.get(buffer, []):
                    if number < cut:
                        self.compute(number, self.steps[number].units)

    def compute(self, number: int, end: int) -> None:
        """Compute a step's units up to `end`, in blocks, each after what it reads."""
        while self.done[number] < end:
            stop = self._make_ready(number, end)
            begin, self.done[number] = self.done[number], stop
            self.fire(number, begin, stop)

    def _make_ready(self, number: int, end: int) -> int:
        """Compute what a step's next block, up to unit `end` at most, comes after; return the block's end."""
        step = self.steps[number]
        stop = min(end, self.done[number] + step.block)
        for access in step.accesses:
            high = access.begin + (stop - 1) * access.step + access.extent
            if access.written:
                self._let_read(number, access, high)
            else:
                self._let_write(number, access.buffer, high)
        return stop

    def _let_write(self, reader: int, buffer: str, high: int) -> None:
        """Compute what earlier steps write below byte `high`.

        All of them are made ready before the first is computed. Otherwise the border of an image, which needs nothing,
        would be written before all that its inside is computed from, and the image be live for as long.
        """
        ends: dict[int, int] = {}
        for number, access in self.writers.get(buffer, []):
            if number < reader:
                ends[number] = max(ends.get(number, 0), self._units_below(number, access, high))
        for number, end in ends.items():
            if self.done[number] < end:
                self._make_ready(number, end)
        for number, end in ends.items():
            self.compute(number, end)

    def _let_read(self, writer: int, written: ByteAccess, high: int) -> None:
        """Compute the readers of a buffer that a step overwrites in place: they first read all below byte `high`."""
        step = self.steps[writer]
        if not any(a.buffer == written.buffer and not a.written for a in step.accesses):
            return
        for number, access in self.users[written.buffer]:
            if number < writer and not access.written:
                self.compute(number, self._units_below(number, access, high))

    def _units_below(self, number: int, access: ByteAccess, high: int) -> int:
        """Return how many units begin below byte `high`."""
        if high <= access.begin:
            return 0
        units = self.steps[number].units
        return units if not access.step else min(units, -(-(high - access.begin) // access.step))

    def fire(self, number: int, begin: int, end: int) -> None:
        """Note a firing, and what each buffer's window has to hold at it."""
        live: dict[str, tuple[int, int]] = {}
        for access in self.steps[number].accesses:
            buffer = access.buffer
            if buffer in self.sizes:
                high = min(self.sizes[buffer], access.begin + (end - 1) * access.step + access.extent)
                first = access.begin + begin * access.step
                low = max(0, min([first, *self._next_bytes(buffer)])) // ALIGN * ALIGN
                before, top = live.get(buffer, (low, 0))
                live[buffer] = min(low, before), max(top, high)
        for buffer, (low, high) in live.items():
            self.windows[buffer] = max(self.windows.get(buffer, 0), high - low)
        self.fired.append((number, begin, end, live))

    def _next_bytes(self, buffer: str) -> list[int]:
        """Return the first byte that each step with units left touches next."""
        return [
            access.begin + self.done[number] * access.step
            for number, access in self.users[buffer]
            if self.done[number] < self.steps[number].units
        ]


def _place_windows(steps: Sequence[UnitStep], demand: _Demand, windows: Mapping[str, int]) -> RowSchedule:
    """Give each firing the first byte of each window, with moves before it where a window's end is reached."""
    phases: list[Firing | Move] = []
    origins: dict[str, int] = dict.fromkeys(windows, 0)
    written: dict[str, int] = dict.fromkeys(windows, 0)
    lifetimes: dict[str, tuple[int, int]] = {}
    for number, begin, end, live in demand.fired:
        for buffer, (low, high) in live.items():
            if high - origins[buffer] > windows[buffer]:
                phases += _moves(buffer, origins[buffer], low, written[buffer])
                origins[buffer] = low
        for access in steps[number].accesses:
            if access.buffer in windows:
                first = lifetimes.get(access.buffer, (len(phases), 0))[0]
                lifetimes[access.buffer] = first, len(phases)
                if access.written:
                    written[access.buffer] = max(written[access.buffer], live[access.buffer][1])
        phases.append(Firing(number, begin, end, {buffer: origins[buffer] for buffer in live}))
    return RowSchedule(tuple(phases), windows, lifetimes)


def _moves(buffer: str, origin: int, low: int, high: int) -> list[Move]:
    """Return moves that make `low` the window's first byte; in pieces no longer than the distance that they go."""
    distance, end = low - origin, _up(high) - origin
    return [
        Move(buffer, source, source - distance, min(distance, end - source))
        for source in range(distance, end, distance)
        if source < end
    ]
