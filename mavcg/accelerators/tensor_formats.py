"""Find scale and zero point of each 8-bit tensor of a graph, which its operators have in parts.

Before that, pads of 8-bit images become those of their convolutions, and transposes of a network's 8-bit inputs and
outputs those of their real numbers, which the host does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mavcg.graph import Graph, Node
from mavcg.graph.ops.eight_bit import limits
from mavcg.passes.graph.quantized import MOVES
from mavcg.passes.graph.rewrite import Rewrite

EIGHT_BIT = ("i8", "u8")
# Attributes with the zero points of an operator's inputs, in order.
_INPUT_ZEROS: Mapping[str, tuple[str, ...]] = {
    "qconv2d": ("x_zero",),
    "qmatmul": ("x_zero",),
    "qavg_pool2d": ("x_zero",),
    "qmean": ("x_zero",),
    "qadd": ("a_zero", "b_zero"),
    "qmul": ("a_zero", "b_zero"),
}
_SAME = (*MOVES, "clip")


@dataclass(frozen=True)
class TensorFormat:
    """Scale and zero point of a tensor of dtype i8 or u8.

    scale: 1.0 if nothing in the graph needs the tensor's real numbers. zero: in the range of dtype.
    """

    dtype: str
    scale: float
    zero: int

    @property
    def offset(self) -> int:
        """Return what is subtracted from the graph's integers, which the accelerator has as int8."""
        return 128 if self.dtype == "u8" else 0

    @property
    def int8_zero(self) -> int:
        """Return the zero point of the accelerator's int8."""
        return self.zero - self.offset

    def real(self, integer: int) -> float:
        """Return the real number that one of the graph's integers stands for."""
        return (integer - self.zero) * self.scale


def tensor_formats(graph: Graph, model: Graph) -> dict[str, TensorFormat]:
    """Return the format of each 8-bit tensor that is not constant; tensors that operators only move share it.

    graph: with operators on 8-bit numbers. model: the same before these passes, whose inputs and outputs have the same
    names, and which dequantizes and quantizes each tensor.
    """
    names = [n for n, t in graph.types.items() if t.dtype in EIGHT_BIT and n not in graph.constants]
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for node in graph.nodes:
        if node.op in _SAME and node.output in parent:
            for name in node.inputs:
                if name in parent:
                    parent[root(name)] = root(node.output)
    whole: dict[str, tuple[float, int]] = {}
    zeros: dict[str, int] = {}
    boundary = {*graph.inputs, *graph.outputs}
    for source in (graph, model):
        for name, scale, zero in _stated_formats(source):
            if name in parent and (source is graph or name in boundary):
                whole.setdefault(root(name), (scale, zero))
    for node in graph.nodes:
        given = zip(node.inputs, _INPUT_ZEROS.get(node.op, ()), strict=False)
        stated = [*given, (node.output, "out_zero")] if node.op in _INPUT_ZEROS else []
        for name, attr in stated:
            if name in parent:
                zeros.setdefault(root(name), node.attr(attr))
    formats = {}
    for name in names:
        dtype = graph.types[name].dtype
        scale, zero = whole.get(root(name), (1.0, zeros.get(root(name), sum(limits(dtype)) // 2 + 1)))
        formats[name] = TensorFormat(dtype, scale, zero)
    return formats


def _stated_formats(graph: Graph) -> Iterator[tuple[str, float, int]]:
    """Yield (tensor, scale, zero point) of each quantize and dequantize with one constant scale."""
    for node in graph.nodes:
        if node.op in ("quantize", "dequantize") and (found := stated_format(graph, node)) is not None:
            yield (node.output if node.op == "quantize" else node.inputs[0]), *found


def stated_format(graph: Graph, node: Node) -> tuple[float, int] | None:
    """Return the constant scale and zero point of a quantize or dequantize; None for others."""
    scale, zero = (graph.constants.get(name) for name in node.inputs[1:])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])


def transposes_outside(graph: Graph) -> Graph:
    """Move transposes of quantized inputs before their quantize, and those of dequantized outputs after dequantize.

    Before:
        input %x: f32[1,3,4,4]
        const %s: f32[] = {0.5}
        const %z: i8[] = {0}
        %q = quantize(%x, %s, %z) to="i8"
        %t = transpose(%q) perm=[0,2,3,1]
        return %t
    After:
        input %x: f32[1,3,4,4]
        const %s: f32[] = {0.5}
        const %z: i8[] = {0}
        %x.1 = transpose(%x) perm=[0,2,3,1]
        %t = quantize(%x.1, %s, %z) to="i8"
        return %t
    """
    new, makers = Rewrite(graph), graph.producers()
    for node in graph.nodes:
        before = makers.get(node.inputs[0]) if node.op in ("transpose", "dequantize") else None
        if before is None or not new.only_reader(node.inputs[0]):
            new.keep(node)
        elif node.op == "transpose" and before.op == "quantize" and stated_format(graph, before) is not None:
            moved = new.add("transpose", (new.of(before.inputs[0]),), before.inputs[0], perm=node.attr("perm"))
            scale, zero = before.inputs[1:]
            new.into(node.output, "quantize", (moved, scale, zero), before.origin, to=before.attr("to"))
        elif node.op == "dequantize" and before.op == "transpose" and stated_format(graph, node) is not None:
            real = new.add("dequantize", (new.of(before.inputs[0]), *node.inputs[1:]), node.output, node.origin)
            new.into(node.output, "transpose", (real,), before.origin, perm=before.attr("perm"))
        else:
            new.keep(node)
    return new.finish()


def fold_eight_bit_pads(graph: Graph) -> Graph:
    """Fold each pad of an 8-bit image by its zero point into the convolutions that read it.

    Before:
        input %x: i8[1,2,2,1]
        const %w: i8[1,2,2,1] = {1, 2, 3, 4}
        const %b: i32[1] = {0}
        const %m: f32[1] = {0.5}
        %p = pad(%x) before=[0,1,0,0] after=[0,0,1,0] value=-5.0
        %y = qconv2d(%p, %w, %b, %m) x_zero=-5 out_zero=0 lo=-128 hi=127 to="i8"
        return %y
    After:
        input %x: i8[1,2,2,1]
        const %w: i8[1,2,2,1] = {1, 2, 3, 4}
        const %b: i32[1] = {0}
        const %m: f32[1] = {0.5}
        %y = qconv2d(%x, %w, %b, %m) pads=[1,0,0,1] x_zero=-5 out_zero=0 lo=-128 hi=127 to="i8"
        return %y
    """
    new, makers = Rewrite(graph), graph.producers()
    for node in graph.nodes:
        pad = makers.get(node.inputs[0]) if node.op == "qconv2d" else None
        if pad is None or pad.op != "pad" or pad.attr("mode") != "constant" or pad.attr("value") != node.attr("x_zero"):
            new.keep(node)
            continue
        before, after, own = pad.attr("before"), pad.attr("after"), node.attr("pads")
        if any((*before[::3], *after[::3])) or min(*before, *after) < 0:
            new.keep(node)
            continue
        pads = tuple(a + b for a, b in zip(own, (*before[1:3], *after[1:3]), strict=True))
        image = new.of(pad.inputs[0])
        new.put(replace(node.with_attrs(pads=pads), inputs=(image, *map(new.of, node.inputs[1:]))))
    return new.finish()
