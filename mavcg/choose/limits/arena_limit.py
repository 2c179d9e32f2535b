"""The limit on a context's buffers: the first choice of kernels that keeps it, computed by parts of rows if need be."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mavcg.choose.lowering.row_phases import division_of, program_rows
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.memory.row_demand import ALIGN
from mavcg.memory.row_segments import RowDivision, RowSegment, all_segments, cheapest_within, least_peak

# Sizes to try, in bytes, of the output that a step of a segment computes in one phase.
BLOCK_BYTES = tuple(4096 << (2 * exponent) for exponent in range(5))
SLACKS = (2.0, 1.0, 0.5, 0.0)  # fractions to try by which windows are enlarged, so that fewer bytes are moved
TRIES = 12  # maximum attempts with a lower limit on the peak, if placed buffers exceed the arena's limit


class ArenaTooLargeError(MavcgError):
    """Raised when no plan fits the arena's limit. least_bytes: size of the smallest arena that was found."""

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes


def first_within(
    choices: Iterable[Plan], max_arena_bytes: int, progress: Callable[[str], None] = lambda message: None
) -> Plan:
    """Return the first plan whose arena is within the limit, with the parts of rows that keep it.

    choices: lowered, by preference; one is made only if none before it is within the limit. Raises: ArenaTooLargeError
    with the smallest arena found.
    """
    tried = list[ArenaTooLargeError]()
    for choice in choices:
        whole = plan_lowered(choice.lowered)  # the tiles of its kernels do not matter
        division = _division_within(whole, max_arena_bytes, progress)
        if division.arena_bytes <= max_arena_bytes:
            return replace(choice, rows=division)
        tried.append(_too_large(whole, division, max_arena_bytes))
    raise min(tried, key=lambda error: error.least_bytes)


def _too_large(planned: Plan, division: RowDivision, max_arena_bytes: int) -> ArenaTooLargeError:
    """Return the error for a program, layer by layer, whose smallest arena is that of this division."""
    whole = planned.program.arena_bytes
    least = min(division.arena_bytes, whole)
    return ArenaTooLargeError(
        f"--max-arena {max_arena_bytes}: the buffers of {planned.program.name} take {least} bytes at "
        f"least, computed by parts of rows, and {whole} layer by layer; allow {least}",
        least,
    )


def _division_within(
    planned: Plan, max_arena_bytes: int, progress: Callable[[str], None] = lambda message: None
) -> RowDivision:
    """Return the division within the limit with the fewest phases and moves; the smallest one if none is within it.

    planned: layer by layer; the tiles of its kernels do not matter.
    """
    whole = RowDivision(arena_bytes=planned.program.arena_bytes)
    if whole.arena_bytes <= max_arena_bytes:
        return whole
    rows = program_rows(planned.lowered)
    segments = all_segments(
        rows.steps,
        rows.unit_bytes,
        rows.sizes,
        rows.outputs,
        BLOCK_BYTES,
        lambda done, total: progress(f"planning parts of rows: {100 * done // total} %"),
    )

    def division(path: Sequence[RowSegment], slack: float) -> RowDivision:
        return division_of(planned, rows, [segment.steps for segment in path], slack)

    limit = max_arena_bytes
    for _ in range(TRIES):
        path = cheapest_within(segments, limit)
        if path is None:
            break
        made = division(path, 0.0)
        if made.arena_bytes <= max_arena_bytes:
            roomier = (division(path, slack) for slack in SLACKS[:-1])
            return next((own for own in roomier if own.arena_bytes <= max_arena_bytes), made)
        # Fragmentation made the arena larger than the live peak; lower the next peak's limit by the same factor.
        limit = min(limit * max_arena_bytes // made.arena_bytes, limit - ALIGN)
    path = cheapest_within(segments, least_peak(segments))
    least = whole if path is None else division(path, 0.0)
    return min(whole, least, key=lambda own: own.arena_bytes)
