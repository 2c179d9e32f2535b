"""Reader of memory planning problems in the formats of MiniMalloc and others (github.com/google/minimalloc)."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.memory.placement_search import LiveBuffer, SearchLimits, live_peak, search_placement

COLUMNS = (("id", "lower", "upper", "size"), ("buffer", "start", "end", "size"))
_LARGEST = 1 << 40  # limit of values: sums of sizes and products with lengths stay within 64 bits


@dataclass(frozen=True)
class InstanceSolution:
    """Solution of a problem.

    offsets: by the file's names of buffers. peak: end of the highest buffer. lower_bound: peak that no placement can
    undercut. nodes: of the search trees.
    """

    offsets: Mapping[str, int]
    peak: int
    lower_bound: int
    nodes: int

    @property
    def optimal(self) -> bool:
        """True if no placement is smaller, which is proven."""
        return self.peak == self.lower_bound


def read_instance(path: Path) -> dict[str, LiveBuffer]:
    """Read the buffers of a CSV file, by name; its header has COLUMNS in any order, and upper ends are exclusive.

    Raises: MavcgError naming file, line and value if the file has another form.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(number, row) for number, row in enumerate(csv.reader(file), 1) if any(c.strip() for c in row)]
    except OSError as error:
        raise MavcgError(f"{path}: cannot be read ({error.strerror}); name a CSV file of buffers") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise MavcgError(f"{path}: is not CSV ({error}); write one buffer a line: {','.join(COLUMNS[0])}") from error
    header = [cell.strip() for cell in rows[0][1]] if rows else []
    columns = next((names for names in COLUMNS if set(names) <= set(header)), None)
    if columns is None:
        expected = " or ".join(",".join(names) for names in COLUMNS)
        raise MavcgError(f"{path}: line 1: its columns are {','.join(header)!r}; name them {expected}")
    buffers: dict[str, LiveBuffer] = {}
    for number, row in rows[1:]:
        location = f"{path}: line {number}"
        if len(row) != len(header):
            raise MavcgError(f"{location}: has {len(row)} values, the header {len(header)}; give each column one")
        cells = dict(zip(header, (cell.strip() for cell in row), strict=True))
        name = cells[columns[0]]
        first, end, size = (_whole_number(location, column, cells[column]) for column in columns[1:])
        if name in buffers:
            raise MavcgError(f"{location}: {columns[0]} {name!r} appears twice; give each buffer a different name")
        if end <= first or size < 0:
            raise MavcgError(
                f"{location}: buffer {name!r} has {columns[1]} {first}, {columns[2]} {end}, size {size}; "
                f"{columns[2]} is exclusive and lies above {columns[1]}, and no size is below 0"
            )
        buffers[name] = LiveBuffer(size, first, end)
    return buffers


def _whole_number(location: str, column: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise MavcgError(f"{location}: {column} {text!r}: is not a whole number; correct it") from None
    if abs(value) > _LARGEST:
        raise MavcgError(f"{location}: {column} {text}: is beyond {_LARGEST}; use a larger unit")
    return value


def solve_instance(
    buffers: Mapping[str, LiveBuffer],
    limits: SearchLimits,
    progress: Callable[[str], None] = lambda message: None,
) -> InstanceSolution:
    """Place the buffers. limits.enough: the capacity, if one is given."""
    live = list(buffers.values())
    placed = search_placement(live, first_fit(live), limits, progress)
    offsets = dict(zip(buffers, placed.offsets, strict=True))
    return InstanceSolution(offsets, placed.extent, placed.lower_bound, placed.nodes)


def first_fit(buffers: list[LiveBuffer]) -> list[int]:
    """Return offsets by first fit: buffers by size, largest first, each at the lowest free offset."""
    offsets, placed = [0] * len(buffers), list[int]()
    for i in sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, buffers[i].first, i)):
        buffer, end = buffers[i], 0
        met = [j for j in placed if buffers[j].first < buffer.end and buffer.first < buffers[j].end]
        for start, size in sorted((offsets[j], buffers[j].size) for j in met):
            if start - end >= buffer.size:
                break
            end = max(end, start + size)
        offsets[i] = end
        placed.append(i)
    return offsets


def check_capacity(buffers: Mapping[str, LiveBuffer], capacity: int) -> None:
    """Raise MavcgError if the live peak of the buffers exceeds the capacity, in bytes."""
    peak = live_peak(list(buffers.values()))
    if peak > capacity:
        raise MavcgError(f"--capacity {capacity}: buffers that are live together need {peak}; give at least that")
