"""Remove the quantisation of 8-bit models from their graphs, because radix positions are chosen anew.

Files of 8-bit models quantize each activation and dequantize it immediately (QDQ). Each such pair is replaced by a clip
to the range of its integers: some tools omit a ReLU if that range has the same effect.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mavcg.graph import DTYPES, Array, Graph, Node
from mavcg.passes.graph.rewrite import Rewrite

# Operators whose results stay in the range of their inputs, or nearly: a clip after them has no effect.
_KEEPS_RANGE = ("max_pool2d", "avg_pool2d", "reduce_mean", "concat", "reshape", "transpose", "resample")
_INTEGERS = ("i8", "u8", "i16", "u16")


def without_fake_quantisation(graph: Graph) -> Graph:
    """Replace each quantize with the dequantize after it by a clip to the range of its integers.

    Before:
        input %x: f32[2]
        const %s: f32[] = {0.5}
        const %z: u8[] = {0}
        %q = quantize(%x, %s, %z) to="u8"
        %y = dequantize(%q, %s, %z)
        return %y
    After:
        input %x: f32[2]
        %y = clip(%x) lo=0.0 hi=127.5
        return %y

    An integer input that is only dequantized becomes an f32 input. The clip is omitted if its input is an input of the
    graph, dequantized, or only moved from such a tensor. Pairs with more than one scale are not changed.
    """
    new, makers = Rewrite(graph), graph.producers()
    readers = graph.readers()
    for name in graph.inputs:
        if graph.types[name].dtype in _INTEGERS and all(_is_whole(graph, n, name) for n in readers.get(name, ())):
            new.types[name] = replace(graph.types[name], dtype="f32")
    for node in graph.nodes:
        if node.op == "dequantize" and node.inputs[0] in graph.inputs and new.types[node.inputs[0]].dtype == "f32":
            new.alias(node.output, node.inputs[0])
            continue
        quantize = makers.get(node.inputs[0]) if node.op == "dequantize" else None
        bounds = None if quantize is None else _range(graph, quantize, node)
        if quantize is None or bounds is None:
            new.keep(node)
            continue
        source = quantize.inputs[0]
        if _has_range(makers, graph, source) and node.output not in graph.outputs:
            new.alias(node.output, new.of(source))
        else:
            new.into(node.output, "clip", (new.of(source),), node.origin, lo=bounds[0], hi=bounds[1])
    return new.finish()


def _is_whole(graph: Graph, node: Node, name: str) -> bool:
    """Return True if a node dequantizes a tensor with one constant scale."""
    arrays = [graph.constants.get(read) for read in node.inputs[1:]]
    return node.op == "dequantize" and node.inputs[0] == name and all(a is not None and a.size == 1 for a in arrays)


def _has_range(makers: Mapping[str, Node], graph: Graph, name: str) -> bool:
    """Return True if a tensor is an input of the graph, or dequantized, or only moved from such a tensor."""
    pending = [name]
    while pending:
        maker = makers.get(pending.pop())
        if maker is None or maker.op == "dequantize":
            continue
        if maker.op not in _KEEPS_RANGE:
            return False
        pending += [read for read in maker.inputs if read and read not in graph.constants]
    return True


def _range(graph: Graph, quantize: Node, dequantize: Node) -> tuple[float, float] | None:
    """Return the real numbers of the smallest and largest integer; None if the nodes are not a QDQ pair."""
    if quantize.op != "quantize":
        return None
    arrays = [[graph.constants.get(name) for name in node.inputs[1:]] for node in (quantize, dequantize)]
    if any(array is None or array.size != 1 for pair in arrays for array in pair):
        return None
    (scale, zero), (other_scale, other_zero) = ([_scalar(array) for array in pair] for pair in arrays)
    if scale != other_scale or zero != other_zero:
        return None
    limits = np.iinfo(DTYPES[quantize.attr("to")])
    return float((limits.min - zero) * scale), float((limits.max - zero) * scale)


def _scalar(array: Array | None) -> float:
    assert array is not None
    return float(array.reshape(-1)[0])
