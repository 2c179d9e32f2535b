"""All passes in order: what every graph goes through before kernels are made of it."""

from mavcg.graph import Graph
from mavcg.ops.verify import verify
from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.explicit_padding import explicit_padding
from mavcg.passes.graph.float_widths import spell_out_double, widen_half
from mavcg.passes.graph.fold import fold_constants
from mavcg.passes.graph.integer_results import fuse_integer_results
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before, merge_scales
from mavcg.passes.graph.pads import fold_pads
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import prune
from mavcg.passes.graph.quantized import eight_bit
from mavcg.passes.graph.rewrite import Dump, Pass
from mavcg.passes.graph.transposes import cancel_transposes

PASSES: tuple[Pass, ...] = (
    prune,
    cancel_transposes,
    prune,
    widen_half,  # before constants are folded, the widened among them
    spell_out_double,
    eight_bit,  # before constants are folded, dequantized weights among them
    fold_constants,
    recognise_activations,  # before scales are folded, which splits such forms up
    fold_pads,
    merge_scales,  # so that a convolution takes in one scale, however many there are in a row
    fold_scale_after,
    fold_scale_before,
    merge_scales,
    fuse_integer_results,
    fuse_pointwise,
    explicit_padding,
    prune,
)


def optimise(graph: Graph, dump: Dump | None = None) -> Graph:
    """Return the graph that kernels are made of, with the same inputs and outputs.

    dump: called with the name of each pass and what it made, so that somebody can look (MAVCG_DUMP). Raises: MavcgError
    where a graph, at first or after a pass, does not keep to the rules.
    """
    verify(graph)
    for one in PASSES:
        graph = one(graph)
        verify(graph)
        if dump is not None:
            dump(one.__name__, graph)
    return graph
