"""Windows of buffers: the bytes that are live at once lie in a window, which moves along the whole buffer.

The live bytes are contiguous in the window as in the whole buffer; when they reach the window's end, those still to be
read are moved to its beginning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.memory.row_demand import RowDemand, UnitStep, align_up


@dataclass(frozen=True)
class Firing:
    """Units `begin` to before `end` of a step. origins: first byte of each buffer's window at that time."""

    step: int
    begin: int
    end: int
    origins: Mapping[str, int]


@dataclass(frozen=True)
class Move:
    """A copy of `size` bytes inside a buffer's window.

    Source and target are offsets in the window and do not overlap.
    """

    buffer: str
    source: int
    target: int
    size: int


@dataclass(frozen=True)
class RowSchedule:
    """A schedule by parts of rows.

    phases: in order. windows: bytes of each buffer's window. lifetimes: first and last phase of each window.
    """

    phases: tuple[Firing | Move, ...]
    windows: Mapping[str, int]
    lifetimes: Mapping[str, tuple[int, int]]

    @property
    def moved_bytes(self) -> int:
        """Bytes copied by all moves."""
        return sum(phase.size for phase in self.phases if isinstance(phase, Move))


def place_windows(steps: Sequence[UnitStep], demand: RowDemand, windows: Mapping[str, int]) -> RowSchedule:
    """Return the schedule with the origin of each window at each firing, and moves where a window's end is reached."""
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
    """Return the moves that make `low` the window's first byte, in pieces that are no longer than their distance."""
    distance, end = low - origin, align_up(high) - origin
    return [
        Move(buffer, source, source - distance, min(distance, end - source))
        for source in range(distance, end, distance)
        if source < end
    ]
