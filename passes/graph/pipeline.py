"""The sequence of graph passes that every model goes through before kernels are generated."""

from mavcg.graph import Graph
from mavcg.graph.ops.nodes import verify
from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.block_products import fuse_gates, fuse_residuals, merge_block_products
from mavcg.passes.graph.float_widths import spell_out_double, widen_half
from mavcg.passes.graph.fold import fold_constants
from mavcg.passes.graph.integer_results import fuse_integer_results
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before, merge_scales
from mavcg.passes.graph.pads import explicit_padding, fold_pads
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import prune
from mavcg.passes.graph.quantized import eight_bit
from mavcg.passes.graph.quantized_sums import fuse_quantized_sums
from mavcg.passes.graph.rewrite import Dump, Pass
from mavcg.passes.graph.transposes import cancel_transposes

PASSES: tuple[Pass, ...] = (
    prune,
    cancel_transposes,
    prune,
    widen_half,  # before fold_constants, which folds the casts of constants
    spell_out_double,
    eight_bit,  # before fold_constants, which would fold dequantized weights to f32
    fold_constants,
    recognise_activations,  # before scales are folded, which destroys these patterns
    fold_pads,
    merge_scales,  # so that a convolution can fold a whole row of scales
    fold_scale_after,
    fold_scale_before,
    merge_scales,
    fuse_integer_results,
    fuse_quantized_sums,
    fuse_pointwise,
    merge_block_products,
    fuse_gates,
    fuse_residuals,
    explicit_padding,
    prune,
)


def optimise(graph: Graph, dump: Dump | None = None) -> Graph:
    """Apply all passes; return the graph from which kernels are generated, with the same inputs and outputs.

    dump: called with the name of each pass and its result (MAVCG_DUMP).
    Raises: MavcgError if the graph, at first or after a pass, is not well-formed (graph/ops/nodes.py).
    """
    verify(graph)
    for graph_pass in PASSES:
        graph = graph_pass(graph)
        verify(graph)
        if dump is not None:
            dump(graph_pass.__name__, graph)
    return graph
