"""8-bit convolutions by im2row: a copy of each output pixel's inputs, then one matrix product.

Results are the same bits as those of implicit GEMM, as all sums are exact. A patch is one contiguous run of bytes, so
that an instruction's groups of four terms are full over the whole patch instead of over each row of taps. That is
faster with few channels, or where a dilation separates taps.
"""

from collections.abc import Mapping
from dataclasses import replace

from mavcg.graph import Graph, Node
from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.nest import collapse
from mavcg.kernels.int8.conv2d import is_depthwise, qconv_step, residual_view
from mavcg.kernels.int8.packed_weights import WeightForm
from mavcg.kernels.tensor.copies import CopySpec
from mavcg.specs.kernel import Operand, Packing, Step, View

IM2ROW = "im2row"
SLACK_BYTES = 64  # added to the workspace, as a sum of fewer than four terms reads four bytes
ONE = (1, 1)


def im2row_choices(node: Node, graph: Graph) -> tuple[str, ...]:
    """Return the algorithms, apart from the default, that can compute a qconv2d whose padding is in its input.

    There are none for 1 x 1 kernels of stride 1, whose image is the matrix already, and for depthwise convolutions,
    whose sums are short.
    """
    if node.op != "qconv2d" or any(name not in graph.constants for name in node.inputs[1:5] if name):
        return ()
    out_ch, *kernel, per_group = graph.shape(node.inputs[1])
    empty = 0 in graph.shape(node.output) or 0 in (out_ch, *kernel, per_group)
    in_place = tuple(kernel) == ONE and tuple(node.attr("stride")) == ONE
    return () if empty or in_place or any(node.attr("pads")) or is_depthwise(node, graph) else (IM2ROW,)


def eight_bit_primitive(node: Node, graph: Graph, algorithm: str) -> str:
    """Return the name of the primitive for an algorithm of a qconv2d; algorithm "" is the default."""
    if algorithm == IM2ROW:
        return "qconv_im2row_hwc_hwc"
    return "qconv_depthwise_hwc_hwc" if is_depthwise(node, graph) else "qconv_implicit_hwc_hwc"


def im2row_steps(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a node by im2row: the copy of patches into a workspace, then the product."""
    x, out = views[node.inputs[0]], views[node.output]
    _, k_h, k_w, per_group = graph.shape(node.inputs[1])
    groups, (down, across) = int(node.attr("groups")), node.attr("stride")
    n, out_h, out_w, _ = out.shape
    image, row, column, channel = x.strides
    dilation = node.attr("dilation")
    terms = groups * k_h * k_w * per_group
    patches = View(x.dtype, (n, out_h, out_w, terms), dense_strides((n, out_h, out_w, terms)))
    shape = (n, out_h, out_w, groups, k_h, k_w, per_group)
    steps = (
        image,
        down * row,
        across * column,
        per_group * channel,
        dilation[0] * row,
        dilation[1] * column,
        channel,
    )
    copy = CopySpec(1, collapse(shape, (steps, dense_strides(shape))))
    workspace = Operand(workspace_bytes=patches.elements + SLACK_BYTES)
    gather = Step(copy, (Operand(node.inputs[0]), replace(workspace, written=True)), node.origin)
    residual = residual_view(node, views)
    (product,) = qconv_step(node, graph, patches, out, WeightForm.PATCHES, packing, residual, groups=groups)
    return gather, replace(product, operands=(workspace, *product.operands[1:]))
