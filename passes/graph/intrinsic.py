"""Folds scales and shifts before and after a convolution or product into its weights and bias.

Weights are computed in double precision and rounded once.
"""

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.passes.graph.rewrite import Rewrite, fuse_with_makers

CONVOLUTIONS = ("conv2d", "conv_transpose2d")
LINEAR = (*CONVOLUTIONS, "matmul")


def fold_scale_after(graph: Graph) -> Graph:
    """Fold a scale and shift per output channel after a convolution or product into its weights and bias.

    Before:
        input %x: f32[1,4,4,1]
        const %w: f32[2,1,1,1] = {1.0, 2.0}
        const %scale: f32[2] = {4.0, 8.0}
        const %shift: f32[1,1,1,2] = {0.5, 0.25}
        %c = conv2d(%x, %w)
        %m = mul(%c, %scale)
        %y = add(%m, %shift)
        return %y
    After:
        input %x: f32[1,4,4,1]
        const %m.1: f32[2] = {0.5, 0.25}
        const %w.1: f32[2,1,1,1] = {4.0, 16.0}
        %y = conv2d(%x, %w.1, %m.1)
        return %y

    Batch normalisation is imported as such a mul and add. mul, add, sub and div are folded, with one number for all
    channels or one per channel. A convolution whose result has another reader, or that has an activation or residual,
    stays as it is. A shift is folded into the bias even if the weights are computed at run time.
    """
    return fuse_with_makers(graph, _with_scale)


def _with_scale(new: Rewrite, node: Node) -> Node | None:
    """Return the convolution or product that computes a scale or shift after it too, or None."""
    affine = _affine(new, node)
    prior = new.made.get(new.of(affine[0])) if affine else None
    if affine is None or prior is None or prior.op not in LINEAR or not new.only_reader(affine[0]):
        return None
    return _with_affine(new, prior, node, affine[1], affine[2])


def _affine(new: Rewrite, node: Node) -> tuple[str, Array, Array] | None:
    """Return (x, scale, shift) of a node that computes x * scale + shift with constants, or None.

    x: name in the old graph. scale, shift: f64, [channels] or scalar.
    """
    if node.op not in ("add", "sub", "mul", "div") or new.types[node.output].dtype != "f32":
        return None
    for x, constant, first in ((node.inputs[0], node.inputs[1], True), (node.inputs[1], node.inputs[0], False)):
        array = new.array(new.of(constant))
        if array is None or new.array(x) is not None or new.types[x].shape != new.types[node.output].shape:
            continue
        value = _by_channel(array)
        if value is None or not np.isfinite(value).all() or (node.op == "div" and (not first or not value.all())):
            return None
        if node.op in ("add", "sub"):
            scale = np.float64(-1.0 if node.op == "sub" and not first else 1.0)
            return x, np.asarray(scale), -value if node.op == "sub" and first else value
        return x, value if node.op == "mul" else 1.0 / value, np.asarray(0.0)
    return None


def _by_channel(array: Array) -> Array | None:
    """Return a constant that varies along its last dimension only, as f64[channels] or f64[]; None for others."""
    if array.size == 1:
        return array.reshape(()).astype(np.float64)
    return array.reshape(-1).astype(np.float64) if array.size == array.shape[-1] else None


def _with_affine(new: Rewrite, prior: Node, node: Node, scale: Array, shift: Array) -> Node | None:
    """Return the convolution or product that computes prior * scale + shift, which is what `node` does, or None."""
    x, w, bias = prior.inputs[:3]
    residual = len(prior.inputs) > 3 and prior.inputs[3]
    channels = new.types[prior.output].shape[-1]
    weights, old_bias = new.array(w), new.array(bias)
    if prior.attr("act") or residual or (bias and old_bias is None) or (scale.size not in (1, channels)):
        return None
    start = np.zeros(channels) if old_bias is None else old_bias.astype(np.float64)
    total = _round(start * scale + np.broadcast_to(shift, (channels,)))
    if total is None:
        return None
    if bool((scale != 1.0).any()):
        scaled = None if weights is None else _round(weights * _by_row(prior, scale))
        if scaled is None:
            return None
        w = new.constant(scaled, w)
    if old_bias is not None or total.any():
        bias = new.constant(total, bias or prior.output)
    inputs = (x, w, bias, *prior.inputs[3:])
    return Node(prior.op, inputs, prior.outputs, prior.attrs, prior.origin or node.origin)


def _by_row(node: Node, scale: Array) -> Array:
    """Reshape one value per output channel so that it broadcasts to the weights."""
    if scale.size > 1 and node.op in CONVOLUTIONS:
        return scale.reshape(-1, 1, 1, 1)
    return scale.reshape(-1, 1) if scale.size > 1 and node.attr("transpose_b") else scale


def _round(values: Array) -> Array | None:
    """Round to f32; None if a result is not finite, because the unfolded graph may never reach such numbers."""
    with np.errstate(over="ignore"):
        single: Array = values.astype(np.float32)
    return single if bool(np.isfinite(single).all()) else None


def fold_scale_before(graph: Graph) -> Graph:
    """Fold a scale and shift per input channel before a convolution or product into its weights and bias.

    Before:
        input %x: f32[1,4,4,2]
        const %w: f32[1,1,1,2] = {1.0, 2.0}
        const %scale: f32[2] = {4.0, 8.0}
        const %shift: f32[] = {0.5}
        %m = mul(%x, %scale)
        %s = add(%m, %shift)
        %y = conv2d(%s, %w)
        return %y
    After:
        input %x: f32[1,4,4,2]
        const %w.1: f32[1,1,1,2] = {4.0, 16.0}
        const %y.1: f32[1] = {1.5}
        %y = conv2d(%x, %w.1, %y.1)
        return %y

    A shift is not folded into a convolution with pads, because pads are 0 after the shift. The convolution must be the
    only reader of the scaled tensor.
    """
    new = Rewrite(graph)
    for node in graph.nodes:
        folded = node if node.op in ("conv2d", "matmul") else None
        while folded is not None:
            node, folded = folded, _without_scale(new, folded)
        new.keep(node)
    return new.finish()


def _without_scale(new: Rewrite, node: Node) -> Node | None:
    """Return a convolution or product with the scale or shift before it folded in, or None if there is none to fold."""
    x, w, bias = node.inputs[:3]
    maker = new.made.get(new.of(x))
    weights, old_bias = new.array(new.of(w)), new.array(new.of(bias))
    affine = _affine(new, maker) if maker is not None and new.only_reader(x) and x not in node.inputs[1:] else None
    if affine is None or weights is None or weights.dtype != np.float32 or (bias and old_bias is None):
        return None
    source, scale, shift = affine
    channels = new.types[source].shape[-1]
    padded = node.op == "conv2d" and any(node.attr("pads"))
    if scale.size not in (1, channels) or shift.size not in (1, channels) or (padded and shift.any()):
        return None
    if node.op == "matmul" and weights.ndim != 2:
        return None
    if bool((scale != 1.0).any()):
        scaled = _round(weights * _along_inputs(node, weights, scale))
        if scaled is None:
            return None
        w = new.constant(scaled, w)
    if shift.any():
        total = (weights * _along_inputs(node, weights, shift)).sum(axis=_summed_dimensions(node))
        single = _round(total + (0.0 if old_bias is None else old_bias))
        if single is None:
            return None
        bias = new.constant(single, bias or node.output)
    return Node(node.op, (source, w, bias, *node.inputs[3:]), node.outputs, node.attrs, node.origin)


def _along_inputs(node: Node, weights: Array, values: Array) -> Array:
    """Reshape one value per input channel so that it broadcasts to the weights."""
    if values.size == 1:
        return values.reshape((1,) * weights.ndim)
    if node.op == "matmul":
        return values if node.attr("transpose_b") else values.reshape(-1, 1)
    groups = node.attr("groups")  # output channels of group g read input channels of group g
    return np.repeat(values.reshape(groups, -1), weights.shape[0] // groups, axis=0)[:, None, None, :]


def _summed_dimensions(node: Node) -> tuple[int, ...]:
    """Return the dimensions of the weights over which an output is a sum."""
    if node.op == "conv2d":
        return (1, 2, 3)
    return (1,) if node.attr("transpose_b") else (0,)


def merge_scales(graph: Graph) -> Graph:
    """Merge consecutive scales and shifts into one scale and one shift.

    Before:
        input %x: f32[1,4,4,2]
        const %a: f32[2] = {4.0, 8.0}
        const %b: f32[2] = {1.0, 2.0}
        const %c: f32[] = {0.5}
        %p = mul(%x, %a)
        %q = sub(%p, %b)
        %r = mul(%q, %c)
        %y = add(%r, %b)
        return %y
    After:
        input %x: f32[1,4,4,2]
        const %scale.1: f32[2] = {2.0, 4.0}
        const %shift.1: f32[2] = {0.5, 1.0}
        %y.1 = mul(%x, %scale.1)
        %y = add(%y.1, %shift.1)
        return %y

    Batch normalisation that is not folded into a convolution leaves such rows of two or four nodes.
    """
    new = Rewrite(graph)
    readers = graph.readers()
    for node in graph.nodes:
        after = readers.get(node.output, ())
        ends = not new.only_reader(node.output) or not after or _affine(new, after[0]) is None
        if _affine(new, node) is None or not ends or not _merge_scale(new, node):
            new.keep(node)
    return new.finish()


def _merge_scale(new: Rewrite, last: Node) -> bool:
    """Replace the row of scales and shifts that ends with a node by one of each; False if that is not shorter."""
    scale, shift, length = np.asarray(1.0), np.asarray(0.0), 0
    node: Node | None = last
    name = last.output
    while node is not None and (affine := _affine(new, node)) is not None and (not length or new.only_reader(name)):
        name, more_scale, more_shift = affine
        with np.errstate(all="ignore"):
            scale, shift, length = scale * more_scale, shift + scale * more_shift, length + 1
        node = new.made.get(name)
    scaled, shifted = bool((scale != 1.0).any()), bool((shift != 0.0).any())
    factors, shifts = _round(scale), _round(shift)
    if length <= scaled + shifted or factors is None or shifts is None:
        return False
    if not (scaled or shifted):
        new.alias(last.output, name)
    if scaled:
        factor = new.constant(factors, "scale")
        inputs = (name, factor)
        name = new.add("mul", inputs, last.output, last.origin) if shifted else new.into(last.output, "mul", inputs)
    if shifted:
        new.into(last.output, "add", (name, new.constant(shifts, "shift")), last.origin)
    return True
