"""Rounds constant weights to f16, bf16 or 8 bits, in which they lie in memory, for layers that compute in f32."""

from collections.abc import Collection

import numpy as np

from mavcg.graph import Array, Graph
from mavcg.passes.graph.precision import to_half
from mavcg.passes.graph.rewrite import Rewrite
from mavcg.specs.channel_scales import channel_axis, rounded_to_eight_bits


def with_stored_weights(graph: Graph, outputs: Collection[str], stored: str) -> Graph:
    """Round the weights of products and let them lie in memory as f16, bf16 or i8.

    Before:
        input %x: f32[1,2]
        const %w: f32[2,2] = {1.0, 0.1, 2.0, 3.0}
        %y = matmul(%x, %w)
        return %y
    After:
        input %x: f32[1,2]
        const %w.1: f32[2,2] = {1.0, 0.0999755859375, 2.0, 3.0}
        %y = matmul(%x, %w.1) weights="f16"
        return %y

    outputs: of nodes that compute in f32, whose second input is constant. Rounding is to the nearest, and to even
    between two; a finite number beyond the type's range becomes its largest. Those in i8 are multiples of a scale of
    each output channel (mavcg/specs/channel_scales.py). Other readers of the same constant keep the exact one.
    """
    new = Rewrite(graph)
    for node in graph.nodes:
        if node.output not in outputs:
            new.keep(node)
            continue
        x, weights, *rest = (new.of(name) for name in node.inputs)
        rounded = new.constant(round_to_stored(graph.constants[weights], stored, channel_axis(node)), weights)
        new.into(node.output, node.op, (x, rounded, *rest), node.origin, **{**dict(node.attrs), "weights": stored})
    return new.finish()


def round_to_stored(array: Array, stored: str, axis: int = 0) -> Array:
    """Return f32 weights rounded to f16, bf16 or i8, as f32. axis: of the output channels, whose scales i8 has."""
    if stored == "i8":
        return rounded_to_eight_bits(array, axis)
    return np.asarray(to_half(array, stored).astype(np.float32))
