"""A small network for tests of accelerators."""

import numpy as np

from mavcg.graph import Array, Graph, TensorType
from mavcg.graph.builder import GraphBuilder


def network() -> Graph:
    """Convolutions of all kinds, pools, a residual, a concat, upsampling, space to depth, a flattened product."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> Array:
        return random.standard_normal(shape).astype(np.float32)

    b = GraphBuilder("net")
    image = b.input("image", TensorType("f32", (1, 3, 16, 12)))
    x = b.add("transpose", (image,), perm=(0, 2, 3, 1))
    c1 = b.add("conv2d", (x, b.constant(weights(8, 3, 3, 3)), b.constant(weights(8))), "c1", pads=(1, 1, 1, 1))
    c1 = b.add("relu", (c1,))
    dw = b.add("conv2d", (c1, b.constant(weights(8, 3, 3, 1))), "dw", pads=(2, 2, 2, 2), dilation=(2, 2), groups=8)
    dw = b.add("clip", (dw,), lo=0.0, hi=6.0)
    summed = b.add("relu", (b.add("add", (dw, c1)),))
    pooled = b.add("max_pool2d", (summed,), kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1))
    mean = b.add("avg_pool2d", (summed,), kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1))
    joined = b.add("concat", (pooled, mean), axis=3)
    rows = np.arange(16, dtype=np.int32)[:, None] // 2
    up = b.add("resample", (joined, b.constant(rows), b.constant(np.ones((16, 1), np.float32))), axis=1)
    columns = np.arange(12, dtype=np.int32)[:, None] // 2
    up = b.add("resample", (up, b.constant(columns), b.constant(np.ones((12, 1), np.float32))), axis=2)
    blocks = b.add("reshape", (up,), shape=(1, 8, 2, 6, 2, 16))
    blocks = b.add("reshape", (b.add("transpose", (blocks,), perm=(0, 1, 3, 2, 4, 5)),), shape=(1, 8, 6, 64))
    de = b.add("conv_transpose2d", (blocks, b.constant(weights(4, 3, 3, 64))), "de", stride=(2, 2), pads=(1, 1, 1, 1))
    de = b.add("sigmoid", (de,))
    scaled = b.add("mul", (b.add("leaky_relu", (de,), alpha=0.1), b.constant(weights(4))))
    flat = b.add("reshape", (scaled,), shape=(1, 15 * 11 * 4))
    logits = b.add("matmul", (flat, b.constant(weights(660, 5)), b.constant(weights(5))), "fc")
    return b.finish((b.add("softmax", (logits,), axis=1),))
