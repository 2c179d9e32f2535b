"""Parts of a kernel's weights, where a row of work reads one of them and not all."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightParts:
    """A division of a kernel's weights among its rows of work.

    count: equal parts of the weights; a row of work reads one. outer: groups of parts that rows finish one after the
    other; the parts of a group come again for each row of outputs before the next group begins. input_passes: how often
    the rows together walk over the input.
    """

    count: int = 1
    outer: int = 1
    input_passes: int = 1


WHOLE_WEIGHTS = WeightParts()
