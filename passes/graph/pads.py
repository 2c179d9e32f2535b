"""Folds pad nodes into the convolutions and pools that read them, and moves padding that kernels do not read out again.

Kernels of convolutions do not read outside of their input.
"""

from dataclasses import replace

import numpy as np

from mavcg.graph import Graph, Node
from mavcg.passes.graph.rewrite import Rewrite


def fold_pads(graph: Graph) -> Graph:
    """Fold a pad into the convolution or pool that reads it.

    Before:
        input %x: f32[1,4,4,1]
        const %w: f32[1,1,2,1] = {1.0, 2.0}
        %p = pad(%x) before=[0,1,1,0] after=[0,0,1,0]
        %y = conv2d(%p, %w)
        return %y
    After:
        input %x: f32[1,4,4,1]
        const %w: f32[1,1,2,1] = {1.0, 2.0}
        %y = conv2d(%x, %w) pads=[1,1,0,1]
        return %y

    Pads of zeros are folded into conv2d and avg_pool2d, which then counts them; into max_pool2d pads of -infinity, or
    zeros if no element is negative, unless a window lies in the pads alone. The pad node is removed once all its
    readers pad by themselves.
    """
    new = Rewrite(graph)
    for node in graph.nodes:
        maker = new.made.get(new.of(node.inputs[0])) if node.op in ("conv2d", "avg_pool2d", "max_pool2d") else None
        if maker is None or maker.op != "pad" or not _pads_alike(new, node, maker):
            new.keep(node)
            continue
        (_, top, left, _), (_, bottom, right, _) = maker.attr("before"), maker.attr("after")
        more = (top, left, bottom, right)
        attrs = {"pads": tuple(a + b for a, b in zip(node.attr("pads"), more, strict=True))}
        if node.op == "avg_pool2d":
            attrs["count_pads"] = tuple(a + b for a, b in zip(node.attr("count_pads"), more, strict=True))
        new.keep(node.with_attrs(**attrs).with_inputs({node.inputs[0]: maker.inputs[0]}))
    return new.finish()


def _pads_alike(new: Rewrite, node: Node, pad: Node) -> bool:
    before, after, value = pad.attr("before"), pad.attr("after"), pad.attr("value")
    if pad.attr("mode") != "constant" or before[0] or before[3] or after[0] or after[3]:
        return False
    if node.op != "max_pool2d":
        return bool(value == 0.0)
    whole = node.attr("dilation") == (1, 1) and all(
        max(node.attr("pads")[i] + before[1 + i], node.attr("pads")[2 + i] + after[1 + i]) < node.attr("kernel")[i]
        for i in (0, 1)
    )
    lowest = value <= float(np.finfo(np.float32).min)
    harmless = lowest or (value == 0.0 and _no_negative(new, pad.inputs[0]))
    return bool(whole and harmless) and new.types[pad.output].dtype == "f32"


def _no_negative(new: Rewrite, name: str, most: int = 64) -> bool:
    """True if a tensor is known to have no negative element. most: limit of tensors that are examined."""
    waiting, seen = [name], {name}
    while waiting:
        sources = _sign_sources(new, waiting.pop())
        if sources is None or len(seen) > most:
            return False
        waiting += [n for n in sources if n not in seen]
        seen.update(sources)
    return True


def _sign_sources(new: Rewrite, name: str) -> tuple[str, ...] | None:
    """Return tensors such that `name` has no negative element if they have none; None if it may have one anyway."""
    node = new.made.get(name)
    if node is None:
        array = new.array(name)
        return () if array is not None and bool((array >= 0).all()) else None
    act = dict(node.attrs).get("act") or node.op
    if act in ("relu", "sigmoid", "hard_sigmoid", "exp", "abs", "softmax", "sqrt"):
        return ()
    if act == "clip":
        return () if (node.attr("act_args")[0] if node.op != "clip" else node.attr("lo")) >= 0 else None
    if node.op == "max_pool2d" and any(node.attr("pads")):
        return None  # a window in the pads alone gives -infinity
    moved = ("max_pool2d", "avg_pool2d", "reshape", "transpose", "slice", "concat")
    return node.inputs if node.op in moved else None


PADDED = ("conv2d", "qconv2d", "iconv2d")


def explicit_padding(graph: Graph) -> Graph:
    """Replace the pads of each convolution by a pad node before it.

    Before:
        input %x: f32[1,5,6,2]
        const %w: f32[1,2,2,2] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}
        %y = conv2d(%x, %w) pads=[1,0,0,1]
        return %y
    After:
        input %x: f32[1,5,6,2]
        const %w: f32[1,2,2,2] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}
        %y.1 = pad(%x) before=[0,1,0,0] after=[0,0,1,0]
        %y = conv2d(%y.1, %w)
        return %y

    8-bit images are padded with their zero point; those of iconv2d by pad_with, because their zero point is computed at
    run time. Convolutions that pad the same tensor equally share one pad node.
    """
    new = Rewrite(graph)
    padded: dict[tuple[str, tuple[int, ...], float | str], str] = {}
    for node in graph.nodes:
        if node.op not in PADDED or not any(node.attr("pads")):
            new.keep(node)
            continue
        image = new.of(node.inputs[0])
        value = border_value(node)
        value = new.of(value) if isinstance(value, str) else value
        key = (image, node.attr("pads"), value)
        if key not in padded:
            padded[key] = _pad(new, node, image, value)
        # By position: the image may be the residual too, and that is added as it is.
        new.put(replace(node.with_attrs(pads=(0, 0, 0, 0)), inputs=(padded[key], *map(new.of, node.inputs[1:]))))
    return new.finish()


def border_value(node: Node) -> float | str:
    """Return the number that a convolution's image is padded with, or the name of the tensor that holds it."""
    if node.op == "iconv2d":
        return node.inputs[2]
    return float(node.attr("x_zero")) if node.op == "qconv2d" else 0.0


def _pad(new: Rewrite, node: Node, image: str, value: float | str) -> str:
    top, left, bottom, right = node.attr("pads")
    around = {"before": (0, top, left, 0), "after": (0, bottom, right, 0)}
    if isinstance(value, str):
        return new.add("pad_with", (image, value), node.output, node.origin, **around)
    return new.add("pad", (image,), node.output, node.origin, mode="constant", value=value, **around)
