"""Every pass does what its docstring shows, and means the same after as before."""

from typing import Any

import pytest

from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.float_widths import spell_out_double, widen_half
from mavcg.passes.graph.integer_results import fuse_integer_results
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before, merge_scales
from mavcg.passes.graph.pads import explicit_padding, fold_pads
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import merge_equal, merge_moves
from mavcg.passes.graph.quantized import eight_bit
from mavcg.passes.graph.quantized_sums import fuse_quantized_sums
from mavcg.passes.graph.transposes import cancel_transposes

PASSES = [
    explicit_padding,
    merge_equal,
    merge_moves,
    cancel_transposes,
    fold_scale_after,
    fold_scale_before,
    fold_pads,
    merge_scales,
    recognise_activations,
    fuse_integer_results,
    fuse_quantized_sums,
    fuse_pointwise,
    eight_bit,
    widen_half,
    spell_out_double,
]


@pytest.mark.parametrize("function", PASSES)
def test_the_example_of_the_docstring_holds(function: Any, h: Any) -> None:
    for before, after in h.examples(function):
        assert str(function(before)) == str(after)
        h.same(before, after, relative=1e-5)


@pytest.mark.parametrize("function", PASSES)
def test_a_second_time_changes_nothing(function: Any, h: Any) -> None:
    for _, after in h.examples(function):
        assert str(function(after)) == str(after)
