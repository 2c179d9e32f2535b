"""Kernels along one axis of a tensor, such as softmax and cumulative sums: their loop nest, and vectors of a line.

Along a last axis, a row of work is one line of elements. Along another axis, vectors run along the last dimension, and
each lane has a line of its own.
"""

from collections.abc import Callable
from math import prod

from llvmlite import ir

from mavcg.kernels.builder.emit import const, repeat
from mavcg.kernels.builder.nest import Nest
from mavcg.kernels.builder.run_numbers import Number, fixed_number
from mavcg.specs.kernel import KernelSpec, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text

LANES = 8  # of the emitted vectors, on every core; LLVM splits or joins them for other vector lengths


class AxisSpec(KernelSpec):
    """Base class of the specs: a row of work is one point of the outer dimensions.

    axis: (length, stride in x, stride in out). line: length of the last dimension, along which vectors run; 1 if the
    axis itself is last. outer: the other dimensions, with strides of x and out.
    """

    outer: Nest
    axis: tuple[int, int, int]
    line: int

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.outer.shape, self.line), f"k{self.axis[0]}")

    @property
    def rows(self) -> int:
        return prod(self.outer.shape)

    @property
    def work(self) -> int:
        return self.rows * self.axis[0] * self.line


def axis_lines(x: View, out: View, axis: int) -> tuple[Nest, tuple[int, int, int], int]:
    """Return (outer, axis, line) of an AxisSpec. axis: number of the dimension, from 0 on."""
    last = len(x.shape) - 1
    others = [a for a in range(last + 1) if a != axis and (a != last or axis == last)]
    outer = Nest(
        tuple(x.shape[a] for a in others) or (1,),
        (tuple(x.strides[a] for a in others) or (0,), tuple(out.strides[a] for a in others) or (0,)),
    )
    return outer, (x.shape[axis], x.strides[axis], out.strides[axis]), x.shape[last] if axis != last else 1


def emit_line(b: ir.IRBuilder, length: Number, lanes: int, body: Callable[[ir.Value, int], None], name: str) -> None:
    """Emit body(index, used lanes) for all vectors of a length; the rest one by one where a run sets the length."""
    if (known := fixed_number(length)) is not None:
        whole = known // lanes * lanes
        repeat(b, 0, whole, lambda i: body(i, lanes), name, lanes)
        if known % lanes:
            body(const(whole), known % lanes)
        return
    end = b.sub(length, b.urem(length, const(lanes)), name="whole")
    repeat(b, 0, end, lambda i: body(i, lanes), name, lanes)
    repeat(b, end, length, lambda i: body(i, 1), f"{name}_rest")
