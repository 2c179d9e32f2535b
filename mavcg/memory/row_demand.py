"""The firings that a program's outputs demand, in order, and the bytes that are live at each firing.

The work of a step is divided into units. The bytes of a buffer that unit u accesses are an interval that moves up with
u. Before a step computes its next units, the earlier steps compute the units that write their inputs. A buffer thus
only holds bytes that are written and still to be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGN = 64  # alignment of a window's first byte in its buffer, and of all moves


@dataclass(frozen=True)
class ByteAccess:
    """Bytes of a buffer that unit u of a step accesses.

    `extent` bytes from `begin + u * step` on, clipped to the buffer.
    """

    buffer: str
    begin: int
    step: int
    extent: int
    written: bool = False


@dataclass(frozen=True)
class UnitStep:
    """A step of a program, divided into units. block: largest number of units that are computed at once."""

    units: int
    accesses: tuple[ByteAccess, ...]
    block: int


def align_up(size: int) -> int:
    """Return the size in bytes rounded up to a multiple of ALIGN."""
    return -(-size // ALIGN) * ALIGN


class RowDemand:
    """The order of firings that completes the outputs.

    done: units of each step that have run. fired: (step, first unit, end unit, live bytes [low, high) of each buffer).
    windows: largest extent of live bytes of each buffer.
    """

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
        """Complete the buffers that steps before `cut` write and that are outputs or are read from step `cut` on."""
        for buffer, users in self.users.items():
            if buffer in self.outputs or any(number >= cut for number, _ in users):
                for number, _ in self.writers.get(buffer, []):
                    if number < cut:
                        self.compute(number, self.steps[number].units)

    def compute(self, number: int, end: int) -> None:
        """Compute a step's units up to `end`, in blocks, each after the units that it reads."""
        while self.done[number] < end:
            stop = self._make_ready(number, end)
            begin, self.done[number] = self.done[number], stop
            self.fire(number, begin, stop)

    def _make_ready(self, number: int, end: int) -> int:
        """Compute what a step's next block reads, up to unit `end`; return the block's end."""
        step = self.steps[number]
        stop = min(end, self.done[number] + step.block)
        for access in step.accesses:
            high = access.begin + (stop - 1) * access.step + access.extent
            if access.written:
                self._run_readers(number, access, high)
            else:
                self._run_writers(number, access.buffer, high)
        return stop

    def _run_writers(self, reader: int, buffer: str, high: int) -> None:
        """Run the units of earlier steps that write below byte `high` of a buffer.

        All these steps are made ready before the first one runs. Otherwise the border of an image, which reads nothing,
        would be written before everything from which its inside is computed, and the image would be live for as long.
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

    def _run_readers(self, writer: int, written: ByteAccess, high: int) -> None:
        """Run the units that read below byte `high` of a buffer, before a step overwrites it in place."""
        step = self.steps[writer]
        if not any(a.buffer == written.buffer and not a.written for a in step.accesses):
            return
        for number, access in self.users[written.buffer]:
            if number < writer and not access.written:
                self.compute(number, self._units_below(number, access, high))

    def _units_below(self, number: int, access: ByteAccess, high: int) -> int:
        """Return the number of units whose accesses begin below byte `high`."""
        if high <= access.begin:
            return 0
        units = self.steps[number].units
        return units if not access.step else min(units, -(-(high - access.begin) // access.step))

    def fire(self, number: int, begin: int, end: int) -> None:
        """Record a firing, and the bytes that each buffer's window must hold at it."""
        live: dict[str, tuple[int, int]] = {}
        for access in self.steps[number].accesses:
            buffer = access.buffer
            if buffer in self.sizes:
                high = min(self.sizes[buffer], access.begin + (end - 1) * access.step + access.extent)
                first = access.begin + begin * access.step
                low = max(0, min([first, *self._next_bytes(buffer)])) // ALIGN * ALIGN
                low_before, top = live.get(buffer, (low, 0))
                live[buffer] = min(low, low_before), max(top, high)
        for buffer, (low, high) in live.items():
            self.windows[buffer] = max(self.windows.get(buffer, 0), high - low)
        self.fired.append((number, begin, end, live))

    def _next_bytes(self, buffer: str) -> list[int]:
        """Return for each step with remaining units the first byte that its next unit accesses."""
        return [
            access.begin + self.done[number] * access.step
            for number, access in self.users[buffer]
            if self.done[number] < self.steps[number].units
        ]
