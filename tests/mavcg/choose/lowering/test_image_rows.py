"""Rows of the image as rows of work: what is changed, and what is left as it is."""

import numpy as np

from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.lower import lower_graph
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.int8.im2row import IM2ROW
from mavcg.specs.kernel import Packing


def test_a_product_of_patches_in_a_workspace_stays_as_it_is() -> None:
    """A build for a board by parts of rows ended in a KeyError where im2row was selected for an 8-bit layer."""
    b = GraphBuilder("net")
    x = b.input("x", TensorType("i8", (1, 16, 16, 3)))
    for k, stride in ((3, 2), (1, 1)):
        c = b.types[x].shape[3]
        numbers = (np.ones((16, k, k, c), np.int8), np.zeros(16, np.int32), np.full(16, 1e-3, np.float32))
        x = b.add(
            "qconv2d",
            [x, *map(b.constant, numbers)],
            stride=(stride, stride),
            pads=(0, 0, 0, 0),
            x_zero=0,
            out_zero=0,
            lo=-128,
            hi=127,
            to="i8",
        )
    graph = b.finish([x])
    lowered = lower_graph(graph, Packing(16), {graph.nodes[0].output: IM2ROW})
    gather, product, pointwise = lowered.steps
    changed = with_image_rows(lowered)

    assert not product.operands[0].tensor and product.operands[0].workspace_bytes
    assert changed.steps[:2] == (gather, product)
    assert changed.steps[2] != pointwise and changed.steps[2].spec.rows == 7
