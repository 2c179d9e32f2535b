"""Emitter of the loops over second parts of weights (excess.py), which a register tile adds to its sums."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import I32, I64, Values, address, const, for_range, scale_index
from mavcg.kernels.builder.product_loop import TermPointers
from mavcg.kernels.builder.run_numbers import times
from mavcg.kernels.int8.excess import HEADER_WORDS, WORD_BYTES
from mavcg.kernels.int8.register_tile import SumRun

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class ExcessPointers:
    """Pointers into a table of weights' second parts (excess.excess_table).

    header: words of the tile's first panel. lane_bytes: from the weights of a panel's first channel to those of the
    tile's. group_bytes: size of the weights of a group, of all channels of a panel.
    """

    table: Value
    header: Value
    lane_bytes: Value
    group_bytes: int

    def add(
        self,
        b: ir.IRBuilder,
        run: SumRun,
        inputs: Value,
        panel: int,
        add: Callable[[TermPointers, Values], Values],
        sums: Values,
    ) -> Values:
        """Emit the loop over the second parts of a panel's weights; return the sums.

        inputs: pointer to those of the tile's first pixel. panel: its number in the tile. add(pointers to a group's
        inputs and weights, sums): the sums with its products.
        """
        header = address(b, self.header, panel * HEADER_WORDS * WORD_BYTES)
        weights = address(b, address(b, self.table, _word(b, header, 0, "weights_at")), self.lane_bytes)
        places = address(b, self.table, _word(b, header, 1, "places_at"))
        words = len(run.levels) + 1

        def part(index: Value, carried: Values) -> Values:
            place = address(b, places, scale_index(b, index, words * WORD_BYTES))
            group = address(b, inputs, _word(b, place, words - 1, "of_run"))
            for level, (_, step) in enumerate(run.levels):
                group = address(b, group, times(b, _word(b, place, level, "tap"), step))
            return add(TermPointers(group, address(b, weights, scale_index(b, index, self.group_bytes))), carried)

        return for_range(b, const(0), _word(b, header, 2, "parts"), 1, sums, part, "part")


def _word(b: ir.IRBuilder, base: Value, number: int, name: str) -> Value:
    """Emit the load of a word of the table, as i64."""
    return b.sext(b.load(address(b, base, number * WORD_BYTES), name=name, align=4, typ=I32), I64)
