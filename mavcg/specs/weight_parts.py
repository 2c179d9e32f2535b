"""Division of a kernel's weights into parts, of which a row of work reads one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightParts:
    """The division of a kernel's weights among its rows of work.

    count: number of equal parts; a row of work reads one. outer: number of groups of parts that are processed one after
    the other; the parts of a group are read again for each row of outputs before the next group. input_passes: number
    of times that all rows together read the input.
    """

    count: int = 1
    outer: int = 1
    input_passes: int = 1


WHOLE_WEIGHTS = WeightParts()
