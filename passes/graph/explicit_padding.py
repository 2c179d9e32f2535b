"""Moves the padding of convolutions into pad nodes, because their kernels do not read outside of their input."""

from dataclasses import replace

from mavcg.graph import Graph, Node
from mavcg.passes.graph.rewrite import Rewrite

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
        value = _border(new, node)
        key = (image, node.attr("pads"), value)
        if key not in padded:
            padded[key] = _pad(new, node, image, value)
        # By position: the image may be the residual too, and that is added as it is.
        new.put(replace(node.with_attrs(pads=(0, 0, 0, 0)), inputs=(padded[key], *map(new.of, node.inputs[1:]))))
    return new.finish()


def _border(new: Rewrite, node: Node) -> float | str:
    """Return the number that a convolution's image is padded with, or the name of the tensor that holds it."""
    if node.op == "iconv2d":
        return new.of(node.inputs[2])
    return float(node.attr("x_zero")) if node.op == "qconv2d" else 0.0


def _pad(new: Rewrite, node: Node, image: str, value: float | str) -> str:
    top, left, bottom, right = node.attr("pads")
    around = {"before": (0, top, left, 0), "after": (0, bottom, right, 0)}
    if isinstance(value, str):
        return new.add("pad_with", (image, value), node.output, node.origin, **around)
    return new.add("pad", (image,), node.output, node.origin, mode="constant", value=value, **around)
