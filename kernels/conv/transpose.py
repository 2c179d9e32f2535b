"""Transposed f32 convolutions, computed by phases: output pixels a stride apart use the same taps of the filter.

With a stride of 2, the even pixels of a row are a plain convolution of the image with every second tap, the odd pixels
one with the other taps. Each output row is computed from a few image rows, which are copied into scratch with a border
of zeros, phase by phase with the micro-kernel of conv2d.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import address, const, finish_rows, kernel_function, scale_index
from mavcg.kernels.conv.transpose_phases import Phases
from mavcg.kernels.conv.transpose_plain import Plain
from mavcg.kernels.conv.transpose_spec import ConvTranspose2d
from mavcg.kernels.gemm.tile import F32_BYTES, packed_phases, reach
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View

Value: TypeAlias = ir.Value
# Weights are not packed by phases if that multiplies the taps by more than MOST_ABSENT, because of zeros for absent
# taps, and takes more than LARGE_BYTES.
MOST_ABSENT = 16
LARGE_BYTES = 1 << 20


def lower_conv_transpose2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a conv_transpose2d node. Pads and output_pads only select the output pixels.

    Raises: MavcgError for a type other than f32.
    """
    x, out, name = views[node.inputs[0]], views[node.output], node.inputs[1]
    if x.dtype != "f32":
        raise MavcgError(f"node '{node.origin}' (conv_transpose2d): its type is {x.dtype}; only f32 is supported")
    weights, shape = graph.constants.get(name), graph.shape(name)
    stride, dilation, pads, groups = (node.attr(n) for n in ("stride", "dilation", "pads", "groups"))
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    kernel = shape[1], shape[2]
    if weights is not None and _mostly_absent(weights.shape, stride, dilation):
        weights = None  # read unpacked: packed by phases, most taps would be zeros
    spec = ConvTranspose2d(
        x,
        out,
        kernel,
        tuple(stride),
        tuple(dilation),
        tuple(pads[:2]),
        groups,
        packing.lanes,
        bool(bias),
        weights is not None,
        node.attr("act"),
        tuple(node.attr("act_args")),
    )
    packed = Operand(name)
    if weights is not None:
        packed = Operand(constant=packed_phases(name, shape, spec.stride, spec.dilation, groups, packing.lanes))
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True)]
    return (Step(spec, (*operands, *([Operand(bias)] if bias else [])), node.origin),)


def _mostly_absent(shape: tuple[int, ...], stride: Sequence[int], dilation: Sequence[int]) -> bool:
    """Return True if packing by phases would add too many zeros for absent taps."""
    taps = prod(stride[i] * reach(shape[1 + i], stride[i], dilation[i]) for i in (0, 1))
    return taps > MOST_ABSENT * shape[1] * shape[2] and taps * shape[0] * shape[3] * F32_BYTES > LARGE_BYTES


def emit_conv_transpose2d(module: ir.Module, spec: ConvTranspose2d, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    emitter = Phases(b, spec, machine) if spec.packed else Plain(b, spec, machine)
    height = const(spec.out.shape[1])

    def row(index: Value) -> None:
        image, y = b.sdiv(index, height, name="image"), b.srem(index, height, name="y")
        offset = b.add(scale_index(b, image, spec.out.strides[0]), scale_index(b, y, spec.out.strides[1]))
        x = address(b, emitter.x, scale_index(b, image, spec.x.strides[0] * F32_BYTES))
        out = address(b, emitter.out, b.mul(offset, const(F32_BYTES)))
        emitter.row(x, b.add(y, const(spec.pads[0])), out)

    return finish_rows(b, row)


LOWER = {"conv_transpose2d": lower_conv_transpose2d}
EMIT = {ConvTranspose2d: emit_conv_transpose2d}
