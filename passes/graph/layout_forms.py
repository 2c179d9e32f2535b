"""Finds the layouts in which a node other than a convolution can compute on images, and rewrites it for a layout.

Images N, H, W, C are [N, C, H, W] in CHW, [N, H, C, W] in HCW, and [N * B, H, W, b] in CHWc: B blocks of b channels. In
CHW and HCW the axes of attributes change. In CHWc the padding channels of the last block have to stay zero. So CHWc is
excluded for nodes that would write other numbers there or combine channels, and, for N > 1, for constants and slices of
the batch, because N is not an axis there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.layout import AXES, Layout, image_shape, lay_out
from mavcg.graph.ops.elementwise import ACTIVATIONS
from mavcg.graph.ops.reduction import REDUCTIONS
from mavcg.graph.reference.elementwise import activate
from mavcg.passes.graph.rewrite import Rewrite

ALL = tuple(Layout)
PLANAR = tuple(layout for layout in Layout if layout.planar)
WITHOUT_BLOCKS = (*PLANAR, Layout.HWC)
# Operators with op(0, 0) == 0, which so keep the padding channels zero.
_KEEP_ZEROS = ("add", "sub", "mul", "max", "min", "prelu")
BINARY = (*_KEEP_ZEROS, "div", "pow", "mod")


@dataclass(frozen=True)
class ImageNode:
    """A node whose inputs are images or constants and whose output is an image. block: channels per block of CHWc."""

    node: Node
    graph: Graph
    block: int

    def channels(self, name: str) -> int:
        """Return the number of channels of an image."""
        return self.graph.shape(name)[3]

    @property
    def images(self) -> tuple[str, ...]:
        """The inputs that are not constants."""
        return tuple(name for name in self.node.inputs if name and name not in self.graph.constants)

    @property
    def ragged(self) -> bool:
        """True if an image has padding channels in its last block."""
        return any(self.channels(name) % self.block for name in (*self.images, self.node.output))


def is_image(tensor: TensorType | None) -> bool:
    """True if a tensor holds f32 images N, H, W, C, which can be stored in other layouts."""
    return tensor is not None and tensor.dtype == "f32" and len(tensor.shape) == 4 and tensor.shape[0] > 0


def is_entry(node: Node, graph: Graph) -> bool:
    """True if a node transposes an input of the graph from 1, C, H, W to HWC, so that the image exists in CHW too."""
    return (
        node.op == "transpose"
        and tuple(node.attr("perm")) == (0, 2, 3, 1)
        and node.inputs[0] in graph.inputs
        and is_image(graph.types.get(node.output))
    )


def layouts_of(node: Node, graph: Graph, block: int) -> tuple[Layout, ...]:
    """Return the layouts in which a node can be computed, with all images that it reads and writes in that layout.

    block: channels per block of CHWc. Every node can be computed in HWC.
    """
    if is_entry(node, graph):
        return (Layout.HWC, Layout.CHW)
    form = FORMS.get(node.op)
    tensors = [name for name in (*node.inputs, *node.outputs) if name and name not in graph.constants]
    if form is None or len(node.outputs) != 1 or not all(is_image(graph.types.get(name)) for name in tensors):
        return (Layout.HWC,)
    if any(0 in graph.shape(name) for name in tensors):
        return (Layout.HWC,)
    case = ImageNode(node, graph, block)
    able, batches = form.layouts(case), {graph.shape(name)[0] for name in tensors}
    without_constants = not any(name in graph.constants for name in node.inputs)
    if batches == {1} or (form.batch_in_blocks and len(batches) == 1 and without_constants):
        return able
    return tuple(layout for layout in able if layout is not Layout.CHWC)


def in_layout(new: Rewrite, node: Node, inputs: Mapping[str, str], layout: Layout, block: int) -> str:
    """Add a node's form in one of its `layouts_of` other than HWC to the new graph; return its output.

    inputs: image of the old graph -> tensor of the new graph that has it in the layout.
    """
    if is_entry(node, new.old):
        return new.of(node.inputs[0])
    return FORMS[node.op].write(Placed(new, ImageNode(node, new.old, block), inputs, layout))


@dataclass(frozen=True)
class Placed:
    """A node and the layout in which it is added to the new graph."""

    new: Rewrite
    case: ImageNode
    inputs: Mapping[str, str]
    layout: Layout

    @property
    def node(self) -> Node:
        """The original node, over images in HWC."""
        return self.case.node

    def image(self, name: str) -> str:
        """Return an input in the layout: an image, or a constant laid out so that it still broadcasts."""
        if name in self.inputs:
            return self.inputs[name]
        array = self.case.graph.constants[name]
        return self.new.constant(self.constant(np.asarray(array)), name)

    def constant(self, array: Array) -> Array:
        """Return a constant laid out so that it broadcasts to the output in the layout."""
        whole = array.reshape((1,) * (4 - array.ndim) + array.shape)
        if self.layout is Layout.CHWC:
            channels = self.case.channels(self.node.output)
            if channels % self.case.block or whole.shape[3] != 1:
                whole = np.broadcast_to(whole, (*whole.shape[:3], channels))
                return lay_out(whole, self.layout, self.case.block)
            return whole
        return lay_out(whole, self.layout, 1)

    def axis(self, axis: int) -> int:
        """Return the index of an axis of N, H, W, C; in CHWc channels are the blocks."""
        return (0, 1, 2, 0)[axis] if self.layout is Layout.CHWC else AXES[self.layout][axis]

    def entries(self, name: str, channels: int) -> list[int]:
        """Return an attribute with an entry per axis N, H, W, C, in the layout. channels: the entry for blocks."""
        values = self.node.attr(name)
        if self.layout is Layout.CHWC:
            return [channels, values[1], values[2], 0]
        entries = [0] * 4
        for axis, value in enumerate(values):
            entries[self.axis(axis)] = value
        return entries

    def add(self, op: str, inputs: Sequence[str], **attrs: object) -> str:
        """Add a node with the origin of the original node; return its output."""
        return self.new.add(op, inputs, self.node.output, self.node.origin, **attrs)  # type: ignore[arg-type]

    def same(self, **changed: object) -> str:
        """Add the same operator with some attributes changed; return its output."""
        names = [self.image(name) if name else "" for name in self.node.inputs]
        return self.add(self.node.op, names, **(dict(self.node.attrs) | changed))


@dataclass(frozen=True)
class Form:
    """The form of an operator in other layouts.

    layouts: returns the possible layouts of a node. write: adds the node in a layout. batch_in_blocks: True if CHWc is
    possible for several images, without constants.
    """

    layouts: Callable[[ImageNode], tuple[Layout, ...]]
    write: Callable[[Placed], str]
    batch_in_blocks: bool = False


def _unary(case: ImageNode) -> tuple[Layout, ...]:
    args = [float(case.node.attr(name)) for name in ACTIVATIONS[case.node.op]]
    with np.errstate(all="ignore"):
        keeps = not activate(np.zeros(1), case.node.op, args).any()
    return ALL if keeps or not case.ragged else WITHOUT_BLOCKS


def _binary(case: ImageNode) -> tuple[Layout, ...]:
    constants = [case.graph.shape(name) for name in case.node.inputs if name in case.graph.constants]
    if any(len(shape) > 4 for shape in constants):
        return (Layout.HWC,)
    one_size = {case.channels(name) for name in (*case.images, case.node.output)}
    blocks = len(one_size) == 1 and (not case.ragged or case.node.op in _KEEP_ZEROS)
    return ALL if blocks else WITHOUT_BLOCKS


def _pool(case: ImageNode) -> tuple[Layout, ...]:
    node = case.node
    if not case.ragged or node.op == "avg_pool2d":
        return ALL
    # A window entirely in the pads gives -inf, also for the zeros of padding channels.
    x, out = case.graph.shape(node.inputs[0]), case.graph.shape(node.output)
    for axis in (0, 1):
        pad, last = node.attr("pads")[axis], (out[1 + axis] - 1) * node.attr("stride")[axis]
        if node.attr("dilation")[axis] != 1 or pad >= node.attr("kernel")[axis] or last - pad >= x[1 + axis]:
            return WITHOUT_BLOCKS
    return ALL


def _write_pool(placed: Placed) -> str:
    """Add a pool: in CHWc unchanged, else as a pool over rows and then one over columns.

    For the pool over rows, CHW is N * C images of H rows of W elements; HCW is N images of H rows of C * W elements.
    """
    if placed.layout is Layout.CHWC:
        return placed.same()
    node = placed.node
    n, h, w, c = placed.case.graph.shape(node.inputs[0])
    _, out_h, out_w, _ = placed.case.graph.shape(node.output)
    images, length = (n * c, w) if placed.layout is Layout.CHW else (n, c * w)
    rows = placed.add("reshape", (placed.image(node.inputs[0]),), shape=(images, h, 1, length))
    rows = _along(placed, rows, 0)
    columns = placed.add("reshape", (rows,), shape=(1, n * c * out_h, w, 1))
    columns = _along(placed, columns, 1)
    return placed.add("reshape", (columns,), shape=image_shape(placed.layout, c, out_h, out_w, 1, n))


def _along(placed: Placed, x: str, axis: int) -> str:
    """Add the pool along rows (axis 0) or columns (1) only; return its output."""
    node = placed.node
    attrs = {name: tuple(node.attr(name)[axis] if i == axis else 1 for i in (0, 1)) for name in ("kernel", "stride")}
    attrs["dilation"] = tuple(node.attr("dilation")[axis] if i == axis else 1 for i in (0, 1))
    for name in ("pads", "count_pads"):
        if name in dict(node.attrs):
            attrs[name] = tuple(node.attr(name)[i] if i % 2 == axis else 0 for i in range(4))
    return placed.add(node.op, (x,), **attrs)


def _reduce(case: ImageNode) -> tuple[Layout, ...]:
    axes = case.node.attr("axes")
    if not case.node.attr("keepdims") or not all(0 <= axis < 4 for axis in axes):
        return (Layout.HWC,)
    return WITHOUT_BLOCKS if {0, 3} & set(axes) else ALL


def _concat(case: ImageNode) -> tuple[Layout, ...]:
    if len(case.images) != len(case.node.inputs) or case.node.attr("axis") == 0:
        return (Layout.HWC,)
    across = case.node.attr("axis") == 3
    whole = all(case.channels(name) % case.block == 0 for name in case.node.inputs[:-1])
    return ALL if whole or not across else WITHOUT_BLOCKS


def _slice(case: ImageNode) -> tuple[Layout, ...]:
    starts, stops, steps = (case.node.attr(name) for name in ("starts", "stops", "steps"))
    channels = case.channels(case.node.inputs[0])
    if min(steps) < 1 or (starts[0], stops[0], steps[0]) != (0, case.graph.shape(case.node.inputs[0])[0], 1):
        return (Layout.HWC,)
    ends = stops[3] % case.block == 0 or stops[3] == channels
    return ALL if steps[3] == 1 and starts[3] % case.block == 0 and ends else WITHOUT_BLOCKS


def _write_slice(placed: Placed) -> str:
    node, block = placed.node, placed.case.block
    attrs = {name: placed.entries(name, 0) for name in ("starts", "stops", "steps")}
    if placed.layout is Layout.CHWC:
        attrs["starts"][0], attrs["stops"][0] = node.attr("starts")[3] // block, -(-node.attr("stops")[3] // block)
        attrs["stops"][3], attrs["steps"][0], attrs["steps"][3] = block, 1, 1
    return placed.same(**attrs)


def _pad(case: ImageNode) -> tuple[Layout, ...]:
    before, after = case.node.attr("before"), case.node.attr("after")
    if before[0] or after[0]:
        return (Layout.HWC,)
    zeros = case.node.attr("mode") != "constant" or case.node.attr("value") == 0 or not case.ragged
    return ALL if zeros and not before[3] and not after[3] else WITHOUT_BLOCKS


def _resample(case: ImageNode) -> tuple[Layout, ...]:
    if len(case.images) != 1 or case.node.attr("axis") == 0:
        return (Layout.HWC,)
    return WITHOUT_BLOCKS if case.node.attr("axis") == 3 else ALL


def _write_resample(placed: Placed) -> str:
    x, index, weight = placed.node.inputs
    attrs = {"axis": placed.axis(placed.node.attr("axis")), "rule": placed.node.attr("rule")}
    return placed.add("resample", (placed.image(x), index, weight), **attrs)


def _write_pad(placed: Placed) -> str:
    return placed.same(before=placed.entries("before", 0), after=placed.entries("after", 0))


def _write_reduce(placed: Placed) -> str:
    return placed.same(axes=tuple(sorted(placed.axis(axis) for axis in placed.node.attr("axes"))))


def _write_concat(placed: Placed) -> str:
    return placed.same(axis=placed.axis(placed.node.attr("axis")))


FORMS: Mapping[str, Form] = {
    **{name: Form(_unary, Placed.same, True) for name in ACTIVATIONS},
    **{name: Form(_binary, Placed.same, True) for name in BINARY},
    **{name: Form(_pool, _write_pool, True) for name in ("max_pool2d", "avg_pool2d")},
    **{name: Form(_reduce, _write_reduce) for name in REDUCTIONS},
    "concat": Form(_concat, _write_concat),
    "slice": Form(_slice, _write_slice),
    "pad": Form(_pad, _write_pad),
    "resample": Form(_resample, _write_resample),
}
